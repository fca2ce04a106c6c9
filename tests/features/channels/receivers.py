"""Receivers of messages on this machine: they answer as they are told to."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """A web server on loopback.

    Attributes:
        got: the JSON bodies that it has answered with 200, in order.
        asked: how often it was asked, by path.
        says: what it does next: an HTTP status, "close" (no answer), or "hang" (until `release`).
    """

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.asked: dict[str, int] = {}
        self.says: int | str = 200
        self._changed = threading.Condition()
        self._released = threading.Event()
        receiver = self

        class Answers(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                says = receiver.says
                receiver._note(self.path, body if says == 200 else None)
                if says == "hang":
                    receiver._released.wait()
                if isinstance(says, int):
                    self.send_response(says)
                    self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port = self._server.server_port

    def url(self, path: str = "hook") -> str:
        return f"json://127.0.0.1:{self.port}/{path}"

    def until(self, holds: Callable[[], Any]) -> None:
        """Wait until something holds of what came."""
        with self._changed:
            assert self._changed.wait_for(holds, 60), (self.asked, self.got)

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _note(self, path: str, body: dict[str, Any] | None) -> None:
        with self._changed:
            self.asked[path] = self.asked.get(path, 0) + 1
            if body is not None:
                self.got.append(body)
            self._changed.notify_all()


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


@contextmanager
def nobody() -> Iterator[int]:
    """A port at which nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
