"""Many connections over one stream: none gets bytes of another, and none that stops reading holds up the others."""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from corral.forwarding.lanes import DATA, MOST_LANES, OPEN, RESET, WINDOW, BrokenStream, Lane, Lanes

PORT = 80


class Near(Lanes):
    """Opens a lane for each connection that comes to `door`."""

    def __init__(self, line: socket.socket, door: socket.socket) -> None:
        super().__init__(line.fileno(), line.fileno())
        self.reasons: list[str] = []
        self._door = door
        self._count = 0
        door.setblocking(False)
        self.watch(door, self._accept)

    def _accept(self) -> None:
        connection, _ = self._door.accept()
        self._count += 1
        self.open(self.add(self._count, connection, connected=True), PORT)

    def on_reset(self, lane: Lane | None, reason: str) -> None:
        self.reasons.append(reason)


class Far(Lanes):
    """Connects each lane to a program: `serve` gets a socket on a thread of its own."""

    def __init__(self, line: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        super().__init__(line.fileno(), line.fileno())
        self._serve_one = serve

    def on_open(self, number: int, port: int) -> None:
        if self.is_full or port != PORT:
            self.tell(RESET, number, b"no room")
            return
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve_one, args=(theirs,), daemon=True).start()
        self.add(number, ours, connected=True)


Connect = Callable[[], socket.socket]


@pytest.fixture
def joined() -> Iterator[Callable[[Callable[[socket.socket], None]], tuple[Connect, Near]]]:
    """Joins both ends for a program; how to connect to it."""
    with ExitStack() as stack:

        def join(serve: Callable[[socket.socket], None]) -> tuple[Connect, Near]:
            near, far = socket.socketpair()
            stack.callback(near.close)
            stack.callback(far.close)
            door = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=256))
            ends = Near(near, door), Far(far, serve)
            for end in ends:
                thread = threading.Thread(target=_run, args=(end,), daemon=True)
                thread.start()
                stack.callback(thread.join)
            stack.callback(near.shutdown, socket.SHUT_RDWR)
            return lambda: stack.enter_context(socket.create_connection(door.getsockname(), 30)), ends[0]

        yield join


def _run(end: Lanes) -> None:
    with suppress(OSError, BrokenStream):
        end.run()


def echo(connection: socket.socket) -> None:
    with connection:
        while data := connection.recv(50_000):
            connection.sendall(data)


def all_of(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_each_connection_gets_its_own_bytes_and_its_end(joined: Callable[..., tuple[Connect, Near]]) -> None:
    connect, _ = joined(echo)
    chance = random.Random(1)
    sent = [chance.randbytes(chance.choice((0, 1, 1000, 3 * WINDOW))) for _ in range(12)]
    connections = [connect() for _ in sent]

    def send(connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)

    senders = [threading.Thread(target=send, args=pair) for pair in zip(connections, sent, strict=True)]
    for sender in senders:
        sender.start()
    assert [all_of(connection) for connection in connections] == sent
    for sender in senders:
        sender.join()


def test_who_never_reads_holds_up_nobody_and_takes_bounded_memory(
    joined: Callable[..., tuple[Connect, Near]],
) -> None:
    pushed = [0]

    def push(connection: socket.socket) -> None:
        if connection.recv(1) == b"e":
            echo(connection)
            return
        with connection, suppress(OSError):
            while True:
                pushed[0] += connection.send(bytes(100_000))

    connect, _ = joined(push)
    deaf = connect()
    deaf.sendall(b"p")
    before = -1
    while before != pushed[0]:
        before = pushed[0]
        time.sleep(0.3)
    other = connect()
    other.sendall(b"ehello")
    assert other.recv(5) == b"hello"
    # The window, and what sockets hold.
    assert 0 < pushed[0] < WINDOW + 8_000_000


def test_connections_have_a_bound_and_one_more_is_refused_with_the_reason(
    joined: Callable[..., tuple[Connect, Near]],
) -> None:
    connect, near = joined(echo)
    held = [connect() for _ in range(MOST_LANES)]
    for connection in held:
        connection.sendall(b"x")
        assert connection.recv(1) == b"x"
    assert connect().recv(1) == b""
    assert near.reasons == ["no room"]
    held[0].close()
    deadline = time.monotonic() + 30
    while not _echoes(connect()):
        assert time.monotonic() < deadline


def _echoes(connection: socket.socket) -> bool:
    with suppress(OSError):
        connection.sendall(b"x")
        return connection.recv(1) == b"x"
    return False


@pytest.mark.parametrize(
    "sent",
    [
        b"\0" * 9,
        b"\xff" * 100,
        bytes([OPEN]) + (1).to_bytes(4, "big") + (4).to_bytes(4, "big") + (80).to_bytes(4, "big"),
        bytes([DATA]) + (1).to_bytes(4, "big") + (1 << 20).to_bytes(4, "big"),
    ],
)
def test_what_is_no_frame_of_the_other_side_breaks_the_stream_and_nothing_else(sent: bytes) -> None:
    near, far = socket.socketpair()
    with near, far, socket.create_server(("127.0.0.1", 0)) as door:
        far.sendall(sent)
        far.shutdown(socket.SHUT_WR)
        with suppress(BrokenStream):
            Near(near, door).run()


def test_more_than_the_window_is_refused() -> None:
    near, far = socket.socketpair()
    with near, far, socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()):
        piece = bytes([DATA]) + (1).to_bytes(4, "big") + (1 << 16).to_bytes(4, "big") + bytes(1 << 16)

        def send() -> None:
            with suppress(OSError):
                # The other side begins the lane first.
                far.recv(100)
                for _ in range(1000):
                    far.sendall(piece)
                far.shutdown(socket.SHUT_WR)

        threading.Thread(target=send, daemon=True).start()
        with pytest.raises(BrokenStream, match="more bytes than there is room for"):
            Near(near, door).run()
