"""The thread of a link to a host: no order is lost, and nothing that it does holds up a stop of the server."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.core.model.devices.joined_host import HostEntry, HostState, JoinOrder
from corral.core.model.errors import BackendFailed
from corral.engines.hosts import host_link
from corral.engines.hosts.first_session import FirstSession
from corral.engines.hosts.host_link import HostLink
from corral.engines.hosts.host_session import open_session
from corral.engines.hosts.installing.installer import Step
from corral.engines.hosts.ssh import SshRoute
from corral.host.node.agent_claim import ServerClaim
from tests.host.node.conftest import until

EVENT_S = 20.0

Install = Callable[[], None]


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[Callable[[Install], HostLink]]:
    """Makes a link, whose installation calls a function."""
    links: list[HostLink] = []

    def link(install: Install) -> HostLink:
        def installed(route: SshRoute, accept_new: bool, step: Step) -> SshRoute:
            install()
            return route

        clock, claim = SystemClock(tmp_path / "clock.json", anew=True), ServerClaim("tag", "", "root@head:/x")
        route = SshRoute("gpu-05", tmp_path / "control")
        links.append(HostLink(HostEntry("gpu-05"), route, clock, lambda entry: None, claim=claim, install=installed))
        return links[-1]

    yield link
    for one in links:
        one.close()


def connecting(meanwhile: Callable[[], None]) -> Callable[..., FirstSession]:
    """A connection that a shell stands for."""

    def connect(*words: object, **more: object) -> FirstSession:
        meanwhile()
        return FirstSession(open_session(["sh", "-c", "cat"], stderr=subprocess.PIPE), "10.0.0.5", {"version": "1"})

    return connect


def test_an_order_that_comes_while_a_host_is_being_connected_is_carried_out(
    linked: Callable[[Install], HostLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed, orders = threading.Event(), [JoinOrder(install=True)]
    link = linked(installed.set)
    monkeypatch.setattr(host_link, "connect", connecting(lambda: link.try_again(orders.pop()) if orders else None))
    link.start()
    assert installed.wait(EVENT_S)
    until = time.monotonic() + EVENT_S
    while not link.answers and time.monotonic() < until:
        time.sleep(0.01)
    row = link.row()
    assert (row.state, row.address, row.version) == (HostState.READY, "10.0.0.5", "1")


def test_a_stop_does_not_wait_for_an_installation(linked: Callable[[Install], HostLink]) -> None:
    begun, end = threading.Event(), threading.Event()

    def install() -> None:
        begun.set()
        end.wait(EVENT_S)

    link = linked(install)
    link.try_again(JoinOrder(install=True))
    link.start()
    assert begun.wait(EVENT_S)
    began = time.monotonic()
    link.close(began + 0.1)
    assert time.monotonic() - began < EVENT_S / 2
    end.set()


def test_a_failed_upgrade_is_told_until_another_way_has_led_there(
    linked: Callable[[Install], HostLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(step: Step) -> None:
        raise BackendFailed("its disk is full")

    link = linked(lambda: None)
    monkeypatch.setattr(host_link, "connect", connecting(lambda: None))
    link.start()
    ways: list[Callable[[], None]] = [
        lambda: link.check({"version": "2"}),
        lambda: link.try_again(JoinOrder(install=True)),
    ]
    for other_way in ways:
        until(lambda: link.answers, "it is connected")
        link.begin("upgrade", fails)
        until(lambda: link.row().reason == "upgrade: its disk is full", "the failure is told")
        other_way()
        until(lambda: link.answers and link.row().reason != "upgrade: its disk is full", "it is told no more")
