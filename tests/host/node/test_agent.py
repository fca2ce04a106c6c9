"""An agent in a process of its own: who may speak to it, what it makes of garbage, and what is seen when it hangs."""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed, NodeUnreachable, NotFound, Refused
from corral.core.model.home import Home
from corral.core.model.runs.launch import LaunchPhase
from corral.core.ports.node import (
    AccountChecks,
    DeviceTest,
    HostAccess,
    InnerCommands,
    Inputs,
    Installation,
    Keep,
    Launches,
    Logs,
    NodeAgent,
    NodeNews,
    Rendezvous,
    SliceChange,
    Trees,
)
from corral.host.node.agent import MOST_CONNECTIONS, AgentServer
from corral.host.node.agent_calls import METHODS
from corral.host.node.protocol import GREETING, MAX_FRAME_BYTES, VERSION, receive, send
from corral.host.node.remote import TAKES_S, AgentSocket, RemoteNode
from tests.host.node.conftest import EVENT_S, RemoteHost, a_launch, until
from tests.thread_signal import signal_another_thread

NOBODY = 65534


def connected(host: RemoteHost) -> socket.socket:
    """A connection that the agent has greeted."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(EVENT_S)
    connection.connect(str(host.socket))
    assert receive(connection)[GREETING] == VERSION
    return connection


def hung_up(connection: socket.socket) -> bool:
    """Whether the other side has closed the connection; unread garbage makes a reset of that."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does nothing meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    # It may run on for a moment on another processor.
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "it is stopped")
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


PARTS = {
    "news": NodeNews, "launches": Launches, "logs": Logs, "inputs": Inputs, "executions": InnerCommands,
    "trees": Trees, "host": HostAccess, "accounts": AccountChecks, "installation": Installation,
}  # fmt: skip


def test_every_call_of_the_port_but_close_goes_over_the_socket() -> None:
    # An agent's own program is a matter of its engine, and no part of a node.
    assert {*PARTS, "close"} - {"installation"} == {name for name in vars(NodeAgent) if not name.startswith("_")}
    calls = {f"{part}.{name}" for part, port in PARTS.items() for name in vars(port) if not name.startswith("_")}
    assert set(METHODS) == calls
    assert TAKES_S.keys() <= calls


def test_an_agent_that_hangs_fails_a_call_at_its_deadline_and_answers_the_next_when_it_goes_on(
    remote: RemoteHost,
) -> None:
    impatient = RemoteNode(AgentSocket(remote.socket), patience_s=0.2)
    impatient.launches.reports(())
    with stopped(remote.agent.pid):
        began = time.monotonic()
        with pytest.raises(NodeUnreachable, match=r"did not answer within 0\.2 s"):
            impatient.launches.reports(())
        assert time.monotonic() - began < EVENT_S / 2
    until(lambda: _answers(impatient), "the agent answers again")
    impatient.close()


def test_a_call_that_was_given_up_while_the_agent_hung_is_never_done(remote: RemoteHost) -> None:
    impatient = RemoteNode(AgentSocket(remote.socket), patience_s=0.2)
    impatient.launches.reports(())
    with stopped(remote.agent.pid), pytest.raises(NodeUnreachable):
        impatient.launches.launch(a_launch(1, "sleep", "600"))
    until(lambda: _answers(impatient), "the agent answers again")
    remote.node.launches.launch(a_launch(2, "sleep", "600"))
    remote.wait("2.1", LaunchPhase.RUNNING)
    assert remote.phase("1.1") is LaunchPhase.UNKNOWN
    impatient.close()


def _answers(node: NodeAgent) -> bool:
    try:
        node.launches.reports(())
    except BackendFailed:
        return False
    return True


def test_an_agent_that_is_gone_fails_every_call_and_the_next_one_is_found(remote: RemoteHost) -> None:
    remote.node.launches.reports(())
    remote.agent.terminate()
    assert remote.agent.wait(EVENT_S) == 0
    with pytest.raises(NodeUnreachable, match="cannot be spoken to"):
        remote.node.launches.reports(())
    kept = remote.node
    remote.start()
    kept.launches.reports(())
    kept.close()


