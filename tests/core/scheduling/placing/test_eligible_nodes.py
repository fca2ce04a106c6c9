"""Which nodes could serve a job at all, and where it could start soonest."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.devices.device import Silence
from corral.core.model.fact import NodeCordoned, SilenceObserved, SiteArranged
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.placing.plan import Start
from corral.core.model.queues.queue import Pool
from corral.core.model.view import View
from corral.core.scheduling.explaining.impossible import impossible
from corral.core.scheduling.placing.eligible_nodes import eligible_nodes, soonest_nodes
from corral.core.scheduling.state.draft import PlacementRequest
from tests.core.scheduling.lab import H100, box, job, observed, started, submitted, view_of

LABELLED = replace(box("d", 8), labels=(("zone", "d"),))
FLEET = view_of(observed(box("a", 4), box("b", 2, model=H100), box("c", 8, cpus=8), LABELLED))
ALL = ("a", "b", "c", "d")


def soonest(view: View, request: Request, most: int = 4) -> tuple[str, ...]:
    wanted = PlacementRequest(request)
    return soonest_nodes(view, wanted, eligible_nodes(view, wanted), most)


@pytest.mark.parametrize(
    ("request_", "names"),
    [
        ({}, ALL),
        ({"devices": 0}, ALL),
        ({"node": "b"}, ("b",)),
        ({"node": "z"}, ()),
        ({"labels": (("zone", "d"),)}, ("d",)),
        ({"models": ("H100",)}, ("b",)),
        ({"devices": 3}, ("a", "c", "d")),
        ({"cpu_milli": 9000}, ("a", "b", "d")),
        ({"min_memory_mib": 10**6}, ()),
        ({"device_uuids": ("GPU-c-0",)}, ("c",)),
        ({"devices": 2, "gang_size": 3}, ALL),
        ({"devices": 2, "gang_size": 3, "spread": True}, ALL),
        ({"devices": 2, "gang_size": 3, "one_node": True}, ("c", "d")),
    ],
)
def test_a_node_is_eligible_if_a_member_could_run_there(request_: dict[str, Any], names: tuple[str, ...]) -> None:
    request = Request(**request_)
    assert eligible_nodes(FLEET, PlacementRequest(request)) == names
    assert (impossible(FLEET, request) is None) is bool(names)


def test_closed_pools_and_models_on_which_the_job_does_not_run_make_no_node_eligible() -> None:
    closed = FLEET.advance([SiteArranged(pools=(Pool("lab", ("a:*",)),))])
    assert eligible_nodes(closed, PlacementRequest(Request(), closed_pools=("lab",))) == ("b", "c", "d")
    assert eligible_nodes(FLEET, PlacementRequest(Request(), speeds=(("A100", 0.0),))) == ("b",)


def test_free_nodes_come_before_busy_ones_and_these_before_those_that_take_no_jobs() -> None:
    all_of_a = Member("a", tuple(Grant(device.uuid, 1000) for device in FLEET.nodes["a"].devices))
    busy = FLEET.advance([*submitted(job(1, 4)), *started(Start("1", Placement((all_of_a,)), "test"))])
    assert soonest(busy, Request()) == ("b", "c", "d", "a")
    cordoned = busy.advance([NodeCordoned("b", "fan", by="root", at=1.0)])
    assert soonest(cordoned, Request()) == ("c", "d", "a", "b")
    assert soonest(cordoned, Request(prefers=(("zone", "d"),)), most=2) == ("d", "c")


@pytest.mark.parametrize("gone", [False, True])
def test_a_node_that_does_not_answer_is_eligible_and_not_among_the_soonest(gone: bool) -> None:
    view = FLEET.advance([SilenceObserved("a", Silence(1.0, "it does not answer", gone))])
    assert eligible_nodes(view, PlacementRequest(Request())) == ALL
    assert soonest(view, Request()) == ("b", "c", "d")
    assert soonest(view, Request(node="a")) == ()
