import os
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client, NoServer, find_address
from corral.client.connecting import transport
from corral.client.connecting.transport import ServerBusy
from corral.core.model.errors import BackendFailed, Conflict, CorralError, Forbidden, LedgerFailed, NotFound, Refused
from tests.client.conftest import Script

NESTED = b"[" * 100_000
"""Deeper than Python reads JSON."""


def error(kind: str, message: str = "because", field: str | None = None) -> dict[str, object]:
    return {"error": {"message": message, "field": field, "kind": kind}}


def test_the_arguments_win_over_the_environment_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_address().home.root == tmp_path / ".corral"
    monkeypatch.setenv("CORRAL_HOME", "/srv/corral")
    assert find_address().home.root == Path("/srv/corral")
    monkeypatch.setenv("CORRAL_URL", "http://gpu-07:7878")
    assert find_address().url == "http://gpu-07:7878"
    named = find_address(home=tmp_path)
    assert (named.home.root, named.url) == (tmp_path, None)
    assert find_address(url="http://other:1").url == "http://other:1"


def test_a_token_is_the_one_given_else_of_the_environment_else_for_a_server_here_of_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path))
    assert find_address(url="http://localhost:1").token is None
    (tmp_path / "token").write_text("of-the-home\n")
    for here in ("http://localhost:1", "https://127.0.0.1:1", "[::1]:1"):
        assert find_address(url=here).token == "of-the-home"
    for elsewhere in ("https://h:1", "https://127.example.org:1", "http://10.0.0.1:1"):
        assert find_address(url=elsewhere).token is None
    monkeypatch.setenv("CORRAL_TOKEN", "of-the-environment")
    assert find_address(url="http://h:1").token == "of-the-environment"
    assert find_address(url="http://h:1", token="given").token == "given"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"home": "http://gpu-07:7070"}, r"home: .* is an address.*Client\(url="),
        ({"home": 3}, "home: 3 is not a path"),
        ({"url": Path("/srv/corral")}, "url: .* is not text"),
        ({"url": "gpu-07"}, "url: 'gpu-07' .*no port"),
        ({"url": "/srv/corral"}, "url: .*names no host"),
        ({"url": "ssh://gpu-07:22"}, "url: .*ssh:// is not spoken"),
        ({"url": "http://gpu-07:123456"}, "url: .*0-65535"),
    ],
)
def test_what_is_no_address_is_refused_at_once_with_what_is_wrong_with_it(given: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        Client(**given)


@pytest.mark.parametrize(
    "url", ["http://u:secret@h:1", "http://u:secret@h:99999", "http://u:secret@[::1", "http://secret@h"]
)
def test_a_token_in_an_address_is_repeated_in_no_message(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_URL", url)
    with pytest.raises(Refused, match="CORRAL_URL") as refused:
        find_address()
    assert "secret" not in str(refused.value)


def test_text_of_a_log_is_whole_where_a_letter_is_split_between_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [b"caf\xc3", b"\xa9 ", b"\xff", b"", b"end\xc3"]
    monkeypatch.setattr(transport.Transport, "stream", lambda *_, **__: iter(blocks))
    assert "".join(Client("/nowhere").jobs.logs("7")) == "caf\u00e9 \ufffdend\ufffd"


def test_without_a_server_the_message_names_the_home_and_what_to_do(tmp_path: Path) -> None:
    with Client(tmp_path) as client, pytest.raises(NoServer, match=rf"{tmp_path}.*corral up"):
        client.server()


def test_a_socket_of_a_dead_server_is_no_server(tmp_path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "corral.sock"))
    dead.close()
    with Client(tmp_path) as client, pytest.raises(NoServer, match="corral up"):
        client.server()


def test_a_socket_path_that_is_too_long_is_refused_with_its_length() -> None:
    with pytest.raises(Refused, match="107"):
        Client("/tmp/" + "x" * 120).server()


OPENS_TOO_MUCH = """
import os, resource, sys
from corral.client import Client, NoServer
from corral.core.model.errors import BackendFailed
client = Client(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    client.server()
except BackendFailed as error:
    print(isinstance(error, NoServer), error)
"""


def test_who_may_open_no_more_files_is_not_told_that_no_server_runs(home: Path) -> None:
    """For what hears that works without a server, and might take devices that a server has allocated."""
    told = subprocess.run([sys.executable, "-c", OPENS_TOO_MUCH, str(home)], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("False cannot connect to the server at ")
    assert "`ulimit -n`" in told.stdout


def test_a_server_with_a_full_backlog_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ANSWER_TIMEOUT_S", 0.0)
    with socket.socket(socket.AF_UNIX) as server, closing(Client(tmp_path)) as client:
        server.bind(str(tmp_path / "corral.sock"))
        server.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for one in waiting:
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(str(tmp_path / "corral.sock"))
        with pytest.raises(ServerBusy, match="takes no connection now"):
            client.server()
        for one in waiting:
            one.close()


def test_no_server_over_tcp_names_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(NoServer, match=address):
            Client(url=address).server()


@pytest.mark.parametrize("address", ["http://h", "h:port", "ftp://h:1", "https://h:0x1"])
def test_an_address_that_is_none_is_refused_with_the_right_form(address: str) -> None:
    with pytest.raises(Refused, match="http://HOST:PORT"):
        Client(url=address).server()


@pytest.mark.parametrize(
    "address", ["http://:corral_abc@h:1", "https://corral_abc@h:1", "http://h:1/?token=corral_abc"]
)
def test_a_token_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(Refused, match="set CORRAL_TOKEN") as refused:
        Client(url=address).server()
    assert "corral_abc" not in str(refused.value)


@pytest.mark.parametrize("token", ["corral_ab\nHost: evil", "corral_a b", "corral_é", "corral_\0"])
def test_what_cannot_be_a_token_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(Refused, match="CORRAL_TOKEN") as refused:
        Client(url="http://127.0.0.1:1", token=token)
    assert "corral_" not in str(refused.value)


def test_a_token_is_not_in_what_a_traceback_shows_of_an_address() -> None:
    assert "corral_abc" not in repr(find_address(url="http://127.0.0.1:1", token="corral_abc"))


def test_nothing_is_sent_to_another_machine_in_plain_http_unless_wished_for(
    monkeypatch: pytest.MonkeyPatch, url: str, script: Script
) -> None:
    script.answers["GET /server"] = 200, {"version": "9"}
    monkeypatch.setattr("corral.core.model.devices.address.is_loopback", lambda host: False)  # as if it were far away
    with Client(url=url, token="secret") as client, pytest.raises(Refused, match=r"https://, or set CORRAL_INSECURE=1"):
        client.server()
    assert script.asked == []
    monkeypatch.setenv("CORRAL_INSECURE", "1")
    with Client(url=url, token="secret") as client:
        assert client.server().version == "9"


def test_over_tcp_the_token_is_sent(url: str, script: Script) -> None:
    script.answers["GET /server"] = 200, {"version": "9"}
    with Client(url=url, token="secret") as client:
        assert client.server().version == "9"
    assert script.headers[0]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (422, "refused", Refused),
        (404, "not_found", NotFound),
        (403, "forbidden", Forbidden),
        (409, "conflict", Conflict),
        (503, "backend", BackendFailed),
        (503, "ledger", LedgerFailed),
        (500, "internal", CorralError),
        (500, "of-a-later-version", CorralError),
    ],
)
def test_the_servers_errors_are_raised_as_what_they_are(
    home: Path, script: Script, status: int, kind: str, expected: type[CorralError]
) -> None:
    script.answers["GET /server"] = status, error(kind, "the machine has 8", "gpus")
    with Client(home) as client, pytest.raises(CorralError, match="the machine has 8") as caught:
        client.server()
    assert type(caught.value) is expected
    if isinstance(caught.value, Refused):
        assert caught.value.field == "gpus"


