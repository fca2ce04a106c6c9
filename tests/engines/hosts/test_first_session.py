"""The first session with a host: whatever an agent there answers is a reason, and the connection's end is noticed."""

import json
import subprocess
import threading
import time
from typing import Any

import pytest

from corral.engines.hosts.first_session import await_end, greeted
from corral.engines.hosts.host_session import HostSession, open_session
from corral.engines.hosts.ssh import SshFailed
from corral.engines.hosts.wake import Wake
from corral.host.node.protocol import GREETING, VERSION

ANSWERS = """
import os, struct, sys
data = sys.argv[1].encode()
os.write(2, b"first words\\n")
os.write(1, b"corral-agent-connection 10.0.0.5\\n" + struct.pack(">I", len(data)) + data)
sys.stdin.buffer.read()
"""


def agent(answer: Any) -> HostSession:
    """A session with an agent that greets with this answer."""
    return open_session(["python3", "-I", "-c", ANSWERS, json.dumps(answer)], stderr=subprocess.PIPE)


def refusal(answer: Any) -> str:
    session = agent(answer)
    with pytest.raises(SshFailed) as error:
        greeted(session, "gpu-05", {})
    assert session.fileno() == -1, "the session is closed"
    assert error.value.failure.by_person
    return str(error.value)


def test_an_agent_that_greets_is_joined_at_the_address_that_ssh_reached() -> None:
    first = greeted(agent({GREETING: VERSION, "version": "1"}), "gpu-05", {})
    with first.session:
        assert first.address == "10.0.0.5"
        assert first.greeting["version"] == "1"


@pytest.mark.parametrize(
    "error", ["BackendFailed", "NodeLacks", "CorralError", "Forbidden", "Conflict", "No such error"]
)
def test_an_agent_may_answer_with_any_error_and_is_refused_with_its_words(error: str) -> None:
    assert "I will not" in refusal({"error": error, "message": "I will not"})


@pytest.mark.parametrize("answer", [{}, [], 7, {GREETING: 999}, {GREETING: "x" * 20_000}])
def test_an_agent_that_makes_no_sense_is_refused(answer: Any) -> None:
    assert "gpu-05: " in refusal(answer)


def test_the_end_of_the_session_is_told_with_its_last_words() -> None:
    session = greeted(agent({GREETING: VERSION}), "gpu-05", {}).session
    session.process.terminate()
    wake = Wake()
    failure = await_end(session, "gpu-05", wake, lambda: True)
    wake.close()
    assert failure is not None
    assert "first words" in failure.reason
    assert session.fileno() == -1


def test_a_call_ends_the_wait_without_a_failure() -> None:
    session, wake, goes_on = greeted(agent({GREETING: VERSION}), "gpu-05", {}).session, Wake(), threading.Event()
    goes_on.set()

    def end() -> None:
        goes_on.clear()
        wake.set()

    threading.Timer(0.1, end).start()
    assert await_end(session, "gpu-05", wake, goes_on.is_set) is None
    wake.close()
    assert session.process.poll() is not None


def test_a_call_before_the_wait_counts_and_one_that_was_cleared_does_not() -> None:
    wake = Wake()
    wake.set()
    began = time.monotonic()
    wake.wait(30)
    assert time.monotonic() - began < 10
    wake.clear()
    began = time.monotonic()
    wake.wait(0.05)
    assert time.monotonic() - began >= 0.05
    wake.close()
    wake.set()
