"""A real systemd keeps an installed agent running: as a unit of the system, or of a lingering user."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from corral.engines.hosts.installing.installer import install, uninstall
from corral.host.node.remote import AgentSocket, RemoteNode
from tests.engines.hosts.installing.booted_host import BootedHost, why_not
from tests.engines.hosts.installing.conftest import HOME, LIBRARY, ORDER, answers
from tests.engines.hosts.installing.other_host import WHY_NOT
from tests.host.node.conftest import MOCK, until

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(WHY_NOT or why_not()), reason=str(WHY_NOT or why_not()))]


@pytest.fixture
def booted() -> Iterator[BootedHost]:
    host = BootedHost()
    host.path("/root/mock.toml").write_text(MOCK)
    yield host
    host.close()


def test_a_unit_of_the_system_keeps_the_agent_running(booted: BootedHost) -> None:
    installed = install(booted.ssh, ORDER)
    assert installed.service == "a unit of systemd"
    assert installed.remarks == ()
    assert booted.ok("systemctl", "is-enabled", "corral-agent").strip() == "enabled"
    before = booted.path(f"{HOME}/corral.pid").read_text()
    booted.run("kill", "-9", before.strip())
    node = RemoteNode(AgentSocket(booted.path(f"{HOME}/agent.sock")))
    until(lambda: answers(node) and booted.path(f"{HOME}/corral.pid").read_text() != before, "it is started again")
    node.close()
    uninstall(booted.ssh, "tag1")
    assert not booted.path("/etc/systemd/system/corral-agent.service").exists()
    assert not booted.path(LIBRARY).exists()
    assert "corral-agent" not in booted.ok("systemctl", "list-units", "--all", "--plain")


def test_a_unit_of_a_lingering_user_keeps_the_agent_running(booted: BootedHost) -> None:
    booted.ok("systemctl", "start", "dbus", "systemd-logind")
    booted.ok("loginctl", "enable-linger", "dweller")
    until(lambda: booted.path("/run/user/4321/systemd/private").exists(), "the user's own systemd runs")
    booted.path("/var/dweller/mock.toml").write_text(MOCK)
    order = replace(ORDER, options=("--mock", "/var/dweller/mock.toml", "--node", "there"))
    installed = install(booted.ssh_as_user, order)
    assert installed.service == "a unit of the lingering user"
    home = booted.path("/var/dweller/.local/share/corral-agent")
    node = RemoteNode(AgentSocket(home / "agent.sock"))
    until(lambda: answers(node), "the agent answers")
    before = (home / "corral.pid").read_text()
    booted.run("kill", "-9", before.strip())
    until(lambda: answers(node) and (home / "corral.pid").read_text() != before, "it is started again")
    assert (home / "corral.pid").stat().st_uid == 4321
    node.close()
    uninstall(booted.ssh_as_user, "tag1")
    assert not booted.path("/var/dweller/.local/lib/corral-agent").exists()
    assert booted.path("/var/dweller/.ssh/authorized_keys").read_text() == ""


def test_without_a_unit_a_user_has_a_process_that_outlives_the_connection(booted: BootedHost) -> None:
    booted.path("/var/dweller/mock.toml").write_text(MOCK)
    installed = install(booted.ssh_as_user, replace(ORDER, options=("--mock", "/var/dweller/mock.toml")))
    assert installed.service == "a process of its own"
    assert "this user can have no lingering unit" in installed.remarks[0]
