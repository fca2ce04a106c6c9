"""The end of `corral forward` inside a job: `relay PORT...`, with frames of `corral.forwarding.lanes` as its input and
output.

It connects as the job's user, from inside the job, and only to ports on which a process of the job listens. It says
which of the PORTs have a listener, as soon as they have one.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

from corral.forwarding.job_ports import JobPorts, Listener, connecting_to, still_listens
from corral.forwarding.lanes import NOTE, RESET, Lane, Lanes

_LOOK_S = 0.3
_MOST_NAMED = 8


class Relay(Lanes):
    """Connects the lanes that the other end opens."""

    def __init__(self, receive: int, send: int, ports: list[int]) -> None:
        super().__init__(receive, send)
        self._job = JobPorts()
        self._awaited = list(ports)
        self._look_at = 0.0
        self._told = ""
        self._known: dict[int, Listener] = {}
        self._connecting: dict[int, tuple[Listener, bool]] = {}
        """The listener of each lane that is being connected, and whether it was looked for just now."""

    def on_tick(self) -> float | None:
        """Look for listeners at the ports until all have one."""
        left_s = self._look_at - time.monotonic()
        if self._awaited and left_s <= 0:
            self._look()
            self._look_at = time.monotonic() + _LOOK_S
            left_s = _LOOK_S
        return left_s if self._awaited else None

    def on_open(self, number: int, port: int) -> None:
        if self.is_full:
            self._refuse(number, "too many connections at once")
        elif port in self._known:
            self._connect(number, self._known[port], fresh=False)
        else:
            self._connect_anew(number, port)

    def _on_writable(self, lane: Lane) -> None:
        """Begin to pass bytes on, if the socket is connected to the job's listener."""
        listener, fresh = self._connecting.pop(lane.number)
        failure = lane.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        # A listener that was there before and is there now had the port in the moment between, and no other user did.
        if not failure and still_listens(listener):
            lane.connected = True
        elif fresh:
            self.reset(lane, f"{listener} cannot be connected to: {os.strerror(failure) if failure else 'it is gone'}")
        else:
            self._known.pop(listener.port, None)
            waiting, ends = bytes(lane.waiting), lane.ends
            self.close(lane)
            self._connect_anew(lane.number, listener.port, waiting, ends=ends)

    def close(self, lane: Lane) -> None:
        self._connecting.pop(lane.number, None)
        super().close(lane)

    def _connect_anew(self, number: int, port: int, waiting: bytes = b"", *, ends: bool = False) -> None:
        listeners = self._job.listeners()
        listener = next((one for one in listeners if one.port == port), None)
        if listener is None:
            self._refuse(number, _nobody_at(port, listeners))
            return
        self._known[port] = listener
        self._connect(number, listener, waiting, fresh=True, ends=ends)

    def _connect(
        self, number: int, listener: Listener, waiting: bytes = b"", *, fresh: bool, ends: bool = False
    ) -> None:
        try:
            sock = connecting_to(listener)
        except OSError as error:
            self._refuse(number, f"{listener} cannot be connected to: {error.strerror}")
            return
        self._connecting[number] = listener, fresh
        lane = self.add(number, sock, connected=False)
        lane.waiting += waiting
        lane.ends = ends

    def _refuse(self, number: int, reason: str) -> None:
        self.tell(RESET, number, reason.encode("utf-8", "replace"))

    def _look(self) -> None:
        listeners = self._job.listeners()
        ports = {one.port for one in listeners}
        found = [port for port in self._awaited if port in ports]
        self._awaited = [port for port in self._awaited if port not in ports]
        for port in found:
            self._note({"listens": port})
        said = _nobody_at(self._awaited[0], listeners) if self._awaited else ""
        if said != self._told:
            self._told = said
            self._note({"awaits": said})

    def _note(self, said: dict[str, object]) -> None:
        self.tell(NOTE, 0, json.dumps(said).encode())


def _nobody_at(port: int, listeners: list[Listener]) -> str:
    others = ", ".join(map(str, listeners[:_MOST_NAMED]))
    return f"no process of the job listens on port {port}" + (f" (but on {others})" if others else "")


def main() -> None:
    """Pass bytes on until the other end hangs up."""
    Relay(0, 1, [int(port) for port in sys.argv[1:]]).run()
