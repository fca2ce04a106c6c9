"""The annotations that a Binding writes for the plugin that gives a pod its devices. Pure."""

from collections.abc import Callable, Mapping

from corral.core.model.runs.launch import Launch
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers
from corral.engines.kubernetes.inventory.planned_devices import note_of
from corral.engines.kubernetes.shares.placed_share import PlacedShare

Placed = Callable[[Launch], PlacedShare]
"""Returns the devices of a launch as the software of its node knows them."""


def as_counted(launch: Launch) -> PlacedShare:
    """Return no more than that the node counts its devices."""
    return PlacedShare(None, ())


def share_notes(launch: Launch, pod: PodOfOthers, placed: PlacedShare, now_s: float) -> Mapping[str, str]:
    """Return the annotations for the pod of a launch. Raises BackendFailed if its devices are not known well enough."""
    share = None if pod.ask is None else pod.ask.share
    return {**placed.notes(launch.node, now_s, share), **note_of(launch, placed.parts)}
