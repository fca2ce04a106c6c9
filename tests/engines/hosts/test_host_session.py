"""The start of a session: shells stand for `ssh`, and write what login shells write."""

import time

import pytest

from corral.core.model.errors import NodeUnreachable
from corral.engines.hosts.host_session import HostSession, await_agent, open_session

MARK = "printf 'corral-agent-connection 10.0.0.5\\n'"


def session(script: str) -> HostSession:
    return open_session(["sh", "-c", script])


def soon() -> float:
    return time.monotonic() + 10


def test_what_a_login_shell_writes_is_skipped_and_what_follows_the_mark_is_kept() -> None:
    with session(f"echo 'Welcome! corral-agent-'; {MARK}; printf abc; cat") as opened:
        assert await_agent(opened, soon()) == "10.0.0.5"
        assert opened.recv(3) == b"abc"
        opened.sendall(b"back")
        assert opened.recv(4) == b"back"


def test_a_session_that_ends_before_the_mark_has_no_agent() -> None:
    with session("echo no such command") as opened:
        assert await_agent(opened, soon()) is None


def test_a_login_shell_that_writes_without_end_is_told_of() -> None:
    with session("exec yes") as opened, pytest.raises(NodeUnreachable, match="writes without end"):
        await_agent(opened, soon())


def test_an_address_without_end_is_told_of() -> None:
    script = "printf 'corral-agent-connection '; exec yes 1 | tr -d '\\n'"
    with session(script) as opened, pytest.raises(NodeUnreachable, match="writes without end"):
        await_agent(opened, soon())


def test_silence_ends_at_its_deadline() -> None:
    with session("exec sleep 60") as opened, pytest.raises(TimeoutError):
        await_agent(opened, time.monotonic() + 0.05)


def test_closing_ends_the_process() -> None:
    opened = session("exec sleep 60")
    opened.close()
    assert opened.process.poll() is not None


def test_a_missing_program_says_what_to_install() -> None:
    with pytest.raises(NodeUnreachable, match="install OpenSSH's client"):
        open_session(["/no/such/ssh"])
