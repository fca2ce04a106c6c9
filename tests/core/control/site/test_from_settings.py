"""What a site's settings come to on the devices there are."""

from dataclasses import replace

import pytest

from corral.config import Settings
from corral.config.site import PoolPlan, PoolStrategy
from corral.core.control.site.from_settings import site_setup
from corral.core.model.devices.device import VirtualLayer
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.queues.queue import Pool, Project, Queue, Quota
from tests.core.control.strategies import box

NODES = tuple(box(10).nodes.values())
LAB = PoolPlan("lab", users=("alice",))


def pools(settings: Settings) -> tuple[Pool, ...]:
    return site_setup(settings, NODES).observation.pools


def apart(settings: Settings) -> dict[str, tuple[str, ...]]:
    """What each pool has of the box."""
    view = box(10).advance([site_setup(settings, NODES).observation])
    return {name: here["box"] for name, here in view.set_apart.items()}


def test_there_is_always_a_default_queue_served_as_the_site_says() -> None:
    settings = Settings(algorithm="fair-share", queues=(Queue("night"),))
    assert site_setup(settings, NODES).observation.queues == (Queue("default", "fair-share"), Queue("night"))


def test_every_queue_that_does_not_say_otherwise_preempts_where_the_site_does() -> None:
    said = (Queue("default"), Queue("night"), Queue("day", preempts=False), Queue("urgent", preempts=True))
    for queues in (said, said[1:]):
        arranged = site_setup(Settings(enable_preemption=True, queues=queues), NODES).observation.queues
        assert {queue.name for queue in arranged if queue.preempts} == {"default", "night", "urgent"}
    without = site_setup(Settings(queues=said), NODES).observation.queues
    assert {queue.name for queue in without if queue.preempts} == {"urgent"}


def test_a_score_that_there_is_not_places_nothing() -> None:
    with pytest.raises(Refused, match=r"placement: there is no score 'packed'; did you mean 'pack'"):
        site_setup(Settings(placement=(("packed", 1.0),)), NODES)


def test_the_default_queue_can_be_set_up_like_any_other() -> None:
    settings = Settings(algorithm="fcfs", queues=(Queue("default", weight=2.0),))
    assert site_setup(settings, NODES).observation.queues == (Queue("default", weight=2.0),)


def test_limits_and_projects_are_taken_over() -> None:
    settings = Settings(
        max_milli_per_user=8000,
        user_quota=Quota(running=9),
        max_job_duration_s=60.0,
        max_queue_size=7,
        default_priority=3,
        auto_retry_failed_jobs=True,
        max_retries=2,
        projects=(Project("nlp"),),
    )
    observation = site_setup(settings, NODES).observation
    limits = observation.limits
    assert observation.projects == (Project("nlp"),)
    assert limits.of_user == Quota(share_milli=8000, running=9)
    assert (limits.max_time_limit_s, limits.max_queue_size) == (60.0, 7)
    assert (limits.default_priority, limits.default_retries) == (3, 2)


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        (Settings(), 512),
        (Settings(engine="kubernetes"), None),
        (Settings(engine="kubernetes", max_running_jobs=9), 9),
    ],
)
def test_a_cluster_runs_as_many_jobs_as_its_nodes_have_room_for_unless_the_site_says_otherwise(
    settings: Settings, most: int | None
) -> None:
    assert site_setup(settings, NODES).observation.limits.max_running_jobs == most


def test_a_hybrid_site_lends_the_reserved_part_of_its_gpus() -> None:
    settings = Settings(strategy=PoolStrategy.HYBRID, pools=(LAB,))
    assert pools(settings) == (Pool("lab", (), ("alice",), lends=True, part=0.3),)
    assert apart(settings) == {"lab": ("GPU-0", "GPU-1", "GPU-2")}


def test_a_static_site_keeps_its_pools_for_their_owners() -> None:
    settings = Settings(strategy=PoolStrategy.STATIC, pools=(PoolPlan("lab", ("3", "GPU-5"), projects=("nlp",)),))
    assert pools(settings) == (Pool("lab", ("3", "GPU-5"), (), ("nlp",), lends=False),)
    assert apart(settings) == {"lab": ("GPU-3", "GPU-5")}


def test_the_reserved_part_leaves_out_what_other_pools_name() -> None:
    settings = Settings(reserved_ratio=0.2, pools=(PoolPlan("mine", ("0", "GPU-1"), users=("bob",)), LAB))
    assert apart(settings) == {"mine": ("GPU-0", "GPU-1"), "lab": ("GPU-2", "GPU-3")}


