from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from corral.features.tuner.deployments.health import served_model


class Answer(BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Answer) as made:
        thread = Thread(target=made.handle_request)
        thread.start()
        yield made
        thread.join(60)


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"data": [{"id": "mine"}]}', "mine"),
        (b'{"data": []}', None),
        (b'["data"]', None),
        (b"<html>", None),
        (b"[" * 100_000, None),
    ],
)
def test_a_server_lists_its_model_or_none(
    server: HTTPServer, body: bytes, model: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answer, "body", body)
    assert served_model(f"http://127.0.0.1:{server.server_port}") == model
