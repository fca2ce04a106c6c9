"""What a site's settings come to on the devices there are."""

import pytest

from corral.config import Settings
from corral.config.site import PoolPlan, PoolStrategy
from corral.control.site.from_settings import site_setup
from corral.model.device import VirtualLayer
from corral.model.errors import Refused
from corral.model.means import Means
from corral.model.queue import Pool, Project, Queue, Quota
from tests.control.strategies import box

NODES = tuple(box(10).nodes.values())
LAB = PoolPlan("lab", users=("alice",))


def pools(settings: Settings) -> tuple[Pool, ...]:
    return site_setup(settings, NODES).observation.pools


def test_there_is_always_a_default_queue_served_as_the_site_says() -> None:
    settings = Settings(algorithm="fair-share", enable_preemption=True, queues=(Queue("night"),))
    assert site_setup(settings, NODES).observation.queues == (
        Queue("default", "fair-share", preempts=True),
        Queue("night"),
    )


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
    (pool,) = pools(Settings(strategy=PoolStrategy.HYBRID, pools=(LAB,)))
    assert pool == Pool("lab", ("GPU-0", "GPU-1", "GPU-2"), ("alice",), lends=True)


def test_a_static_site_keeps_its_pools_for_their_owners() -> None:
    settings = Settings(strategy=PoolStrategy.STATIC, pools=(PoolPlan("lab", ("3", "GPU-5"), projects=("nlp",)),))
    assert pools(settings) == (Pool("lab", ("GPU-3", "GPU-5"), (), ("nlp",), lends=False),)


def test_the_reserved_part_leaves_out_what_other_pools_name() -> None:
    settings = Settings(reserved_ratio=0.2, pools=(PoolPlan("mine", ("0", "GPU-1"), users=("bob",)), LAB))
    assert pools(settings)[1].devices == ("GPU-2", "GPU-3")


def test_a_gpu_that_is_gone_is_left_out_of_its_pool_and_reported() -> None:
    arranged = site_setup(Settings(pools=(PoolPlan("lab", ("9", "11"), users=("alice",)),)), NODES)
    assert arranged.observation.pools[0].devices == ("GPU-9",)
    assert arranged.remarks == (
        "pool lab: GPU 11 is not here and is left out (there are 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)",
    )


def test_a_line_of_sharing_for_a_gpu_that_is_not_here_is_reported() -> None:
    model = NODES[0].devices[0].model
    named = ("99", "GPU-none", "tpu", "*", "0", "GPU-1", model)
    assert site_setup(Settings(sharing=tuple((which, Means.MPS) for which in named)), NODES).remarks == tuple(
        f"sharing: no GPU here is {which}, by index, UUID or model; the line is idle "
        f"(there are 0, 1, 2, 3, 4, 5, 6, 7, 8, 9: {model})"
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
    assert least.startswith("min_compute_capability 99.0 keeps back every GPU here")
