"""What is kept of pods that Corral binds."""

from corral.engines.kubernetes.binding.pods_of_others import keep
from tests.engines.kubernetes import manifests


def test_what_a_pod_asks_for_is_kept_until_it_is_on_a_node() -> None:
    waiting, placed = (
        keep(manifests.pod("p", "ml", gpus=2, node=node, schedulerName="corral"), scheduler="corral")
        for node in (None, "a")
    )
    assert waiting is not None
    assert waiting.waits
    assert waiting.ask is not None
    assert waiting.ask.request.devices == 2
    assert placed is not None
    assert (placed.waits, placed.ask, placed.refusal, placed.facts.node) == (False, None, None, "a")
