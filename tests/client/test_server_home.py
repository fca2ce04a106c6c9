"""Which server is meant where nobody names one."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.client import Client, find_address
from corral.client.connecting import server_home
from corral.core.model.errors import Refused
from corral.core.model.home import Home

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of root's")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short path with the home directory of a user and that of the system."""
    with tempfile.TemporaryDirectory(prefix="sh-") as short:
        place = Path(short)
        for directory in (place / "user" / ".corral", place / "system"):
            directory.mkdir(parents=True, mode=0o755)
        monkeypatch.setenv("HOME", str(place / "user"))
        monkeypatch.setattr(server_home, "SYSTEM_HOME", place / "system")
        yield place


def listening(directory: Path, backlog: int = 8) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(directory / "corral.sock"))
    listener.listen(backlog)
    return listener


def found() -> Path:
    server_home._found.clear()  # as in a program that starts now
    return find_address().home.root


@root_only
def test_the_users_own_server_comes_before_that_of_the_machine_and_that_before_none(place: Path) -> None:
    own, system = place / "user" / ".corral", place / "system"
    assert found() == own
    with listening(system):
        assert found() == system
        with listening(own):
            assert found() == own
        assert found() == system, "the socket of a dead server is no server"
    assert found() == own


@root_only
def test_what_is_named_is_not_searched_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(place / "system"):
        monkeypatch.setenv("CORRAL_HOME", str(place / "named"))
        assert found() == place / "named"
        monkeypatch.setenv("CORRAL_URL", "http://gpu-07:7878")
        assert find_address().url == "http://gpu-07:7878"
        assert Client(home=place / "other").address.home == Home(place / "other")


@root_only
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_directory_that_others_can_write_to_is_not_the_machines(place: Path, mode: int) -> None:
    (place / "system").chmod(mode)
    with listening(place / "system"):
        assert found() == place / "user" / ".corral"


@root_only
def test_a_directory_of_another_user_or_a_link_is_not_the_machines(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(place / "system"):
        monkeypatch.setattr(server_home, "SYSTEM_HOME", place / "link")
        (place / "link").symlink_to(place / "system")
        assert found() == place / "user" / ".corral"
        monkeypatch.setattr(server_home, "SYSTEM_HOME", place / "system")
        os.chown(place / "system", 65534, 65534)
        assert found() == place / "user" / ".corral"


@root_only
def test_a_server_that_is_too_busy_to_take_a_connection_is_there(place: Path) -> None:
    with listening(place / "system", backlog=0), socket.socket(socket.AF_UNIX) as first:
        first.connect(str(place / "system" / "corral.sock"))
        assert found() == place / "system"


@root_only
def test_a_program_stays_with_the_server_that_it_first_found(place: Path) -> None:
    with listening(place / "system"):
        assert found() == place / "system"
        with listening(place / "user" / ".corral"):
            assert find_address().home.root == place / "system"
    assert find_address().home.root == place / "system"


@root_only
def test_who_has_no_home_directory_finds_the_server_of_the_machine(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME")
    with pytest.raises(Refused, match="neither CORRAL_HOME nor HOME"):
        find_address()
    with listening(place / "system"):
        assert found() == place / "system"


def test_what_is_about_the_files_of_a_home_does_not_search(place: Path) -> None:
    with listening(place / "system"):
        assert server_home.own_home().root == place / "user" / ".corral"


def test_a_home_whose_socket_would_have_too_long_a_path_is_no_error_before_it_is_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/" + "x" * 120)
    assert found() == Path("/" + "x" * 120, ".corral")


def test_a_command_says_which_server_answered_if_it_is_not_the_users_own() -> None:
    code = "import corral.cli.tables.device_tables as l, corral.client as c; print(l.elsewhere(c.find_address()))"
    told = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "HOME": "/h", **named}, text=True, stdout=-1
        ).stdout
        for named in ({}, {"CORRAL_HOME": "/srv/corral"}, {"CORRAL_URL": "https://gpu-07:7070"})
    ]
    assert told == ["None\n", "/srv/corral\n", "https://gpu-07:7070\n"]
