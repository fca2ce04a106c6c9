"""`corral hosts upgrade`: one host after the other, until one fails."""

from collections.abc import Sequence
from typing import Any

import pytest

from corral.core.model.devices.joined_host import HostState, JoinedHost
from corral.core.model.errors import BackendFailed, Conflict
from corral.features.hosts import run_commands
from corral.features.hosts.answers import HostList
from corral.features.hosts.commands import HostsUpgradeCommand


class Hosts:
    """The hosts of a server, whose upgrades take one look. `bad` fails, and `silent` does not answer."""

    def __init__(self, names: Sequence[str], *, bad: str = "", silent: str = "") -> None:
        self.rows = {name: JoinedHost(name, name, state=HostState.READY) for name in names}
        self.bad, self.silent = bad, silent
        self.at_work: list[str] = []
        self.begun: list[tuple[str, int]] = []

    def list(self) -> HostList:
        shown = tuple(
            JoinedHost(name, name, state=HostState.READY, step="upgrade") if name in self.at_work else row
            for name, row in self.rows.items()
        )
        self.at_work.clear()
        return HostList(shown)

    def upgrade(self, name: str) -> None:
        if name == self.silent:
            raise Conflict(f"host {name} does not answer: no route")
        self.begun.append((name, len(self.at_work)))
        self.at_work.append(name)
        if name == self.bad:
            self.rows[name] = JoinedHost(name, name, state=HostState.READY, reason="upgrade: its disk is full")


def upgrade(monkeypatch: pytest.MonkeyPatch, hosts: Hosts) -> None:
    class Client:
        def __enter__(self) -> Any:
            self.hosts = hosts
            return self

        def __exit__(self, *ended: object) -> None:
            pass

    monkeypatch.setattr(run_commands, "Client", Client)
    run_commands.upgrade(HostsUpgradeCommand())


def test_no_two_hosts_are_upgraded_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts(["a", "b", "c"])
    upgrade(monkeypatch, hosts)
    assert hosts.begun == [("a", 0), ("b", 0), ("c", 0)]


def test_the_first_that_fails_is_the_last_and_the_others_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts(["a", "b", "c", "d"], bad="b")
    with pytest.raises(BackendFailed, match="host b could not be upgraded; not upgraded either: c, d"):
        upgrade(monkeypatch, hosts)
    assert hosts.begun == [("a", 0), ("b", 0)]


def test_a_host_that_does_not_answer_is_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts(["a", "b"], silent="a")
    with pytest.raises(BackendFailed, match="host a does not answer: no route; not upgraded either: b"):
        upgrade(monkeypatch, hosts)
    assert hosts.begun == []
