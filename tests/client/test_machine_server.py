"""A plain user is not told to start what an administrator has installed."""

import os
from pathlib import Path

import pytest

from corral.client import Client, NoServer
from corral.client.connecting import machine_server, server_home
from corral.client.connecting.machine_server import how_to_restart, how_to_start
from corral.core.model.home import Home

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of root's")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A user's home on a machine on which root has installed nothing."""
    monkeypatch.setattr(server_home, "SYSTEM_HOME", tmp_path / "system")
    monkeypatch.setattr(machine_server, "SYSTEMD", str(tmp_path))
    monkeypatch.setattr(machine_server, "UNITS", (str(tmp_path / "corral.service"),))
    return Home(tmp_path / "own")


def as_user(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)


def test_where_root_has_installed_nothing_a_user_starts_a_server(own: Home) -> None:
    assert how_to_start(own).startswith("start one with `corral up --detach`")
    assert how_to_restart(own) == "restart it (jobs run on): corral down; corral up --detach"


def test_where_a_unit_is_installed_a_user_asks_for_it_or_starts_one_of_his_own(
    own: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corral.service").touch()
    as_user(monkeypatch, 1000)
    system = tmp_path / "system"
    with Client(tmp_path / "own") as client, pytest.raises(NoServer) as raised:
        client.server()
    assert str(raised.value) == (
        f"no Corral server runs in {own}; ask an administrator to start this machine's, in {system} "
        "(`sudo systemctl start corral`), or start one of your own with `corral up --detach`"
    )
    assert "corral up" not in how_to_start(Home(system))
    assert "to restart it (`sudo systemctl restart corral`)" in how_to_restart(Home(system))
    assert "corral up" in how_to_restart(own), "his own server is his to restart"
    as_user(monkeypatch, 0)
    assert how_to_restart(Home(system)) == "restart it: `systemctl restart corral`; jobs run on"


def test_a_unit_that_no_systemd_starts_is_no_server(own: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corral.service").touch()
    monkeypatch.setattr(machine_server, "SYSTEMD", str(tmp_path / "none"))
    assert how_to_start(own).startswith("start one with `corral up --detach`")


@root_only
def test_without_systemd_the_command_names_the_home_of_the_machines_server(
    own: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "system").mkdir(mode=0o755)
    as_user(monkeypatch, 1000)
    assert f"(`sudo env CORRAL_HOME={tmp_path}/system corral up --detach`)" in how_to_start(own)
    (tmp_path / "system").chmod(0o777)
    assert how_to_start(own).startswith("start one with `corral up --detach`"), "anybody can have made that"
