"""The nodes of an inference server."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.site import NodeRow
from corral.core.model.jobs.job import Request
from corral.core.preflight.model_need import ModelNeed
from corral.features.tuner.deployments.deployment import ExperimentFailed, WantedGpus
from corral.features.tuner.deployments.node_layout import NodeLayout, gpu_counts, node_layout
from corral.features.tuner.running.task_gpus import TaskGpus
from corral.features.tuner.tasks.asked_gpus import AskedGpus

SITES = st.dictionaries(
    st.sampled_from("abcdef"), st.dictionaries(st.sampled_from(["A100", "H100"]), st.integers(1, 8)), max_size=6
)
EIGHTS = {"a": {"H100": 8}, "b": {"H100": 8}, "c": {"A100": 8}, "d": {"A100": 8}, "e": {"A100": 8}}


def may(members: int) -> str | None:
    return None


@given(SITES, st.integers(1, 48))
def test_a_layout_has_the_fewest_equal_members_that_the_nodes_hold(site: dict[str, dict[str, int]], count: int) -> None:
    found = node_layout(count, site, may)
    if max((number for models in site.values() for number in models.values()), default=0) >= count:
        mixed = count > 1 and any(len(models) > 1 and sum(models.values()) >= count for models in site.values())
        assert isinstance(found, NodeLayout)
        assert (found.members, found.gpus, found.model is not None) == (1, count, mixed)
        assert not mixed or any(models.get(found.model or "", 0) >= count for models in site.values())
        return

    def fits(members: int, model: str) -> bool:
        return sum(models.get(model, 0) >= count // members for models in site.values()) >= members

    possible = [
        (members, model)
        for members in range(2, count + 1)
        for model in ("A100", "H100")
        if count % members == 0 and fits(members, model)
    ]
    if isinstance(found, str):
        assert not possible
    else:
        assert (found.members, found.model) in possible
        assert found.members == min(possible)[0]
        assert found.members * found.gpus == count


def test_of_several_models_it_is_the_one_with_the_most_nodes() -> None:
    assert node_layout(16, EIGHTS, may) == NodeLayout(2, 8, "A100")


def test_more_nodes_are_used_if_the_engine_needs_that() -> None:
    found = node_layout(24, {name: {"H100": 16} for name in "abc"}, lambda members: "uneven" if members == 2 else None)
    assert found == NodeLayout(3, 8, "H100")
    assert node_layout(24, {name: {"H100": 16} for name in "ab"}, lambda _: "uneven") == "uneven"


def test_slices_and_models_with_different_counts_make_no_equal_members() -> None:
    assert node_layout(4, {"a": {"A100": 2}, "b": {"H100": 2}}, may) == (
        "no equal parts of 4 fit on several nodes with GPUs of one model (2 nodes with 2)"
    )
    whole = DeviceRow("GPU-1", name="A100", node="a")
    assert gpu_counts([whole, DeviceRow("MIG-1", name="A100", node="a", parent="GPU-1")]) == {"a": {"A100": 1}}


def task_gpus(*nodes: tuple[str, str, int], **asked: Any) -> TaskGpus:
    """The GPUs of a task with these conditions on a site with nodes of (name, model, GPUs)."""
    devices = [DeviceRow(f"GPU-{name}{i}", name=model, node=name) for name, model, count in nodes for i in range(count)]
    exclusive = asked.pop("exclusive", False)
    rows = [NodeRow(name, "ready", labels={"zone": "x"}) for name, _, _ in nodes]
    return TaskGpus(AskedGpus(Request(**asked), exclusive), devices, rows, ())


def asked_of(gpus: TaskGpus, count: int) -> WantedGpus:
    return gpus.on_nodes(gpus.wanted(ModelNeed(count, None, None, "")), may)


def test_a_gang_asks_for_one_model_and_a_node_of_its_own_for_each_member() -> None:
    gpus = task_gpus(("a", "H100", 8), ("b", "H100", 8), ("c", "H100 NVL", 4), labels=(("zone", "x"),))
    gang = asked_of(gpus, 16).request
    assert (gang.devices, gang.gang_size, gang.spread, gang.models) == (8, 2, True, ("H100",))
    # Its name contains that of the model, so a request for the model alone would accept it.
    assert (gang.labels, gang.excluded_nodes) == ((("zone", "x"),), ("c",))
    assert asked_of(gpus, 8).request.gang_size == 1


def test_members_of_an_exclusive_gang_have_whole_nodes() -> None:
    wanted = asked_of(task_gpus(("a", "H100", 8), ("b", "H100", 8), exclusive=True), 12)
    assert (wanted.exclusive, wanted.request.devices, wanted.request.gang_size) == (True, 1, 2)


def test_nodes_that_the_task_does_not_allow_count_for_nothing() -> None:
    gpus = task_gpus(("a", "H100", 2), ("b", "H100", 2), ("c", "H100", 4), nodes=("a", "b"))
    assert asked_of(gpus, 4).request.gang_size == 2
    gpus.note({"model": "A100"})
    assert asked_of(gpus, 4).not_over_nodes.endswith("(no node has a GPU)")


def test_without_a_gang_the_request_stays_and_the_reason_is_kept() -> None:
    wanted = asked_of(task_gpus(("a", "H100", 1)), 4)
    assert (wanted.request.devices, wanted.request.gang_size) == (4, 1)
    assert wanted.not_over_nodes.startswith("no equal parts of 4")


MIXED = (("a", "A100", 2), ("a", "L4", 2))


def test_a_server_on_a_node_with_several_models_asks_for_the_one_with_the_most_gpus() -> None:
    gpus = task_gpus(*MIXED, ("b", "L4", 1))
    assert asked_of(gpus, 2).request.models == ("L4",)
    assert asked_of(gpus, 1).request.models == ()
    assert asked_of(task_gpus(*MIXED, exclusive=True), 1).request.models == ("A100",)


def test_a_server_that_only_two_models_together_would_hold_fails_and_says_what_there_is() -> None:
    with pytest.raises(ExperimentFailed, match=r"it needs 4 GPUs of one model: .*1 node with 2 A100 and 2 L4"):
        asked_of(task_gpus(*MIXED), 4)


def test_where_no_node_mixes_models_any_of_them_will_do() -> None:
    assert asked_of(task_gpus(("a", "A100", 2), ("b", "L4", 2)), 2).request.models == ()


def test_of_the_named_gpus_a_server_gets_those_of_one_model() -> None:
    named = ("GPU-A1000", "GPU-L40", "GPU-L41")
    devices = [DeviceRow(uuid, name=uuid[4:-1], node="a") for uuid in named]
    gpus = TaskGpus(AskedGpus(Request(device_uuids=named), False), devices, [NodeRow("a", "ready")], ())
    assert asked_of(gpus, 2).request.device_uuids == ("GPU-L40", "GPU-L41")
    with pytest.raises(ExperimentFailed, match="it needs 3 GPUs of one model"):
        asked_of(gpus, 3)
