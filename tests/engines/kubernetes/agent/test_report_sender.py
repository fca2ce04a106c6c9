"""Reports go to a server that is trusted, over one connection, with the token as it is now."""

import gzip
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from corral.core.model.errors import BackendFailed, Refused
from corral.engines.kubernetes.agent.report_sender import ReportSender
from tests.certificates import make_certificate, needs_openssl

pytestmark = needs_openssl


class Taker(ThreadingHTTPServer):
    """An HTTPS server that notes who sent what on which connection, and answers as the test says."""

    daemon_threads = True

    def __init__(self, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.certificate, key = make_certificate(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.taken: list[tuple[int, str, bytes]] = []
        self.answer: tuple[int, bytes] = (204, b"")
        self.hang_up = False
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_address[1]}"


class _Taking(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Taker

    def do_POST(self) -> None:
        body = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
        self.server.taken.append((self.client_address[1], self.headers["authorization"], body))
        status, said = self.server.answer
        self.send_response(status)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
        # A connection that ends without a word, as at a restart of the server.
        self.close_connection = self.server.hang_up

    def log_message(self, *words: Any) -> None: ...


@pytest.fixture
def taker(tmp_path: Path) -> Iterator[Taker]:
    taker = Taker(tmp_path)
    yield taker
    taker.shutdown()
    taker.server_close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


def test_reports_go_over_one_connection_with_the_token_that_is_in_the_file_now(taker: Taker, token: Path) -> None:
    sender = ReportSender(taker.url, token, taker.certificate)
    sender.send(b"1")
    token.write_text("second")
    sender.send(b"2")
    assert [one[1:] for one in taker.taken] == [("Bearer first", b"1"), ("Bearer second", b"2")]
    assert len({port for port, _, _ in taker.taken}) == 1
    sender.close()


def test_a_report_is_sent_again_where_the_kept_connection_was_closed(taker: Taker, token: Path) -> None:
    sender = ReportSender(taker.url, token, taker.certificate)
    taker.hang_up = True
    for number in range(3):
        sender.send(str(number).encode())
    assert [body for _, _, body in taker.taken] == [b"0", b"1", b"2"]
    sender.close()


def test_why_a_report_is_not_taken_is_told(taker: Taker, token: Path) -> None:
    sender = ReportSender(taker.url, token, taker.certificate)
    taker.answer = 422, json.dumps({"error": {"message": "form 2 \x1b[2J"}}).encode()
    with pytest.raises(BackendFailed, match=r"does not take the report \(422\): form 2 \\x1b\[2J"):
        sender.send(b"{}")
    taker.answer = 502, b"<html>"
    with pytest.raises(BackendFailed, match=r"\(502\): <html>"):
        sender.send(b"{}")
    taker.answer = 500, b"x" * 1_000_000
    with pytest.raises(BackendFailed, match=r"\(500\): x"):
        sender.send(b"{}")
    taker.answer = 204, b""
    sender.send(b"{}")
    sender.close()


def test_nothing_is_sent_to_a_server_that_is_not_trusted(taker: Taker, token: Path) -> None:
    sender = ReportSender(taker.url, token, None)
    with pytest.raises(BackendFailed, match="is not trusted"):
        sender.send(b"{}")
    assert taker.taken == []


def test_a_token_or_certificates_that_are_missing_are_named(taker: Taker, token: Path, tmp_path: Path) -> None:
    with pytest.raises(BackendFailed, match="no-token cannot be read"):
        ReportSender(taker.url, tmp_path / "no-token", taker.certificate).send(b"{}")
    with pytest.raises(BackendFailed, match="No such file"):
        ReportSender(taker.url, token, tmp_path / "no-ca").send(b"{}")
    token.write_text("a\nb")
    with pytest.raises(BackendFailed, match="has no token"):
        ReportSender(taker.url, token, taker.certificate).send(b"{}")


@pytest.mark.parametrize("url", ["http://a:1", "a:1", "https://", "https://a:x", "https://a/path", ""])
def test_tokens_go_to_addresses_with_https_alone(url: str, token: Path) -> None:
    with pytest.raises(Refused, match="https://HOST:PORT"):
        ReportSender(url, token, None)