@pytest.mark.parametrize("payload", [b"<html>oops</html>", b"[]", b'{"error": "x"}', b"{}", NESTED])
def test_an_error_without_a_reason_still_says_its_status(home: Path, script: Script, payload: bytes) -> None:
    script.answers["GET /server"] = 502, payload
    with Client(home) as client, pytest.raises(CorralError, match="502"):
        client.server()


@pytest.mark.parametrize("payload", [b"hello", NESTED])
def test_what_is_no_corral_server_is_told_as_such(home: Path, script: Script, payload: bytes) -> None:
    script.answers["GET /server"] = 200, payload
    with Client(home) as client, pytest.raises(CorralError, match="no Corral server"):
        client.server()


def test_one_connection_serves_many_requests(home: Path, script: Script) -> None:
    script.answers["GET /server"] = 200, {}
    with Client(home) as client:
        for _ in range(3):
            client.server()
    assert script.connections == 1


def test_after_an_error_the_connection_is_still_good(home: Path, script: Script) -> None:
    script.answers["GET /server"] = 404, error("not_found")
    script.answers["GET /devices"] = 200, {"devices": []}
    with Client(home) as client:
        with pytest.raises(NotFound):
            client.server()
        assert client.devices.list() == ()
    assert script.connections == 1


def test_a_connection_that_the_server_closed_meanwhile_is_replaced_even_for_a_submission(
    home: Path, script: Script
) -> None:
    script.drop_after_answer = True
    script.answers["POST /jobs"] = 201, {"id": "1"}
    with Client(home) as client:
        for _ in range(3):
            client.submit(["true"])
            assert script.hung_up.wait(60)
            script.hung_up.clear()
    assert [path for _, path, _ in script.asked] == ["/api/v1/jobs"] * 3


