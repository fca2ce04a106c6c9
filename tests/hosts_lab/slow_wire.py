"""A wire with faults: `slow_wire.py PORT OTHER SECONDS LOST-TO-PORT LOST-FROM-PORT`.

It passes the frames between two interfaces, each after so many seconds, but for a share of them that gets lost. Linux
has a discipline for this, netem, which many kernels lack. Only the standard library is here, so that it starts at once.
"""

import collections
import random
import select
import socket
import sys
import time

_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_ALL = 3  # ETH_P_ALL
_LARGEST = 1 << 17


def _opened(interface: str) -> socket.socket:
    """Frames come and go with a header that says what the kernel has left undone of them, as their checksum."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    wire.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    wire.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
    wire.bind((interface, 0))
    return wire


def pass_frames(port: str, other: str, delay_s: float, lost_to: float, lost_from: float) -> None:
    chance = random.Random(1)
    inside, outside = _opened(port), _opened(other)
    towards = {inside: (outside, lost_from), outside: (inside, lost_to)}
    waiting: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
    print("ready", flush=True)
    while True:
        patience_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for came_in in select.select(list(towards), [], [], patience_s)[0]:
            to, lost = towards[came_in]
            frame = came_in.recv(_LARGEST)
            if chance.random() >= lost:
                waiting.append((time.monotonic() + delay_s, to, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, to, frame = waiting.popleft()
            try:
                to.send(frame)
            except OSError:
                # Its machine has just been switched off: the frame is lost.
                continue


if __name__ == "__main__":
    _port, _other, *_numbers = sys.argv[1:]
    pass_frames(_port, _other, *map(float, _numbers))
