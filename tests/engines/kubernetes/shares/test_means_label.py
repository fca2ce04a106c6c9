"""A node's label keeps its work to whole GPUs, to parts by a library, or to clients of MPS."""

import pytest

from corral.engines.kubernetes.cluster.node_facts import NodeFacts, read_node
from corral.engines.kubernetes.inventory.seen_node import see_node
from corral.engines.kubernetes.shares.means_label import kept_to_label
from corral.engines.kubernetes.shares.served_shares import served_shares
from tests.engines.kubernetes import manifests

LABEL = "nvidia-device-enable"


def node_with(value: str, **amounts: int) -> NodeFacts:
    """A node with this label, and what it offers: whole GPUs, `core` units of a library, `mps` units of a daemon."""
    item = manifests.node("g1", gpus=amounts.get("whole", 0), labels={LABEL: value})
    item["metadata"]["labels"] |= {"nvidia.com/gpu.compute.major": "8", "nvidia.com/gpu.compute.minor": "0"}
    for name, offered in (("tencent.com/vcuda-core", "core"), ("nvidia.com/mps-core", "mps")):
        if offered in amounts:
            item["status"]["capacity"] |= {name: str(amounts[offered])}
    item["status"]["allocatable"] = item["status"]["capacity"]
    return read_node(item)


@pytest.mark.parametrize(
    ("value", "amounts", "parts", "takes"),
    [
        ("pgpu", {"whole": 2}, False, True),
        ("vgpu", {"core": 200}, True, True),
        ("enable", {"core": 200}, True, True),
        ("mps", {"mps": 200}, True, True),
        ("vgpu", {"mps": 200}, False, False),
        ("mps", {"core": 200}, False, False),
        ("mps", {"whole": 2}, False, False),
        ("default", {"core": 200}, True, True),
        ("default", {"whole": 2}, False, True),
    ],
)
def test_a_node_takes_work_of_the_means_that_its_label_names(
    value: str, amounts: dict[str, int], parts: bool, takes: bool
) -> None:
    facts = node_with(value, **amounts)
    kept = kept_to_label(facts, LABEL, served_shares(facts))
    assert (kept.shared is not None, kept.closed is None) == (parts, takes)


def test_the_parts_of_a_node_for_whole_gpus_are_not_used() -> None:
    facts = node_with("pgpu", core=200)
    assert kept_to_label(facts, LABEL, served_shares(facts)).shared is None
    assert kept_to_label(facts, None, served_shares(facts)).shared is not None


def test_a_node_without_what_its_label_names_is_closed_and_says_why() -> None:
    facts = node_with("vgpu", whole=2)
    kept = kept_to_label(facts, LABEL, served_shares(facts))
    seen = see_node(facts, (), (), None, 100.0, shared=kept.shared, closed=kept.closed)
    assert seen.node.cordoned == (
        "its label nvidia-device-enable=vgpu is for parts of GPUs by a library, and no software gives them there"
    )


@pytest.mark.parametrize(
    ("value", "amounts", "kept"),
    [
        ("pgpu", {"core": 200}, "its label nvidia-device-enable=pgpu keeps it to whole GPUs"),
        ("vgpu", {"whole": 2}, "its label nvidia-device-enable=vgpu keeps it to parts of GPUs by a library"),
        ("mps", {"mps": 200}, "its label nvidia-device-enable=mps keeps it to clients of MPS"),
        ("default", {"core": 200}, None),
    ],
)
def test_a_node_says_to_what_its_label_keeps_it(value: str, amounts: dict[str, int], kept: str | None) -> None:
    facts = node_with(value, **amounts)
    assert kept_to_label(facts, LABEL, served_shares(facts)).kept == kept
