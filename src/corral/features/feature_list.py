"""The list of features. A new one is a folder here, and its name in the list."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.core.model.slice import SliceType
    from corral.features.feature import Feature

NAMES = (
    "history", "accounting", "channels", "services", "health", "alerts", "tuner", "replays", "rebalancing", "hosts",
    "kubernetes", "kube_scheduler", "agent_reports", "admission", "dashboard",
)  # fmt: skip
"""Each stands behind those that it needs. The dashboard is last: it answers at each path that no other route has."""


def features() -> tuple[Feature, ...]:
    """All features, in the order in which a server builds them."""
    return tuple(__import__(f"corral.features.{name}.feature", fromlist=["FEATURE"]).FEATURE for name in NAMES)


def slices() -> tuple[SliceType, ...]:
    """The slices of the ledger of all features. Once they are loaded, a journal can be read."""
    return tuple(kind for feature in features() for kind in feature.slices())
