"""The block about the choice of a node, word for word as users' scripts know it."""

from corral.features.services.idle_nodes import NodeGpuSummary
from corral.features.services.selection_words import created_line, selection_block


def test_the_block_of_a_chosen_node_is_as_it_was() -> None:
    node = NodeGpuSummary("host-10-97-65-155", 8, 8, 8, 0.0, 0.0, metered=False)
    assert (
        selection_block(1, node)
        == """\
=== GPU Node Selection ===
Looking for node with 1 idle GPU(s)...
Selected node 'host-10-97-65-155' for deployment:
  - Allocatable GPUs: 8/8
  - Idle GPUs: 8
  - Avg Utilization: 0.0%
  - Avg Memory Usage: 0.0%
✓ Selected node: host-10-97-65-155
=========================="""
    )
    assert (
        created_line("my-task-exp1", "autotuner", node.node_name)
        == "Created InferenceService 'my-task-exp1' in namespace 'autotuner' on node 'host-10-97-65-155'"
    )


def test_a_block_without_a_node_says_why() -> None:
    assert "No node selected: all are busy" in selection_block(2, None, "all are busy")
    assert "Kubernetes decides where it runs" in selection_block(2, None, "all are busy")
    assert created_line("a", "b", None) == "Created InferenceService 'a' in namespace 'b'"


def test_without_a_node_that_is_required_the_block_says_that_nothing_is_deployed() -> None:
    block = selection_block(2, None, "all are busy", required=True)
    assert "Nothing is deployed" in block
    assert "Kubernetes decides" not in block
