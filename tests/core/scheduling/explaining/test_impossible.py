"""Requests that no node here could ever serve."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.devices.device import Device, DeviceCondition
from corral.core.model.devices.means import ClientLimits, Means
from corral.core.model.errors import Refused
from corral.core.model.fact import ConditionObserved, DeviceCordoned, NodeObserved, SiteArranged
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Pool
from corral.core.model.view import View
from corral.core.scheduling.explaining.impossible import impossible, refuse_impossible
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.queueing.pools import closed_pools_of
from tests.core.scheduling.lab import H100, T0, box, job, observed, started, submitted, view_of

LABELLED = View().advance(
    NodeObserved(replace(box(name), labels=(("building", "7"), ("zone", name)))) for name in ("a", "b")
)
HERE = view_of(observed(box()))
FLEET = view_of(observed(box("a", 4), box("b", 2, model=H100, memory_mib=95_830)))
UNTOLD = view_of(
    observed(replace(box(), devices=tuple(replace(one, compute_capability=None) for one in box().devices)))
)


def shared(by: Means, devices: slice) -> View:
    """The box with some of its devices shared in that way."""
    plain = box()
    chosen = {device.uuid for device in plain.devices[devices]}
    arranged = tuple(replace(one, means=by if one.uuid in chosen else one.means) for one in plain.devices)
    return view_of(observed(replace(plain, devices=arranged)))


MPS, MIXED = shared(Means.MPS, slice(None)), shared(Means.MPS, slice(2))
DIVIDED = tuple(replace(one, clients=ClientLimits(4)) for one in MPS.nodes["box"].devices)
SLOTS = view_of(observed(replace(MPS.nodes["box"], devices=DIVIDED)))
OVER_SLOT = "an equal slot of a GPU on MPS is 0.25 of it with 1/4 of its memory; ask for no more, or for 1"
SLICE = Device("MIG-1", 8, "NVIDIA A100", 9728, means=Means.MIG, mig_profile="1g.10gb", parent_uuid="GPU-box-0")
WHOLLY_SLICED = shared(Means.MIG, slice(None)).nodes["box"]
SLICED = view_of(observed(replace(WHOLLY_SLICED, devices=(*WHOLLY_SLICED.devices, SLICE))))
ONLY_SLICES = "every GPU here is cut into MIG slices; ask for one of those: --mig 1g.10gb"
SPLIT_LACK = (
    "no node has so much to split (only GPUs shared by timeslice are split: 6 GPUs); "
    "the most you can ask for is 6 GPUs, or whole ones"
)


@pytest.mark.parametrize(
    ("view", "request_", "words"),
    [
        (HERE, {"devices": 9}, "this machine has 8 GPUs; the most you can ask for is 8 GPUs"),
        (FLEET, {"devices": 5}, "the largest node has 4 GPUs; the most you can ask for is 4 GPUs on one node"),
        (HERE, {"models": ("H100",)}, "no GPU here is of model H100; there are: A100-SXM4-80GB (8)"),
        (HERE, {"min_memory_mib": 81_921}, "no GPU here has 81921M of memory; the most you can ask for is 81920M"),
        (HERE, {"min_memory_mib": 100 * 1024}, "no GPU here has 100G of memory; the most you can ask for is 80G"),
        (MPS, {"share_milli": 10}, "a share of a GPU on MPS is at least 0.03; ask for that"),
        (SLOTS, {"share_milli": 500}, OVER_SLOT),
        (SLOTS, {"share_milli": 250, "memory_mib": 20_481}, OVER_SLOT),
        (MIXED, {"share_milli": 10, "means": Means.MPS}, "a share of a GPU on MPS is at least 0.03; ask for that"),
        (MIXED, {"share_milli": 1000, "split_milli": 7000}, SPLIT_LACK),
        (
            HERE,
            {"share_milli": 1000, "split_milli": 1200, "may_fragment": False},
            (
                "1.2 GPUs need parts of several GPUs, which its may_fragment or the site's split_fragments "
                "forbids; ask for --gpus 1 or less, or for whole GPUs"
            ),
        ),
        (SLICED, {"share_milli": 500}, ONLY_SLICES),
        (
            SLICED,
            {"share_milli": 500, "means": Means.MPS},
            f"MPS does not run on a MIG device, and {ONLY_SLICES}",
        ),
        (
            MIXED,
            {"device_uuids": ("GPU-box-1",), "share_milli": 500, "means": Means.TIMESLICE},
            "--share: no such GPU is shared by timeslice; they are: mps",
        ),
        (
            HERE,
            {"device_uuids": ("GPU-box-1",), "models": ("A100",), "min_memory_mib": 100 * 1024},
            "none of the GPUs that are named has 100G of memory; the most you can ask for is 80G",
        ),
        (
            FLEET,
            {"device_uuids": ("GPU-a-1",), "models": ("H100",)},
            "no named GPU is of model H100; remove the GPUs or the model",
        ),
        (
            MPS,
            {"share_milli": 300, "devices": 2},
            "no node has 2 such GPUs; the most you can ask for is 1 of them on one node",
        ),
        (HERE, {"min_compute": (9, 0)}, "no GPU here has compute capability 9.0 or higher; the highest is 8.0"),
        (UNTOLD, {"min_compute": (8, 0)}, "no GPU here has compute capability 8.0 or higher; the highest is unknown"),
        (HERE, {"device_uuids": ("GPU-box-9",)}, "no GPU here has the UUID GPU-box-9; did you mean 'GPU-box-7'?"),
        (HERE, {"device_uuids": ("GPU-box-1",), "devices": 2}, "1 GPU named but 2 asked for; the numbers must agree"),
        (HERE, {"cpu_milli": 65_000}, "no node has 65 CPUs; the most you can ask for is 64 CPUs"),
        (HERE, {"host_memory_mib": 2**20}, "no node has 1024G of memory; the most you can ask for is 512G"),
        (HERE, {"labels": (("zone", "b"),)}, "no node has the label zone=b; no node has labels"),
        (LABELLED, {"labels": (("zone", "c"),)}, "no node has the label zone=c; zone is one of a, b"),
        (LABELLED, {"labels": (("zoen", "a"),)}, "no node has the label zoen=a; did you mean 'zone'?"),
        (LABELLED, {"labels": (("rack", "1"),)}, "no node has the label rack=1; known: building, zone"),
        (HERE, {"min_cuda": (12, 4)}, "no node has CUDA 12.4 or newer; the newest is unknown"),
        (
            FLEET,
            {"devices": 3, "models": ("H100",)},
            "no node has 3 such GPUs; the most you can ask for is 2 of them on one node",
        ),
        (
            HERE,
            {"devices": 2, "gang_size": 5},
            "all nodes together can hold 4 such members at once; ask for 4 at most",
        ),
        (
            HERE,
            {"devices": 2, "gang_size": 2, "spread": True},
            "2 nodes are asked for, a member of the gang on each, and one node is here; ask for one node and --gpus 4",
        ),
        (
            HERE,
            {"devices": 8, "gang_size": 2, "spread": True},
            (
                "2 nodes are asked for, a member of the gang on each, and one node is here; "
                "the most you can ask for is 1 node"
            ),
        ),
    ],
)
def test_what_can_never_start_is_said_with_the_most_there_is(view: View, request_: dict[str, Any], words: str) -> None:
    assert impossible(view, Request(**request_)) == words
    with pytest.raises(Refused) as refused:
        refuse_impossible(view, Submission(request=Request(**request_)))
    assert str(refused.value) == words


def test_a_job_that_runs_on_no_model_here_is_refused_and_one_that_runs_on_some_is_not() -> None:
    nowhere = impossible(HERE, Request(), (("A100", 0.0),))
    assert nowhere is not None
    assert "it runs on no model that is here" in nowhere
    some = impossible(FLEET, Request(devices=3), (("A100", 0.0), ("H100", 2.0)))
    assert some is not None
    assert "of those here it runs on H100 80GB HBM3 alone" in some
    assert impossible(FLEET, Request(devices=2), (("A100", 0.0),)) is None
    with pytest.raises(Refused, match="no model that is here"):
        refuse_impossible(HERE, Submission(speeds=(("A100", 0.0),)))


def test_what_is_only_busy_sick_or_set_apart_now_is_not_impossible() -> None:
    full = HERE.advance(submitted(job(1, 8)))
    full = full.advance(started(Planner(full).plan(T0).starts[0]))
    sick = HERE.advance(ConditionObserved(DeviceCondition(f"GPU-box-{i}", unreadable="gone")) for i in range(8))
    apart = HERE.advance([DeviceCordoned("GPU-box-0", "fan", by="root", at=T0)])
    never_sampled = view_of(observed(box())[:1])
    for view in (full, sick, apart, never_sampled, View()):
        assert impossible(view, Request(devices=8)) is None


def test_a_machine_without_gpus_says_so() -> None:
    never = impossible(view_of(observed(box(gpus=0))), Request(devices=1))
    assert never is not None
    assert never.startswith("this machine has no GPU that Corral can see")
    assert "corral doctor" in never


POOLED = HERE.advance([SiteArranged(pools=(Pool("own", ("GPU-box-0", "GPU-box-1"), users=("eve",)),))])


def test_what_only_a_pool_of_others_could_serve_is_refused_with_what_is_left() -> None:
    closed_pools = closed_pools_of(POOLED, "alice", "default")
    assert (closed_pools, closed_pools_of(POOLED, "eve", "default")) == (("own",), ())
    assert impossible(POOLED, Request(devices=7), closed_pools=closed_pools) == (
        "too few GPUs are left beside pool own, which is set apart for others; the most you can ask for is --gpus 6"
    )
    assert impossible(POOLED, Request(devices=6), closed_pools=closed_pools) is None


def test_a_resource_that_no_node_gives_is_told_with_why_one_does_not() -> None:
    plain = box("a")
    whole = tuple(replace(device, offered_as=("nvidia.com/gpu",)) for device in plain.devices)
    kept = replace(plain, devices=whole, kept_to="its label means=pgpu keeps it to whole GPUs")
    view = View().advance([NodeObserved(kept)])
    assert impossible(view, Request(devices=1, offered_as="tencent.com/vcuda-core")) == (
        "no node of this cluster gives GPUs by tencent.com/vcuda-core; its GPUs are given by nvidia.com/gpu; "
        "node a: its label means=pgpu keeps it to whole GPUs"
    )
