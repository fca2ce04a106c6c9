"""The nodes of an inference server."""

from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.answers.devices import DeviceRow
from corral.core.model.jobs.job import Request
from corral.features.tuner.deployments.deployment import WantedGpus
from corral.features.tuner.deployments.node_layout import NodeLayout, gpu_counts, laid_out, node_layout

SITES = st.dictionaries(
    st.sampled_from("abcdef"), st.dictionaries(st.sampled_from(["A100", "H100"]), st.integers(1, 8)), max_size=6
)
EIGHTS = {"a": {"H100": 8}, "b": {"H100": 8}, "c": {"A100": 8}, "d": {"A100": 8}, "e": {"A100": 8}}


def may(members: int) -> str | None:
    return None


@given(SITES, st.integers(1, 48))
def test_a_layout_has_the_fewest_equal_members_that_the_nodes_hold(site: dict[str, dict[str, int]], count: int) -> None:
    found = node_layout(count, site, may)
    if max((sum(models.values()) for models in site.values()), default=0) >= count:
        assert found == NodeLayout(1, count)
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


def test_a_gang_asks_for_one_model_and_a_node_of_its_own_for_each_member() -> None:
    devices = [DeviceRow(f"GPU-{node}{i}", name="H100", node=node) for node in "ab" for i in range(8)]
    wanted = WantedGpus(16, Request(devices=16, labels=(("zone", "x"),)))
    gang = laid_out(wanted, devices, may).request
    assert (gang.devices, gang.gang_size, gang.spread, gang.models) == (8, 2, True, ("H100",))
    assert gang.labels == (("zone", "x"),)
    assert laid_out(WantedGpus(8, Request(devices=8)), devices, may).request == Request(devices=8)


def test_without_a_layout_the_request_stays_and_the_reason_is_kept() -> None:
    wanted = WantedGpus(4, Request(devices=4))
    found = laid_out(wanted, [DeviceRow("GPU-1", name="H100", node="a")], may)
    assert (found.request, found.not_over_nodes.startswith("no equal parts of 4")) == (wanted.request, True)
