"""The devices that were chosen for a pod, in the words of the software that gives them on the pod's node."""

from collections.abc import Mapping
from dataclasses import dataclass

from corral.core.model.errors import BackendFailed
from corral.core.sharing.definitions import Catalogue
from corral.engines.kubernetes.shares.pod_shares import VISIBLE, ContainerShare
from corral.engines.kubernetes.shares.served_shares import ServedShares, limits_of
from corral.vendors.vendor import AtBinding, PlacedPart


@dataclass(frozen=True, slots=True)
class PlacedShare:
    """The devices of a launch.

    Attributes:
        shared: the devices of its node; None if the node gives whole ones.
        parts: those of the launch.
        catalogue: the resource names of the site.
    """

    shared: ServedShares | None
    parts: tuple[PlacedPart, ...]
    catalogue: Catalogue | None = None

    def limits(self) -> dict[str, str]:
        """Return the amounts by which a container asks for the devices; {} on a node that gives whole ones."""
        if self.shared is None or not self.parts:
            return {}
        return {name: str(amount) for name, amount in limits_of(self.shared, self.parts, self.catalogue).items()}

    def notes(self, node: str, now_s: float, share: ContainerShare | None, *, alone: bool = False) -> Mapping[str, str]:
        """Return the annotations by which the plugin on the node learns of the devices.

        Args:
            node: its name.
            now_s: Unix seconds.
            share: what the pod asks for; None if it asks for whole devices.
            alone: whether the pod has one container, as those that Corral makes.

        Raises BackendFailed if the devices are not known as the plugin wants them.
        """
        position, containers = (0, 1) if share is None or alone else (share.position, share.containers)
        if share is not None and share.layer is None:
            return {VISIBLE: ",".join(self._uuids(node))}
        if self.shared is None or not self.parts:
            return {}
        layer = self.shared.layer
        if layer.awaits is not None:
            self._uuids(node)
        return layer.at_binding(AtBinding(node, now_s, position, containers, self.parts))

    @property
    def awaits(self) -> tuple[str, str] | None:
        """The annotation, and its value, of pods that the plugin has not served yet, if it serves one at a time."""
        return None if self.shared is None else self.shared.layer.awaits

    def _uuids(self, node: str) -> list[str]:
        found = [part.uuid for part in self.parts if part.uuid is not None]
        if len(found) < len(self.parts):
            raise BackendFailed(f"node {node} does not say which GPUs these are; nothing can give them to a container")
        return found
