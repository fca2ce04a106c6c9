"""What may be removed from the pool, and by whom."""

from dataclasses import replace
from typing import Any

import pytest

from corral.clock import ManualClock
from corral.core.access.caller import Caller
from corral.core.model.devices.device import Silence
from corral.core.model.devices.joined_host import HostState, JoinedHost
from corral.core.model.errors import Conflict, Forbidden
from corral.core.model.fact import SilenceObserved
from corral.core.model.jobs.job import JobKind
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.features.hosts.host_access import HostAccessByPeople
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted, view_of


class Hosts:
    """The hosts of a server, of which those that were removed are noted."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def rows(self) -> tuple[JoinedHost, ...]:
        return (JoinedHost("a", "a", state=HostState.READY),)

    def remove(self, name: str) -> None:
        self.removed.append(name)


def running(kind: JobKind) -> View:
    asked = job(1, 1)
    view = view_of([*observed(box("a")), *submitted(replace(asked, spec=replace(asked.spec, kind=kind)))])
    (start,) = Planner(view).plan(T0).starts
    return view.advance(started(start))


def access(view: View, hosts: Any) -> HostAccessByPeople:
    return HostAccessByPeople(hosts, lambda: view, ManualClock(T0))


ADMIN = Caller("root", admin=True)


@pytest.mark.parametrize("force", [False, True])
def test_a_host_with_a_reservation_stays_and_the_command_that_ends_it_is_told(force: bool) -> None:
    hosts = Hosts()
    with pytest.raises(Conflict, match="corral release 1"):
        access(running(JobKind.RESERVE), hosts).remove("a", ADMIN, force=force)
    assert hosts.removed == []


def test_a_host_with_a_job_is_removed_only_by_force() -> None:
    hosts = Hosts()
    with pytest.raises(Conflict, match="1 job still runs on a"):
        access(running(JobKind.RUN), hosts).remove("a", ADMIN, force=False)
    assert hosts.removed == []
    access(running(JobKind.RUN), hosts).remove("a", ADMIN, force=True)
    assert hosts.removed == ["a"]


def test_only_administrators_remove_hosts() -> None:
    with pytest.raises(Forbidden):
        access(running(JobKind.RUN), Hosts()).remove("a", Caller("alice"), force=True)


def test_a_connected_host_whose_node_is_refused_says_why_and_one_that_has_just_returned_does_not() -> None:
    why = "its devices are those of node b"
    for since, told in ((T0 - 60, f"it is connected, and nothing starts there: {why}"), (T0 - 1, None)):
        view = view_of([*observed(box("a")), SilenceObserved("a", Silence(since, why))])
        (row,) = access(view, Hosts()).rows().hosts
        assert row.reason == told
