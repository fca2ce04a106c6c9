"""Many TCP connections over one stream of bytes in each direction.

Each connection is a *lane*. A frame is its kind, the number of its lane, its length, and that many bytes. Each side may
send WINDOW bytes into a lane beyond those that the other side has passed on to its connection: so a connection that
nobody reads holds up no other, and takes a bounded part of memory.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import struct
from collections.abc import Callable
from typing import Any

WINDOW = 1024 * 1024
"""The most bytes of one direction of a lane that are on their way."""

MOST_LANES = 64
"""The most connections at a time."""

OPEN, DATA, END, RESET, TAKEN, NOTE = range(1, 7)
"""The kinds of frames: connect to a port; bytes; no more of them; the lane is closed, with the reason; so many bytes
were passed on; a message about no lane.
"""

_HEADER = struct.Struct(">BII")
_NUMBER = struct.Struct(">I")
_READ_BYTES = 64 * 1024
_TELL_AFTER = WINDOW // 4
_FULL = 256 * 1024
"""With so many bytes waiting to be sent, no connection is read."""

_AGAIN = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)


class BrokenStream(Exception):
    """The other side sent no frames of this protocol."""


class Lane:
    """One connection and its state.

    Attributes:
        connected: whether bytes may be read from the socket.
        waiting: bytes for the socket.
        room: how many bytes may still be sent to the other side.
        taken: bytes that the socket has taken and the other side does not know of.
        ends: the other side sends no more.
        ended: the socket gives no more.
        finished: the socket was told that no more comes.
    """

    def __init__(self, number: int, sock: socket.socket, *, connected: bool) -> None:
        self.number = number
        self.sock = sock
        self.connected = connected
        self.waiting = bytearray()
        self.room = WINDOW
        self.taken = 0
        self.ends = self.ended = self.finished = False


class Lanes:
    """The lanes between this process and another, and the loop that moves their bytes. Use it on one thread.

    `receive` and `send` are descriptors of the stream. Overridden methods say what happens to frames that begin a lane.
    """

    def __init__(self, receive: int, send: int) -> None:
        self._receive, self._send = receive, send
        self._selector = selectors.DefaultSelector()
        self._lanes: dict[int, Lane] = {}
        self._received = bytearray()
        self._to_send = bytearray()
        self._interest: dict[int, int] = {}
        os.set_blocking(receive, False)
        os.set_blocking(send, False)

    # What a side decides

    def on_open(self, number: int, port: int) -> None:
        """The other side asks for a connection to a port."""
        raise BrokenStream("this side opens no connections")

    def _on_writable(self, lane: Lane) -> None:
        """A socket that was being connected is, or has failed."""

    def on_reset(self, lane: Lane | None, reason: str) -> None:
        """The other side has closed a lane, for a reason that is "" if its connection did."""

    def on_note(self, data: bytes) -> None:
        """The other side sent a message."""

    def on_tick(self) -> float | None:
        """What is to be done now and then. Return the seconds until the next time; None: when something happens."""
        return None

    # The loop

    def run(self) -> None:
        """Move bytes until the other side hangs up. Raises BrokenStream, and OSError if the stream fails."""
        try:
            while self._turn():
                pass
        finally:
            for lane in list(self._lanes.values()):
                self.close(lane)
            self._selector.close()

    def _turn(self) -> bool:
        timeout_s = self.on_tick()
        self._set_interest()
        for key, events in self._selector.select(timeout_s):
            if key.fd == self._send and events & selectors.EVENT_WRITE:
                self._flush()
            elif key.fd == self._receive:
                if not self._hear():
                    return False
            elif callable(key.data):
                key.data()
            elif isinstance(key.data, Lane) and key.data.number in self._lanes:
                self._serve(key.data, events)
        if self._to_send:
            self._flush()
        return True

    def watch(self, sock: socket.socket, act: Callable[[], None]) -> None:
        """Call `act` whenever the socket can be read."""
        self._selector.register(sock, selectors.EVENT_READ, act)

    def _set_interest(self) -> None:
        full = len(self._to_send) >= _FULL
        self._want(self._receive, selectors.EVENT_READ, None)
        self._want(self._send, selectors.EVENT_WRITE if self._to_send else 0, None)
        for lane in self._lanes.values():
            reads = lane.connected and not lane.ended and lane.room > 0 and not full
            writes = bool(lane.waiting) or not lane.connected
            events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if writes else 0)
            self._want(lane.sock.fileno(), events, lane)

    def _want(self, fd: int, events: int, data: Any) -> None:
        if fd == self._receive == self._send:
            # One socket for both directions.
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._to_send else 0)
        before = self._interest.get(fd, 0)
        if events == before:
            return
        if not events:
            self._selector.unregister(fd)
        elif not before:
            self._selector.register(fd, events, data)
        else:
            self._selector.modify(fd, events, data)
        self._interest[fd] = events

    # The stream

    def tell(self, kind: int, number: int, data: bytes = b"") -> None:
        """Send a frame as soon as there is room for it."""
        self._to_send += _HEADER.pack(kind, number, len(data)) + data

    def _flush(self) -> None:
        try:
            sent = os.write(self._send, memoryview(self._to_send)[:_FULL])
        except OSError as error:
            if error.errno in _AGAIN:
                return
            raise
        del self._to_send[:sent]

    def _hear(self) -> bool:
        """Take what has come. Return False at the end of the stream."""
        try:
            piece = os.read(self._receive, _FULL)
        except OSError as error:
            if error.errno in _AGAIN:
                return True
            raise
        if not piece:
            return False
        self._received += piece
        at, end = 0, len(self._received)
        while end - at >= _HEADER.size:
            kind, number, length = _HEADER.unpack_from(self._received, at)
            if length > _READ_BYTES:
                raise BrokenStream(f"a frame of {length} bytes")
            if end - at < _HEADER.size + length:
                break
            at += _HEADER.size
            self._take(kind, number, bytes(self._received[at : at + length]))
            at += length
        del self._received[:at]
        return True

    def _take(self, kind: int, number: int, data: bytes) -> None:
        lane = self._lanes.get(number)
        if kind == OPEN:
            if lane is not None or len(data) != _NUMBER.size:
                raise BrokenStream("a lane is opened twice")
            self.on_open(number, _NUMBER.unpack(data)[0])
        elif kind == NOTE:
            self.on_note(data)
        elif kind == RESET:
            self.on_reset(lane, data.decode("utf-8", "replace"))
            if lane is not None:
                self.close(lane)
        elif lane is None:
            # It was closed here, and the other side did not know that yet.
            return
        elif kind == DATA:
            self._take_data(lane, data)
        elif kind == END:
            lane.ends = True
            self._write(lane)
        elif kind == TAKEN and len(data) == _NUMBER.size:
            lane.room = min(WINDOW, lane.room + _NUMBER.unpack(data)[0])
        else:
            raise BrokenStream(f"a frame of kind {kind}")

    def _take_data(self, lane: Lane, data: bytes) -> None:
        if len(lane.waiting) + lane.taken + len(data) > WINDOW:
            raise BrokenStream("more bytes than there is room for")
        lane.waiting += data
        if lane.connected:
            self._write(lane)

    # The lanes

    @property
    def is_full(self) -> bool:
        return len(self._lanes) >= MOST_LANES

    def add(self, number: int, sock: socket.socket, *, connected: bool) -> Lane:
        """Begin a lane."""
        sock.setblocking(False)
        lane = self._lanes[number] = Lane(number, sock, connected=connected)
        return lane

    def open(self, lane: Lane, port: int) -> None:
        """Ask the other side to connect the lane to a port."""
        self.tell(OPEN, lane.number, _NUMBER.pack(port))

    def reset(self, lane: Lane, reason: str = "") -> None:
        """Close a lane on both sides."""
        self.tell(RESET, lane.number, reason.encode("utf-8", "replace"))
        self.close(lane)

    def close(self, lane: Lane) -> None:
        """Close this side of a lane."""
        self._lanes.pop(lane.number, None)
        fd = lane.sock.fileno()
        if self._interest.pop(fd, 0):
            self._selector.unregister(fd)
        lane.sock.close()

    def _serve(self, lane: Lane, events: int) -> None:
        if not lane.connected:
            self._on_writable(lane)
            return
        if events & selectors.EVENT_WRITE:
            self._write(lane)
        if events & selectors.EVENT_READ and lane.number in self._lanes:
            self._read(lane)

    def _read(self, lane: Lane) -> None:
        try:
            data = lane.sock.recv(min(_READ_BYTES, lane.room))
        except OSError as error:
            if error.errno not in _AGAIN:
                self.reset(lane)
            return
        if data:
            lane.room -= len(data)
            self.tell(DATA, lane.number, data)
            return
        lane.ended = True
        self.tell(END, lane.number)
        self._close_if_over(lane)

    def _write(self, lane: Lane) -> None:
        """Pass on to the socket as much as it takes."""
        if not lane.connected:
            return
        try:
            if lane.waiting:
                sent = lane.sock.send(lane.waiting)
                del lane.waiting[:sent]
                lane.taken += sent
            if lane.ends and not lane.waiting and not lane.finished:
                lane.finished = True
                lane.sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno not in _AGAIN:
                self.reset(lane)
            return
        if lane.taken >= _TELL_AFTER:
            self.tell(TAKEN, lane.number, _NUMBER.pack(lane.taken))
            lane.taken = 0
        self._close_if_over(lane)

    def _close_if_over(self, lane: Lane) -> None:
        if lane.finished and lane.ended:
            self.close(lane)