def test_a_gpu_that_is_gone_is_reported() -> None:
    settings = Settings(pools=(PoolPlan("lab", ("9", "11"), users=("alice",)),))
    assert apart(settings) == {"lab": ("GPU-9",)}
    assert site_setup(settings, NODES).remarks == (
        (
            "pool lab: no GPU here matches 11 (there are 0, 1, 2, 3, 4, 5, 6, 7, 8, 9); a GPU that appears later is "
            "set apart at once"
        ),
    )


def test_an_index_alone_is_refused_where_several_nodes_have_one() -> None:
    settings = Settings(
        pools=(PoolPlan("lab", ("3", "GPU-5"), users=("alice",)),), places={"pool lab": "config.yaml, line 2"}
    )
    other = replace(NODES[0], name="other", devices=())
    words = (
        r"config.yaml, line 2: pool lab: GPU 3 may be of any of the 2 nodes; "
        r"write the node too, such as gpus: \[box:3\]"
    )
    with pytest.raises(Refused, match=words):
        site_setup(settings, [*NODES, other])
    with pytest.raises(Refused, match=words):
        site_setup(settings, NODES, silent=1)
    named = replace(settings, pools=(PoolPlan("lab", ("box:3",), users=("alice",)),))
    assert site_setup(named, [*NODES, other]).remarks == ()


def test_a_gpu_that_two_pools_mean_is_refused() -> None:
    both = (PoolPlan("a", ("box:*",), users=("alice",)), PoolPlan("b", ("GPU-3", "a100"), users=("bob",)))
    with pytest.raises(Refused, match="pool b: device GPU-0 and 9 more is in pool a already"):
        site_setup(Settings(pools=both), NODES)


def test_slices_are_no_gpus_more() -> None:
    sliced = replace(NODES[0], devices=(*NODES[0].devices, replace(NODES[0].devices[0], uuid="MIG-0", index=10,
                     parent_uuid="GPU-0")))  # fmt: skip
    assert site_setup(Settings(expected_gpus=10), [sliced]).remarks == ()


def test_a_line_of_sharing_for_a_gpu_that_is_not_here_is_reported() -> None:
    model = NODES[0].devices[0].model
    named = ("99", "GPU-none", "tpu", "*", "0", "GPU-1", model)
    assert site_setup(Settings(sharing=tuple((which, Means.MPS) for which in named)), NODES).remarks == tuple(
        f"sharing: no GPU here is {which}, by index, UUID or model; the line has no effect (there are 0, 1, 2, "
        f"3, 4, 5, 6, 7, 8, 9: {model})"
        for which in ("99", "GPU-none", "tpu")
    )


def test_a_line_of_sharing_is_no_remark_where_the_gpus_are_not_known_or_it_is_for_all() -> None:
    assert site_setup(Settings(sharing=(("99", Means.MPS),)), None).remarks == ()
    assert site_setup(Settings(sharing=(("*", Means.MPS),)), ()).remarks == ()


def test_fewer_gpus_than_expected_are_reported() -> None:
    remarks = site_setup(Settings(expected_gpus=32), NODES).remarks
    assert remarks == ("cluster.total_gpus expects 32 GPUs, but there are 10",)


def test_a_minimum_that_no_gpu_here_meets_and_a_layer_for_none_are_reported() -> None:
    settings = Settings(min_compute=(99, 0), vgpu=(("99", VirtualLayer("hami", (12, 2))),))
    layer, least = site_setup(settings, NODES).remarks
    assert layer.startswith("vgpu: no GPU here is 99, by index, UUID or model")
    assert least.startswith("min_compute_capability 99.0 excludes every GPU here")


def test_a_power_budget_names_the_gpus_that_it_cannot_count() -> None:
    (node,) = NODES
    known = tuple(replace(device, power_limit_mw=400_000) for device in node.devices[2:])
    mixed = (replace(node, devices=(*node.devices[:2], *known)),)
    assert site_setup(Settings(power_budget_w=900), mixed).remarks == (
        "power_budget_w: no job without --power-limit starts on these GPUs, whose power limit is unknown: 0, 1",
    )
    assert site_setup(Settings(), mixed).remarks == ()
    assert site_setup(Settings(power_budget_w=900), mixed).observation.limits.power_budget_w == 900
