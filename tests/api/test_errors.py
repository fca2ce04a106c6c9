import pytest

from corral.core.model.errors import BackendFailed, Conflict, CorralError, LedgerFailed
from tests.api.world import Served


def test_an_unknown_path_names_the_nearest_one(served: Served) -> None:
    answer = served.call("GET", "/device")
    assert (answer.status, answer.error["kind"]) == (404, "not_found")
    assert answer.error["message"] == "there is no /api/v1/device; did you mean '/api/v1/devices'?"


def test_a_method_that_a_path_does_not_have_names_the_one_it_has(served: Served) -> None:
    answer = served.call("DELETE", "/jobs/1/cancel")
    assert (answer.status, answer.error["kind"]) == (405, "refused")
    assert answer.error["message"] == "/api/v1/jobs/1/cancel does not accept DELETE; use POST"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/jobs", "GET, POST"),
        ("/jobs/17", "GET, PATCH"),
        ("/jobs/batch", "POST"),
        ("/health", "GET"),
        ("/devices/MIG-1%2F2/cordon", "POST"),
    ],
)
def test_every_method_of_a_path_is_told(served: Served, path: str, allowed: str) -> None:
    options = served.call("OPTIONS", path)
    assert (options.status, options.headers["allow"], options.body) == (204, allowed, b"")
    refused = served.call("DELETE", path)
    assert (refused.status, refused.headers["allow"]) == (405, allowed)
    assert refused.error["message"].endswith(f"; use {allowed.replace(', ', ' or ')}")


def test_the_options_of_what_is_not_there_are_not_told(served: Served) -> None:
    assert served.call("OPTIONS", "/job").status == 404


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Conflict("moved on"), 409, "conflict"),
        (BackendFailed("driver gone"), 503, "backend"),
        (LedgerFailed("disk full"), 503, "ledger"),
        (CorralError("odd"), 500, "internal"),
    ],
)
def test_each_kind_of_failure_has_its_status(
    served: Served, monkeypatch: pytest.MonkeyPatch, error: CorralError, status: int, kind: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(served.world.service.queries, "server", fail)
    answer = served.call("GET", "/server")
    assert answer.status == status
    assert answer.error == {"message": str(error), "field": None, "kind": kind}


def test_a_fault_of_the_servers_own_shows_no_traceback(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(served.world.service.queries, "server", fail)
    answer = served.call("GET", "/server")
    assert (answer.status, answer.error["kind"]) == (500, "internal")
    assert b"secret" not in answer.body
    assert "secret detail" in caplog.text


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"\x16\x03\x01\x02\x00"])
def test_what_is_no_http_is_answered_in_the_same_form(served: Served, raw: bytes) -> None:
    with served.raw_connection() as connection:
        connection.sendall(raw)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'{"error": {"message": "Invalid HTTP request received' in answer
