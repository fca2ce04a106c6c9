"""What `allocation.strategy` means for who gets which GPUs, on one node and on several."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.config import Settings, load_settings
from corral.config.site import PoolPlan, PoolStrategy
from corral.core.control.site.from_settings import site_setup
from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused
from corral.core.model.queues.queue import Project
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted

ONE = (box("a", 4),)
SEVERAL = (box("a", 2), box("b", 1), box("c", 1))
ON_ONE_AND_SEVERAL = pytest.mark.parametrize("nodes", [ONE, SEVERAL], ids=["one node", "several"])
HALF = PoolPlan("lab", users=("alice",))
NAMED = PoolPlan("lab", ("a:0", "a:1"), users=("alice",))
OWNERS = pytest.mark.parametrize("pool", [HALF, NAMED], ids=["a part", "by name"])


def site(nodes: tuple[Node, ...], **settings: Any) -> View:
    arranged = site_setup(Settings(reserved_ratio=0.5, **settings), nodes).observation
    return View().advance([arranged, *observed(*nodes)])


def gpus_of(view: View, user: str, *, at: float = T0) -> tuple[View, int]:
    """The view after four jobs of the user were submitted, and how many of all that waited started."""
    first = len(view.jobs) + 1
    view = view.advance(submitted(*(job(n, 1, user=user, submitted_at=at) for n in range(first, first + 4))))
    starts = Planner(view).plan(at).starts
    return view.advance([each for start in starts for each in started(start, at=at)]), len(starts)


@ON_ONE_AND_SEVERAL
@OWNERS
def test_static_gpus_are_their_owners_alone_though_they_are_idle(nodes: tuple[Node, ...], pool: PoolPlan) -> None:
    view, others = gpus_of(site(nodes, strategy=PoolStrategy.STATIC, pools=(pool,)), "bob")
    _, owners = gpus_of(view, "alice", at=T0 + 60)
    assert (others, owners) == (2, 2)


@ON_ONE_AND_SEVERAL
@OWNERS
def test_hybrid_gpus_are_lent_while_idle_and_come_back_to_their_owners(nodes: tuple[Node, ...], pool: PoolPlan) -> None:
    view, others = gpus_of(site(nodes, strategy=PoolStrategy.HYBRID, pools=(pool,)), "bob")
    assert others == 4
    view = view.advance(submitted(job(9, 1, user="alice")))
    (end,) = Planner(view).plan(T0 + 60).evictions
    assert end.lender == "lab"


@ON_ONE_AND_SEVERAL
def test_dynamic_gpus_are_for_whoever_comes(nodes: tuple[Node, ...]) -> None:
    view, others = gpus_of(site(nodes, strategy=PoolStrategy.DYNAMIC), "bob")
    assert (others, gpus_of(view, "alice", at=T0 + 60)[1]) == (4, 0)


@OWNERS
def test_dynamic_refuses_pools_and_static_those_that_lend(pool: PoolPlan) -> None:
    with pytest.raises(Refused, match="dynamic sets no GPUs apart, but pools are defined; use static or hybrid"):
        site(ONE, strategy=PoolStrategy.DYNAMIC, pools=(pool,))
    lends = replace(pool, lends=True)
    with pytest.raises(Refused, match=r"pool lab: it has `lends`, but allocation\.strategy static lends nothing"):
        site(ONE, strategy=PoolStrategy.STATIC, pools=(lends,))
    keeps = replace(pool, lends=False)
    assert gpus_of(site(ONE, strategy=PoolStrategy.HYBRID, pools=(keeps,)), "bob")[1] == 2
    assert gpus_of(site(ONE, pools=(lends,)), "bob")[1] == 4


PART = "pools: [{name: reserved, users: [alice]}]"


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("allocation: {strategy: hybrid, reserved_ratio: 0.3}\n", "reserved_ratio 0.3 has no effect yet", PART),
        (
            "allocation: {strategy: hybrid}\nprojects: [{name: nlp}]\n",
            "reserved_ratio 0.3 has no effect yet",
            "pools: [{name: reserved, projects: [nlp]}]",
        ),
        ("allocation: {reserved_ratio: 0.5}\n", "reserved_ratio 0.5 has no effect yet", PART),
        (
            "allocation: {strategy: static}\n",
            "strategy static has no effect yet",
            "pools: [{name: reserved, gpus: [a:0], users: [alice]}]",
        ),
        (
            "allocation: {reserved_ratio: 0.5}\npools:\n- {name: reserved, gpus: ['a:1'], users: [bob]}\n",
            "reserved_ratio 0.5 has no effect yet",
            "- {name: reserved-2, users: [alice]}",
        ),
    ],
)
def test_a_strategy_without_a_pool_to_act_on_says_which_line_makes_one(
    tmp_path: Path, text: str, says: str, line: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    (remark,) = site_setup(load_settings(path), SEVERAL).remarks
    assert remark.startswith(f"allocation.{says}")
    assert f"`{line}`" in remark
    path.write_text(f"{text}{line}\n")
    arranged = site_setup(load_settings(path), SEVERAL)
    assert arranged.remarks == ()
    view = View().advance([arranged.observation, *observed(*SEVERAL)])
    assert all(any(here.values()) for here in view.set_apart.values())


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(strategy=PoolStrategy.DYNAMIC),
        Settings(strategy=PoolStrategy.HYBRID, pools=(NAMED,)),
        Settings(strategy=PoolStrategy.STATIC, pools=(NAMED,), projects=(Project("nlp"),)),
    ],
)
def test_a_strategy_with_what_it_acts_on_needs_no_remark(settings: Settings) -> None:
    assert site_setup(settings, SEVERAL).remarks == ()


def test_a_part_that_is_less_than_one_gpu_and_one_under_dynamic_are_remarked_on(tmp_path: Path) -> None:
    (remark,) = site_setup(Settings(reserved_ratio=0.2, pools=(HALF,)), SEVERAL).remarks
    assert remark == (
        "pool lab: allocation.reserved_ratio 0.2 of 4 GPUs is less than one GPU; raise the ratio, or name its "
        "GPUs, such as gpus: [a:0]"
    )
    path = tmp_path / "config.yaml"
    path.write_text("allocation: {strategy: dynamic, reserved_ratio: 0.3}\n")
    (remark,) = site_setup(load_settings(path), SEVERAL).remarks
    assert remark.startswith("allocation.reserved_ratio 0.3 has no effect: allocation.strategy is dynamic")
