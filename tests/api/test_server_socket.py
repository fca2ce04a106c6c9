"""The file of a server's socket is made again, and nobody else's is taken."""

import http.client
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.api.connections.server_socket import ServerSocket
from corral.core.model.errors import Refused
from tests.api.world import PATIENCE_S, Served, exchange


@pytest.fixture
def path(home: Path) -> Path:
    return home / "other.sock"


@pytest.fixture
def ours(served: Served, path: Path) -> Iterator[ServerSocket]:
    ours = ServerSocket(path, for_everyone=True)
    ours.serve = served.server.serve_also_soon
    yield ours
    ours.socket.close()


def answers_at(path: Path) -> bool:
    connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(PATIENCE_S)
    connection.sock.connect(os.fspath(path))
    try:
        return exchange(connection, "GET", "/health", None, {}).status == 200
    finally:
        connection.close()


@pytest.mark.parametrize("for_everyone", [True, False])
def test_a_socket_that_was_removed_is_made_again_as_it_was(served: Served, path: Path, for_everyone: bool) -> None:
    ours = ServerSocket(path, for_everyone=for_everyone)
    ours.serve = served.server.serve_also_soon
    mode = path.stat().st_mode
    for _ in range(2):
        path.unlink()
        ours.look()
        assert answers_at(path)
        assert path.stat().st_mode == mode
        assert stat.S_IMODE(mode) == (0o666 if for_everyone else 0o600)
    ours.remove()
    assert not path.exists()
    ours.socket.close()


def test_a_socket_that_is_there_is_left_as_it_is(ours: ServerSocket, path: Path) -> None:
    before = path.stat().st_ino
    ours.look()
    assert path.stat().st_ino == before


@pytest.mark.parametrize("what", ["a server that listens", "a server that does not listen yet", "a file", "a link"])
def test_what_somebody_else_has_put_there_is_neither_replaced_nor_removed(
    ours: ServerSocket, path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    path.rename(path.with_name("moved.sock"))
    with socket.socket(socket.AF_UNIX) as theirs:
        if what == "a file":
            path.touch()
        elif what == "a link":
            path.symlink_to("nowhere")
        else:
            theirs.bind(os.fspath(path))
            if what == "a server that listens":
                theirs.listen()
        before = path.lstat().st_ino
        for _ in range(3):
            ours.look()
        ours.remove()
        assert path.lstat().st_ino == before
    assert caplog.text.count("is not this server's socket any more") == 1


def test_a_home_that_has_gone_is_told_and_not_made(ours: ServerSocket, path: Path) -> None:
    moved = path.parent.with_name(path.parent.name + "-moved")
    path.parent.rename(moved)
    try:
        with pytest.raises(Refused, match="cannot listen"):
            ours.look()
        assert not path.parent.exists()
    finally:
        moved.rename(path.parent)
