"""A server of a few lines on a Unix socket: what it is asked is kept, what it answers is told to it."""

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

Answer = tuple[int, Any]


@dataclass
class Script:
    """What the server answers and what it was asked.

    `answers` maps "METHOD /path" to a status and a JSON value, or to a function of the request's body.
    """

    answers: dict[str, Answer | Callable[[Any], Answer]] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    connections: int = 0
    drop_after_answer: bool = False
    drop_before_answer: int = 0
    retry_after: str | None = None
    log_blocks: tuple[bytes, ...] = ()
    break_log_off: bool = False
    hung_up: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def setup(self) -> None:
        super().setup()
        self.script.connections += 1

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.script.asked.append((self.command, self.path, body))
        self.script.headers.append(dict(self.headers))
        if self.script.drop_before_answer:
            self.script.drop_before_answer -= 1
            self._hang_up()
            return
        if "/logs" in self.path:
            self._stream()
            return
        status, value = self._find(body)
        payload = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        if status == 503 and self.script.retry_after is not None:
            self.send_header("Retry-After", self.script.retry_after)
        self.end_headers()
        self.wfile.write(payload)
        self.wfile.flush()
        if self.script.drop_after_answer:
            self._hang_up()

    def _find(self, body: Any) -> Answer:
        path = self.path.partition("?")[0].removeprefix("/api/v1")
        found = self.script.answers[f"{self.command} {path}"]
        return found(body) if callable(found) else found

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for block in self.script.log_blocks:
            self.wfile.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
        if self.script.break_log_off:
            self._hang_up()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.script.hung_up.set()


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _TcpServer(socketserver.ThreadingTCPServer):
    daemon_threads = True


def _serve(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def home(tmp_path: Path, script: Script) -> Iterator[Path]:
    """A home whose socket is served."""
    handler = type("Handler", (_Handler,), {"script": script})
    server = _UnixServer(str(tmp_path / "corral.sock"), handler)
    for _ in _serve(server):
        yield tmp_path


@pytest.fixture
def url(script: Script) -> Iterator[str]:
    """The address of the same server over TCP."""
    handler = type("Handler", (_Handler,), {"script": script})
    server = _TcpServer(("127.0.0.1", 0), handler)
    for _ in _serve(server):
        yield f"http://127.0.0.1:{server.server_address[1]}"
