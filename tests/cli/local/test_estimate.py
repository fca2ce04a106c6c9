"""Which GPUs `corral estimate` names."""

from corral.cli.local.estimate import holding_line
from corral.client import DeviceRow
from corral.core.preflight.estimate import Estimate, InferenceSetup, estimate_named


def test_gpus_of_several_nodes_are_counted_because_each_node_numbers_its_own_from_0() -> None:
    def of(setup: InferenceSetup) -> Estimate:
        found = estimate_named("org/some-7b", setup)
        assert isinstance(found, Estimate)
        return found

    def row(node: str, index: int, name: str) -> DeviceRow:
        uuid = f"GPU-{node}-{index}"
        return DeviceRow(uuid=uuid, index=index, name=name, node=node, memory_total_mib=80 * 1024, state="free")

    one = [row("a", 0, "A100"), row("a", 1, "A100")]
    assert holding_line(of, InferenceSetup(), one) == "GPUs here with enough memory: 0, 1 (A100)"
    told = holding_line(of, InferenceSetup(), [*one, row("b", 0, "H100")])
    assert told == "3 GPUs here have enough memory: 2 A100, 1 H100"
