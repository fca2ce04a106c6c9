"""The devices of which nodes give parts, and what a pod gets there in the words of the node's software."""

from typing import Any

from corral.core.model.devices.device import DeviceCondition
from corral.core.model.devices.means import Means
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.requested_devices import Ask
from corral.core.model.placing.fit import Cause, Fit, Misfit, fit
from corral.core.model.placing.state import node_state
from corral.core.model.view import View
from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.inventory.occupants import Occupant, keep_occupant
from corral.engines.kubernetes.inventory.seen_node import SeenNode, see_node
from corral.engines.kubernetes.shares.placed_share import PlacedShare
from corral.engines.kubernetes.shares.pod_shares import OWN_NAMES, ContainerShare
from corral.engines.kubernetes.shares.served_shares import ServedShares, contested, served_shares
from corral.vendors.vendor import PlacedPart
from tests.engines.kubernetes import manifests

CORE, MEMORY, GPU = "tencent.com/vcuda-core", "tencent.com/vcuda-memory", "nvidia.com/gpu"
VOLTA = {f"nvidia.com/{key}": value for key, value in {"gpu.compute.major": "7", "gpu.compute.minor": "0"}.items()} | {
    "nvidia.com/cuda.runtime-version.major": "11",
    "nvidia.com/cuda.runtime-version.minor": "5",
}


def facts(
    amounts: dict[str, str], labels: dict[str, str] | None = None, notes: dict[str, str] | None = None
) -> NodeFacts:
    item = manifests.node("g1", gpus=0, labels=labels)
    del item["status"]["capacity"][GPU]
    item["status"] |= {key: {**item["status"]["capacity"], **amounts} for key in ("capacity", "allocatable")}
    item["metadata"]["annotations"] = notes or {}
    return read_node(item)


def served(node: NodeFacts) -> ServedShares:
    found = served_shares(node)
    assert found is not None
    return found


def pod(name: str, limits: dict[str, str], **notes: str) -> Occupant:
    container = {"name": "main", "resources": {"limits": limits}}
    item: dict[str, Any] = manifests.pod(name, "team", node="g1", containers=[container])
    item["metadata"] |= {"uid": name, "annotations": notes}
    found = keep_occupant({**item, "status": {"phase": "Running"}})
    assert found is not None
    return found


def seen(node: NodeFacts, *others: Occupant) -> SeenNode:
    return see_node(node, others, (), None, 100.0, shared=served_shares(node))


def answer(found: SeenNode, request: Request) -> Fit | Misfit:
    conditions = {one.uuid: DeviceCondition(one.uuid, parts=one.parts, pod=one.pod) for one in found.samples}
    return fit(request, node_state(View(nodes={"g1": found.node}, conditions=conditions), "g1"))


def asked(limits: dict[str, str]) -> Request:
    share = OWN_NAMES.asked({"containers": [{"name": "main", "resources": {"limits": limits}}]}, {})
    assert share is not None
    return share.request(Request(devices=0, vendor="nvidia"))


MANAGER = facts({CORE: "200", MEMORY: "640"})
HALF = {CORE: "50", MEMORY: "160"}


def test_a_nodes_compute_and_memory_in_units_are_devices_with_memory() -> None:
    node = seen(MANAGER).node
    assert [(one.memory_mib, one.means, one.offered_as) for one in node.devices] == [(81920, Means.HOOK, (CORE,))] * 2
    assert isinstance(answer(seen(MANAGER), asked(HALF)), Fit)


def test_a_pod_gets_only_what_is_given_by_the_resource_that_it_names() -> None:
    whole = answer(seen(MANAGER), Request(offered_as=GPU))
    assert isinstance(whole, Misfit)
    assert whole.devices == ((Cause.RESOURCE, 2),)
    plain = see_node(read_node(manifests.node("g1", gpus=2)), (), (), None, 100.0)
    assert isinstance(answer(plain, asked(HALF)), Misfit)
    assert isinstance(answer(plain, Request(offered_as=GPU)), Fit)


def test_parts_of_pods_that_are_no_jobs_are_taken_from_the_device_that_they_have() -> None:
    found = seen(MANAGER, pod("a", HALF, **{"tencent.com/predicate-gpu-idx-0": "1"}))
    assert [[part.share_milli for part in one.parts] for one in found.samples] == [[], [500]]
    three_quarters = asked({CORE: "75", MEMORY: "1"})
    assert answer(found, three_quarters) == Fit((0,))


def test_a_part_whose_device_is_unknown_counts_on_every_device() -> None:
    found = seen(MANAGER, pod("a", HALF), pod("b", HALF, **{"tencent.com/predicate-gpu-idx-0": "77"}))
    assert [sum(part.share_milli for part in one.parts) for one in found.samples] == [1000, 1000]


def test_a_pod_whose_part_makes_no_sense_closes_its_node_alone() -> None:
    found = seen(MANAGER, pod("a", {CORE: "150"}))
    assert all(one.pod is not None for one in found.samples)
    plain = see_node(read_node(manifests.node("g1", gpus=2)), [pod("a", {CORE: "150"})], (), None, 100.0)
    assert all(one.pod is None for one in plain.samples)


def test_two_plugins_of_the_same_devices_give_no_parts() -> None:
    both = facts({CORE: "200", MEMORY: "640", GPU: "2"})
    assert served_shares(both) is None
    assert contested(both) == (CORE, GPU)
    two = facts({CORE: "200", "nvidia.com/mps-core": "200"})
    assert served_shares(two) is None
    assert contested(two) == (CORE, "nvidia.com/mps-core")
    assert contested(MANAGER) == contested(read_node(manifests.node("g1", gpus=2))) == ()