def test_an_agent_that_was_killed_leaves_its_launches_to_the_next(remote: RemoteHost) -> None:
    launch = a_launch(1, "sleep", "600")
    remote.node.launches.launch(launch)
    remote.wait("1.1", LaunchPhase.RUNNING)
    remote.agent.kill()
    remote.agent.wait()
    remote.node.close()
    remote.start()
    assert remote.phase("1.1") is LaunchPhase.RUNNING


def test_a_device_is_tested_over_the_socket(remote: RemoteHost) -> None:
    with pytest.raises(NotFound, match="no device nowhere"):
        remote.node.host.test_device(DeviceTest("1", "nowhere", 1.0))
    assert remote.node.host.reaches(Rendezvous("127.0.0.1", 1, 2, "secret")) == "Connection refused"
    assert remote.node.host.driver_log("nowhere") in {(), None}


def test_a_long_poll_holds_up_no_other_call(remote: RemoteHost) -> None:
    waiting = threading.Thread(target=remote.node.news.since, args=(2**40, EVENT_S), daemon=True)
    waiting.start()
    remote.node.launches.reports(())
    remote.node.launches.rendezvous("1.1")
    remote.node.launches.forget("1.1", keep=Keep.NOTHING)


def test_an_error_has_the_class_and_the_field_that_it_was_raised_with(remote: RemoteHost) -> None:
    with pytest.raises(Refused, match="is not a signal") as refused:
        remote.node.launches.signal("1.1", "NONSENSE")
    assert refused.value.field == "name"
    with pytest.raises(NotFound, match="no device nowhere") as absent:
        remote.node.host.change_slices("nowhere", SliceChange())
    assert absent.value.field == "device"


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", MAX_FRAME_BYTES + 1),
        struct.pack(">I", 7) + b"no json",
        struct.pack(">I", 4) + b"[{}]",
        struct.pack(">I", 50_000) + b"[" * 50_000,
    ],
    ids=["another protocol", "too large", "no JSON", "no object", "too deep"],
)
def test_garbage_is_refused_without_harm(remote: RemoteHost, garbage: bytes) -> None:
    with connected(remote) as connection:
        connection.sendall(garbage)
        assert receive(connection)["error"] == "Refused"
        assert hung_up(connection)
    remote.node.launches.reports(())


@pytest.mark.parametrize(
    "message",
    [
        {"call": "close", "arguments": {}},
        {"call": "launches", "arguments": {}},
        {"call": "news.close", "arguments": {}},
        {"call": "launches.__init__", "arguments": {}},
        {"call": ["launches.stop"], "arguments": {}},
        {"call": "launches.stop"},
        {"call": "launches.stop", "arguments": {"launch_id": 7}},
        {"call": "launches.stop", "arguments": {"launch_id": "1.1", "more": 1}},
        {"call": "launches.launch", "arguments": {"launch": {"allocation_id": "1.1"}}},
        {"call": "logs.read", "arguments": {"job_id": "../1", "rank": 0, "offset": 0, "max_bytes": 9, "mark": ""}},
        {"call": "logs.read", "arguments": {"job_id": "1", "rank": -1, "offset": 0, "max_bytes": 9, "mark": ""}},
    ],
)
def test_what_is_no_call_is_refused_and_the_connection_goes_on(remote: RemoteHost, message: dict[str, object]) -> None:
    with connected(remote) as connection:
        send(connection, message)
        assert receive(connection)["error"] == "Refused"
        send(connection, {"call": "launches.reports", "arguments": {"launch_ids": []}})
        assert receive(connection)["result"]["reports"] == []