def test_a_question_is_asked_again_once_when_a_kept_connection_breaks(home: Path, script: Script) -> None:
    script.answers["GET /server"] = 200, {"version": "1"}
    with Client(home) as client:
        client.server()
        script.drop_before_answer = 1
        assert client.server().version == "1"
    assert len(script.asked) == 3


def test_a_submission_is_never_sent_twice(home: Path, script: Script) -> None:
    script.answers["GET /server"] = 200, {}
    with Client(home) as client:
        client.server()
        script.drop_before_answer = 2
        with pytest.raises(NoServer, match="corral ps --all"):
            client.submit(["true"])
    assert sum(method == "POST" for method, _, _ in script.asked) == 1


def test_a_log_comes_in_blocks_as_it_was_written(home: Path, script: Script) -> None:
    script.log_blocks = (b"\x00\xff binary\n", b"second")
    with Client(home) as client:
        assert b"".join(client.jobs.logs_bytes("7", follow=True, offset=3)) == b"\x00\xff binary\nsecond"
    assert script.asked[0][1] == "/api/v1/jobs/7/logs?follow=1&offset=3"


def test_a_log_that_breaks_off_is_not_taken_for_its_end(home: Path, script: Script) -> None:
    script.log_blocks, script.break_log_off = (b"some",), True
    with Client(home) as client:
        blocks = client.jobs.logs_bytes("7", follow=True)
        assert next(blocks) == b"some"
        with pytest.raises(NoServer):
            next(blocks)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every socket")
def test_a_socket_that_one_may_not_use_says_so(home: Path) -> None:
    (home / "corral.sock").chmod(0)
    with Client(home) as client, pytest.raises(Forbidden, match="may not use"):
        client.server()


def test_a_busy_server_is_asked_again_when_it_says_so(url: str, script: Script) -> None:
    answers = [(503, error("backend")), (503, error("backend")), (201, {"id": "7"})]
    script.answers["POST /jobs"] = lambda body: answers.pop(0)
    script.retry_after = "0"
    with Client(url=url, token="t") as client:
        assert client.submit(["true"]).id == "7"
    assert [path for _, path, _ in script.asked] == ["/api/v1/jobs"] * 3


@pytest.mark.parametrize("retry_after", [None, "soon", "9" * 400, "100000"])
def test_a_failure_that_does_not_pass_soon_is_told(url: str, script: Script, retry_after: str | None) -> None:
    script.answers["POST /jobs"] = 503, error("backend", "driver gone")
    script.retry_after = retry_after
    with Client(url=url, token="t") as client, pytest.raises(BackendFailed, match="driver gone"):
        client.submit(["true"])
    assert len(script.asked) == 1
