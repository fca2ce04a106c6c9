"""The labels that an agent writes on its node: the versions for which programs may be built there."""

import logging
import time

from corral.core.model.devices.device import Node
from corral.core.model.devices.version_labels import VERSION_LABELS
from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NODES

log = logging.getLogger(__name__)

WRITE_AGAIN_S = 600.0
"""The labels are written again after this time: the node may have been made anew."""

_PATCH_S = 5.0


def labels_of(node: Node) -> dict[str, str | None]:
    """Return the labels; None removes one, because the driver is gone. The driver's own version is not among them."""
    known = dict(node.labels)
    return {label: known.get(label) for label in VERSION_LABELS[1:]}


class NodeLabelling:
    """Writes the labels of one node. For one thread. Reports go on without them."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._written: dict[str, str | None] | None = None
        self._again_s = 0.0
        self._said: str | None = None

    def write(self, node: Node) -> None:
        """Write the labels if they have changed, or were written long ago. Why that fails is logged."""
        labels = labels_of(node)
        now_s = time.monotonic()
        if now_s < self._again_s and (labels == self._written or self._said is not None):
            return
        self._again_s = now_s + WRITE_AGAIN_S
        try:
            self._cluster.patch(NODES, self._name, {"metadata": {"labels": labels}}, timeout_s=_PATCH_S)
        except CorralError as error:
            if str(error) != self._said:
                log.warning("the labels of node %s are not written: %s", self._name, error)
            self._said = str(error)
            return
        self._written, self._said = labels, None
