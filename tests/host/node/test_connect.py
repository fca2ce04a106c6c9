"""The program that joins a server's connection to the agent, and starts an agent where nothing else does."""

import fcntl
import json
import socket
import threading
import time
from pathlib import Path

import pytest

from corral.host.node import connect


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of an agent that is a process of its own."""
    (tmp_path / connect.START_FILE).write_text(json.dumps({"words": ["false"], "environ": {}}))
    return tmp_path


def listens(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def test_an_agent_that_makes_room_for_its_next_version_is_waited_for_and_no_other_is_started(home: Path) -> None:
    listeners: list[socket.socket] = []
    successor = threading.Timer(0.3, lambda: listeners.append(listens(home / "agent.sock")))
    successor.start()
    with connect._agent_started_at(str(home / "agent.sock")):
        assert listeners
    listeners[0].close()


def test_no_agent_is_started_beside_one_that_holds_the_lock(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(connect, "start_agent", started.append)
    monkeypatch.setattr(connect, "_SUCCESSOR_S", 0.0)
    monkeypatch.setattr(connect, "_START_S", 0.0)
    with (home / "corral.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="No such file"):
            connect._agent_started_at(str(home / "agent.sock"))
        assert started == []
    with pytest.raises(OSError, match="No such file"):
        connect._agent_started_at(str(home / "agent.sock"))
    assert started == [str(home)]


def test_where_something_else_starts_the_agent_nothing_is_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(FileNotFoundError):
        connect._agent_started_at(str(tmp_path / "agent.sock"))
    assert time.monotonic() - began < connect._SUCCESSOR_S / 2
