"""A host that is removed while an agent is being installed there is left without one."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.devices.joined_host import HostEntry, JoinOrder
from corral.core.model.home import Home
from corral.engines.hosts import host_joining
from corral.engines.hosts.host_pool import HostPool
from corral.engines.hosts.installing.installer import Installed

ENTRY, ORDER = HostEntry("gpu-01", ssh="no-such-host.invalid"), JoinOrder(install=True)
PATIENCE_S = 20.0


class Installer:
    """Stands for the program that installs and removes agents on hosts; `goes_on` ends an installation."""

    def __init__(self) -> None:
        self.began, self.goes_on, self.removed = threading.Event(), threading.Event(), threading.Event()

    def install(self, *_: object) -> Installed:
        self.began.set()
        assert self.goes_on.wait(PATIENCE_S)
        return Installed("1", "a process of its own")

    def uninstall(self, *_: object, even_if_jobs_run: bool) -> None:
        assert self.goes_on.is_set(), "it is not removed beside its installation"
        self.removed.set()


@pytest.fixture
def installer(monkeypatch: pytest.MonkeyPatch) -> Installer:
    made = Installer()
    monkeypatch.setattr(host_joining, "install", made.install)
    monkeypatch.setattr(host_joining, "uninstall", made.uninstall)
    monkeypatch.setattr(host_joining, "own_key", lambda _: "ssh-ed25519 AAAA")
    return made


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[HostPool]:
    with closing(HostPool(Home(tmp_path), Settings(), SystemClock())) as made:
        made.start(())
        yield made


def test_what_was_being_installed_is_removed_again(pool: HostPool, installer: Installer) -> None:
    pool.add(ENTRY, ORDER)
    assert installer.began.wait(PATIENCE_S)
    pool.remove("gpu-01")
    assert pool.rows() == ()
    installer.goes_on.set()
    assert installer.removed.wait(PATIENCE_S)


def test_a_host_that_was_added_again_meanwhile_keeps_its_agent(pool: HostPool, installer: Installer) -> None:
    pool.add(ENTRY, ORDER)
    assert installer.began.wait(PATIENCE_S)
    installer.goes_on.set()
    pool._joining().uninstall(pool._host("gpu-01"), pool._is_joined)
    assert not installer.removed.is_set()