@pytest.mark.parametrize("name", ["..", "", ".1", "../../nodes/b.1", "4..", "4.1\n", "4.1-../x", "\ud800"])
def test_what_is_no_launch_id_is_refused_by_every_call_and_the_agent_goes_on(remote: RemoteHost, name: str) -> None:
    node = remote.node
    for call in (
        lambda: node.launches.forget(name, keep=Keep.NOTHING),
        lambda: node.launches.stop(name),
        lambda: node.launches.signal(name, "TERM"),
        lambda: node.launches.declare_lost(name, ran=False),
        lambda: node.launches.reports((name,)),
        lambda: node.launches.rendezvous(name),
    ):
        with pytest.raises(Refused, match="is not the id of a launch"):
            call()
    assert node.launches.reports(("4_2.1-3",)).reports[0].phase is LaunchPhase.UNKNOWN


def test_connections_have_a_bound_and_those_that_are_closed_count_no_more(remote: RemoteHost) -> None:
    remote.node.close()
    held = [connected(remote) for _ in range(MOST_CONNECTIONS)]
    one_more = RemoteNode(AgentSocket(remote.socket))
    # Not that the call failed: what it asked for, such as a launch, is tried again.
    with pytest.raises(NodeUnreachable, match="the limit"):
        one_more.launches.reports(())
    for connection in held:
        connection.close()
    until(lambda: _answers(one_more), "there is room again")
    until(lambda: _answers(remote.node), "there is room for two")
    one_more.close()


CONNECT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
print(connection.recv(1000))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_is_refused(remote: RemoteHost) -> None:
    for path in (remote.home.root, remote.socket.parent, remote.socket):
        path.chmod(0o777)
    told = subprocess.run(
        ["/usr/bin/env", "python3", "-c", CONNECT, remote.socket], user=NOBODY, cwd="/", capture_output=True, text=True
    )
    assert "answers its own user and root, and you are user 65534" in told.stdout


def test_others_cannot_reach_the_socket(remote: RemoteHost) -> None:
    assert (remote.socket.stat().st_mode & 0o777, remote.socket.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_home_has_one_agent(remote: RemoteHost, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "corral.host.node.agent",
        "--home",
        str(remote.home.root),
        "--socket",
        str(tmp_path / "s"),
    ]
    second = subprocess.run(command, capture_output=True, text=True, timeout=EVENT_S)
    assert second.returncode == 1
    assert f"process {remote.agent.pid} already serves {remote.home.root}" in second.stderr


def test_an_agent_of_another_version_is_told_apart_in_words(home: Home) -> None:
    path = home.root / "old.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def greet() -> None:
        connection, _ = listener.accept()
        send(connection, {GREETING: VERSION + 1, "node": "new"})
        connection.close()

    threading.Thread(target=greet, daemon=True).start()
    with pytest.raises(NodeUnreachable, match="install the same Corral on both hosts"):
        RemoteNode(AgentSocket(path)).launches.reports(())
    listener.close()


def test_a_call_that_breaks_an_agent_in_a_way_that_nobody_foresaw_is_an_error_of_that_call_alone(home: Home) -> None:
    class Broken:
        @property
        def launches(self) -> None:
            raise ZeroDivisionError("nobody foresaw this")

        def close(self) -> None:
            """Nothing to let go of."""

    server = AgentServer(Broken(), "here", home.root / "a" / "agent.sock")  # type: ignore[arg-type]
    serving = threading.Thread(target=server.serve)
    serving.start()
    node = RemoteNode(AgentSocket(home.root / "a" / "agent.sock"))
    with pytest.raises(BackendFailed, match="nobody foresaw this"):
        node.launches.reports(())
    with pytest.raises(BackendFailed, match="nobody foresaw this"):
        node.launches.reports(())
    node.close()
    server.stop()
    serving.join(EVENT_S)
    assert not (home.root / "a" / "agent.sock").exists()


def test_a_signal_that_another_thread_receives_ends_the_agent(home: Home) -> None:
    host = RemoteHost(home)
    host.node.close()
    signal_another_thread(host.agent.pid, signal.SIGTERM)
    try:
        assert host.agent.wait(EVENT_S) == 0
    finally:
        host.agent.kill()
        host.agent.wait()
