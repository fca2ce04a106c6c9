"""GPUs that cannot have the power limit that a job asks for are not offered to it, and it is told why."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.control.submitting.submission_checks import check
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.view import View
from corral.core.scheduling.explaining.impossible import impossible
from corral.core.scheduling.explaining.phrases import need_of
from corral.core.scheduling.explaining.why import WaitIndex, explain
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, powered, started, submitted, view_of

BOX = powered(box(), 400)


def changed(node: Node, **changes: Any) -> Node:
    return replace(node, devices=tuple(replace(one, **changes) for one in node.devices))


UNKNOWN, FIXED = changed(BOX, power_range_mw=None), changed(BOX, power_fixed="only root may")


@pytest.mark.parametrize(
    ("node", "limit_w", "words"),
    [
        (BOX, 100, None),
        (BOX, 400, None),
        (BOX, 99, "no GPU here takes a power limit of 99 W; ask for 100 to 400 W"),
        (BOX, 401, "no GPU here takes a power limit of 401 W; ask for 100 to 400 W"),
        (
            UNKNOWN,
            300,
            "no GPU here lets a job set its power limit: its driver names no range; leave out --power-limit",
        ),
        (FIXED, 300, "no GPU here lets a job set its power limit: only root may; leave out --power-limit"),
    ],
)
def test_a_limit_that_no_gpu_takes_is_refused_with_those_that_they_take(
    node: Node, limit_w: int, words: str | None
) -> None:
    assert impossible(view_of(observed(node)), Request(power_limit_w=limit_w)) == words


def test_a_job_gets_the_gpus_that_take_its_limit_and_waits_for_no_others() -> None:
    mixed = (*powered(box(gpus=1), 400).devices, *powered(box("x", 1), 250).devices, *changed(FIXED).devices[2:4])
    here = replace(BOX, devices=tuple(replace(one, index=index) for index, one in enumerate(mixed)))
    view = view_of(observed(here) + submitted(job(1, power_limit_w=300), job(2, power_limit_w=300)))
    (start,) = Planner(view).plan(T0).starts
    assert start.placement.uuids == ("GPU-box-0",)
    view = view.advance(started(start))
    plan, one = Planner(view).plan(T0), view.jobs["2"]
    assert explain(view, one, WaitIndex(plan, view).of(one), T0, plan=plan).sentence.startswith(
        "job 2 waits: it needs 1 GPU limited to 300 W; box has 0 free, 1 allocated to job 1 (alice), "
        "2 whose power limit cannot be set (only root may), 1 whose power limit must be 100 to 250 W"
    )


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (Request(devices=0, power_limit_w=300), "no GPU"),
        (Request(share_milli=500, power_limit_w=300), "a part of a GPU"),
        (Request(share_milli=1000, split_milli=1500, power_limit_w=300), "a part of a GPU"),
        (Request(mig_profile="1g.10gb", power_limit_w=300), "a MIG slice"),
    ],
)
def test_only_whole_gpus_have_a_power_limit_of_a_job(request_: Request, what: str) -> None:
    with pytest.raises(Refused, match=f"a power limit is for a whole GPU, and this job asks for {what}"):
        check(Submission(command=("true",), request=request_))


@pytest.mark.parametrize("limit_w", [0, -1, 10_001])
def test_a_limit_is_a_number_of_watts(limit_w: int) -> None:
    with pytest.raises(Refused, match="power_limit"):
        check(Submission(command=("true",), request=Request(power_limit_w=limit_w)))


@pytest.mark.parametrize("changes", [{"replica": True}, {"means": Means.MIG}, {"mig_profile": "1g.10gb"}])
def test_no_job_limits_a_gpu_of_which_others_have_a_part(changes: dict[str, Any]) -> None:
    assert replace(BOX.devices[0], **changes).settable_power_mw is None


def test_a_request_is_told_with_its_limit() -> None:
    assert need_of(Request(devices=2, power_limit_w=300)) == "2 GPUs limited to 300 W each"


def test_equal_gpus_with_unequal_limits_are_told_apart() -> None:
    view = View().advance(observed(powered(box("a", 1), 300), powered(box("b", 1), 400)))
    plan = Planner(view.advance(submitted(job(1, power_limit_w=350)))).plan(T0)
    assert [start.placement.members[0].node for start in plan.starts] == ["b"]


def test_a_device_without_a_word_on_power_takes_no_limit() -> None:
    assert Device("GPU-a", 0, "NVIDIA A100", 81920).settable_power_mw is None
