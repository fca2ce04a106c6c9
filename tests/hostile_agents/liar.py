"""An agent that lies: it stands before an honest one, passes on what a server asks, and changes what is answered.

Run as `python liar.py SOCKET HONEST ORDERS`. ORDERS is a file with `{"kind": ..., "seed": ..., "foreign": [...]}`, read
before each answer; without it everything is passed on as it is.
"""

import json
import math
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LENGTH = struct.Struct(">I")
MAX = 64 * 1024 * 1024

TEXTS = (
    "\x1b]0;owned\x07",
    "\u202egnp.exe",
    "x" * 300_000,
    "",
    "a\nb\rc",
    "\ud800",
    "9" * 5000,
    "../../etc/passwd",
    "\x00",
)
NUMBERS = (math.nan, math.inf, -math.inf, 1e308, -1e308, -1, 0, 2**63, -(2**70), 2**53, 1e12, 0.5)
OTHERS: tuple[Any, ...] = (None, True, [], {}, [[]] * 50, {"a": 1}, [None] * 20_000)


class Liar:
    def __init__(self, orders: Path) -> None:
        self._orders = orders
        self._count = 0

    def order(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._orders.read_text())
        except (OSError, ValueError):
            return None
        return found

    def answer(self, call: dict[str, Any], honest: bytes) -> bytes:
        """The bytes that are sent in place of an honest frame; b"" hangs up."""
        order = self.order()
        if order is None:
            return framed(honest)
        kind = order["kind"]
        if kind == "hang":
            while self.order() == order:
                time.sleep(0.05)
            return b""
        if kind in RAW:
            return RAW[kind](honest)
        self._count += 1
        message = json.loads(honest)
        if kind == "clock":
            message = _clocked(message, order["by_s"])
        elif kind == "values":
            message = _mutated(message, order["foreign"])
        elif call.get("call") == "news.since" and isinstance(message.get("result"), dict):
            message["result"] |= _news(kind, self._count, order["foreign"])
        return framed(json.dumps(message).encode())


def framed(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def _error(honest: bytes) -> bytes:
    name = random.choice(("LedgerFailed", "CorralError", "BackendFailed", "Refused", "NodeLacks", "SystemExit"))
    return framed(json.dumps({"error": name, "message": "\x1b[2J" + "x" * 3_000_000, "field": 7}).encode())


RAW: dict[str, Callable[[bytes], bytes]] = {
    "bytes": lambda honest: random.randbytes(random.randrange(1, 4096)),
    "cut": lambda honest: framed(honest)[: random.randrange(1, len(honest) + 4)],
    "announced": lambda honest: LENGTH.pack(random.choice((MAX, 2**32 - 1, 9 * 1024 * 1024))) + b"[",
    "large": lambda honest: framed(b'{"result":"' + b"x" * (63 * 1024 * 1024) + b'"}'),
    "many": lambda honest: framed(b'{"result":[' + b"[]," * 2_000_000 + b"[]]}"),
    "deep": lambda honest: framed(b'{"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "nested": lambda honest: framed(b'{"result":' + b"[" * 700 + b'"\\u0007"' + b"]" * 700 + b"}"),
    "errors": _error,
}


def _news(kind: str, count: int, foreign: list[str]) -> dict[str, Any]:
    """What is changed in news: they never end, the agent restarts each time, or they are of another node's launches."""
    if kind == "foreign":
        launches = [one for one in foreign if not one.startswith("GPU")]
        lost = {"uuid": "GPU-a-0", "reason": "made up", "launches": launches}
        return {"launches": launches, "services_lost": [lost]}
    return {"sequence": count} | ({"epoch": str(count)} if kind == "restarts" else {})


def _mutated(message: Any, foreign: list[str]) -> Any:
    """The message with a few of its values replaced."""
    for _ in range(random.randrange(1, 4)):
        places = list(_places(message))
        if places:
            container, key = random.choice(places)
            container[key] = random.choice(
                (random.choice(TEXTS), random.choice(NUMBERS), random.choice(OTHERS), random.choice(foreign))
            )
    return message


def _places(plain: Any) -> Any:
    if isinstance(plain, dict):
        for key, value in list(plain.items()):
            yield plain, key
            yield from _places(value)
    elif isinstance(plain, list):
        for at, value in enumerate(plain):
            yield plain, at
            yield from _places(value)


def _clocked(plain: Any, by_s: float) -> Any:
    """The message of a host whose clock is another."""
    if isinstance(plain, dict):
        moments = ("now", "taken_at", "started_at", "ended_at", "read_at", "at")
        return {
            key: value + by_s if key in moments and isinstance(value, float) else _clocked(value, by_s)
            for key, value in plain.items()
        }
    return [_clocked(one, by_s) for one in plain] if isinstance(plain, list) else plain


def main() -> None:
    path, honest, orders = sys.argv[1:]
    liar = Liar(Path(orders))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            connection = listener.accept()[0]
            threading.Thread(target=attend, args=(connection, honest, liar), daemon=True).start()


def attend(server: socket.socket, honest: str, liar: Liar) -> None:
    with server, socket.socket(socket.AF_UNIX) as agent:
        try:
            agent.connect(honest)
            server.sendall(framed(frame_of(agent)))
            while True:
                call = frame_of(server)
                agent.sendall(framed(call))
                answer = liar.answer(json.loads(call), frame_of(agent))
                if not answer:
                    return
                server.sendall(answer)
        except (OSError, EOFError, ValueError):
            pass


def frame_of(connection: socket.socket) -> bytes:
    (length,) = LENGTH.unpack(read(connection, LENGTH.size))
    return read(connection, length)


def read(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = connection.recv(min(length - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return data


if __name__ == "__main__":
    random.seed(int(os.environ["SEED"]))
    main()
