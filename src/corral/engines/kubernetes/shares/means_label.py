"""A node's label that says how its GPUs are given to pods: as whole GPUs, as parts by a library, or through MPS. Pure.

The label keeps a node's work to one of them, whatever else its software offers.
"""

from typing import NamedTuple

from corral.core.model.devices.means import Means
from corral.core.model.printable import printable
from corral.engines.kubernetes.cluster.gpu_resources import gpu_labels
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.shares.served_shares import ServedShares

WHOLE, BY_LIBRARY, BY_DAEMON = "pgpu", ("vgpu", "enable"), "mps"
"""Values of the label. `pgpu` and `enable` are in the documents of those who set it; `vgpu` and `mps` are assumed."""


class KeptShares(NamedTuple):
    """The parts that a node gives as its label says. `closed` is why it takes no work at all, a sentence without its
    full stop; None if it takes some. `kept` is to which way the label keeps it, a clause; None if to none.
    """

    shared: ServedShares | None
    closed: str | None = None
    kept: str | None = None


def kept_to_label(facts: NodeFacts, key: str | None, shared: ServedShares | None) -> KeptShares:
    """Return what of the parts that a node gives is used, by its label `key`. Other values than the known ones mean
    nothing.
    """
    value = None if key is None else facts.labels.get(key)
    if value == WHOLE:
        return KeptShares(None, kept=f"its label {key}={WHOLE} keeps it to whole GPUs")
    if value not in (*BY_LIBRARY, BY_DAEMON):
        return KeptShares(shared)
    wants_daemon = value == BY_DAEMON
    what = "clients of MPS" if wants_daemon else "parts of GPUs by a library"
    label = f"its label {key}={printable(value)}"
    kept = f"{label} keeps it to {what}"
    if shared is not None and (shared.layer.means is Means.MPS) is wants_daemon:
        return KeptShares(shared, kept=kept)
    if shared is None and wants_daemon and gpu_labels(facts).shared_by is Means.MPS:
        return KeptShares(None, kept=kept)
    return KeptShares(None, f"{label} is for {what}, and no software gives them there", kept)