def test_mps_needs_volta_and_cuda_11_5_and_labels_that_say_so() -> None:
    amounts = {"nvidia.com/mps-core": "100", "nvidia.com/mps-memory": "40000"}
    part = asked({"nvidia.com/mps-core": "30"})
    assert isinstance(answer(seen(facts(amounts, VOLTA)), part), Fit)
    old = {**VOLTA, "nvidia.com/gpu.compute.major": "6"}
    assert getattr(answer(seen(facts(amounts, old)), part), "cause", None) is Cause.COMPUTE
    unknown = {key: value for key, value in VOLTA.items() if "cuda" not in key}
    assert getattr(answer(seen(facts(amounts, unknown)), part), "cause", None) is Cause.CUDA
    assert seen(facts(amounts, old)).node.devices[0].means is Means.EXCLUSIVE


REGISTERED = (
    '[{"id":"GPU-a","count":10,"devmem":40000,"devcore":100,"type":"NVIDIA-A100","health":true},'
    '{"id":"GPU-b","index":1,"count":10,"devmem":40000,"devcore":100,"type":"NVIDIA-A100"}]'
)
HAMI = facts({GPU: "20"}, notes={"hami.io/node-nvidia-register": REGISTERED})


def test_registered_devices_are_those_of_their_node_with_their_uuids_and_health() -> None:
    found = seen(HAMI)
    assert [(one.model, one.memory_mib) for one in found.node.devices] == [("NVIDIA A100", 40000)] * 2
    assert [one.illness is not None for one in found.samples] == [False, True]
    assert [one.uuid for one in served(HAMI).devices] == ["GPU-a", "GPU-b"]
    held = seen(HAMI, pod("a", {GPU: "1"}, **{"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,40000,0:;"}))
    assert [[part.share_milli for part in one.parts] for one in held.samples] == [[1000], []]


def placed(node: NodeFacts, *parts: PlacedPart) -> PlacedShare:
    return PlacedShare(served(node), parts)


def test_a_container_of_corrals_own_asks_by_the_names_of_its_node() -> None:
    assert placed(MANAGER, PlacedPart(0, None, 500, 40960)).limits() == {CORE: "50", MEMORY: "160"}
    both = PlacedPart(0, None, 1000, None), PlacedPart(1, None, 1000, None)
    assert placed(MANAGER, *both).limits() == {CORE: "200"}
    half = placed(HAMI, PlacedPart(0, "GPU-a", 500, 20000)).limits()
    assert half == {GPU: "1", "nvidia.com/gpucores": "50", "nvidia.com/gpumem": "20000"}
    assert placed(HAMI, PlacedPart(0, "GPU-a", 1000, 40000)).limits() == {GPU: "1"}
    assert PlacedShare(None, both).limits() == {}


def test_the_plugin_of_a_node_is_told_which_devices_a_pod_gets() -> None:
    share = ContainerShare(1, 3, served(HAMI).layer, Ask(1))
    notes = placed(HAMI, PlacedPart(0, "GPU-a", 300, 4000, 30)).notes("g1", 1700.25, share)
    assert notes == {
        "hami.io/vgpu-devices-allocated": ";GPU-a,NVIDIA,4000,30:;;",
        "hami.io/vgpu-devices-to-allocate": ";GPU-a,NVIDIA,4000,30:;;",
        "hami.io/vgpu-node": "g1",
        "hami.io/vgpu-time": "1700",
        "hami.io/bind-time": "1700",
        "hami.io/bind-phase": "allocating",
    }
    both = PlacedPart(0, None, 1000, None), PlacedPart(1, None, 1000, None)
    assert placed(MANAGER, *both).notes("g1", 2.5, None) == {
        "tencent.com/predicate-gpu-idx-0": "0,1",
        "tencent.com/predicate-node": "g1",
        "tencent.com/predicate-time": "2500000000",
        "tencent.com/gpu-assigned": "false",
    }


def test_older_registrations_and_those_of_volcano_are_read_and_nonsense_is_none() -> None:
    row = "GPU-a,10,24000,100,NVIDIA-T4,0,true:GPU-b,10,24000,100,NVIDIA-T4,0,false,1,hami-core:"
    old = served(facts({GPU: "20"}, notes={"hami.io/node-nvidia-register": row}))
    assert [(one.uuid, one.memory_mib, one.model, one.healthy) for one in old.devices] == [
        ("GPU-a", 24000, "NVIDIA-T4", True),
        ("GPU-b", 24000, "NVIDIA-T4", False),
    ]
    row = "GPU-a,8,24000,NVIDIA-A100-SXM4-40GB,true,hami-core:"
    volcano = served(facts({"volcano.sh/vgpu-number": "8"}, notes={"volcano.sh/node-vgpu-register": row}))
    assert [one.model for one in volcano.devices] == ["NVIDIA-A100-SXM4-40GB"]
    for nonsense in (
        "[",
        "[1]",
        "[{}]",
        ":",
        "a,b,c",
        "[" * 100_000,
        '[{"id":"GPU a","devmem":1}]',
        "GPU-a,1,-5,x,true",
    ):
        assert served_shares(facts({GPU: "20"}, notes={"hami.io/node-nvidia-register": nonsense})) is None
