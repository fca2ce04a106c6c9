"""Builds the alerts of a server."""

from collections.abc import Iterator
from shutil import disk_usage
from typing import Any

from corral.api.offers import Offers
from corral.core.model.slice import LedgerSnapshot
from corral.features.alerts.alert_access import AlertAccess, unattended
from corral.features.alerts.alert_metrics import alert_metrics
from corral.features.alerts.alert_watch import AlertSources, AlertWatch
from corral.features.alerts.slice import AlertsSlice
from corral.features.building import Built, CoreDoors
from corral.features.channels.delivery import Delivery
from corral.features.history.server_history import ServerHistory

_LEAST_INTERVAL_S = 1.0


def build(core: CoreDoors, offers: Offers) -> Built:
    """The patrol that evaluates the rules, and the use cases of alerts."""
    sources = AlertSources(
        telemetry=core.telemetry,
        stale_after_s=core.settings.stale_sample_s,
        obstacles=core.obstacles,
        disk=lambda: disk_usage(core.home.root)[::2],
        history_stopped=offers.of(ServerHistory).stopped,
    )
    watch = AlertWatch(core.ledger, core.clock, sources, offers.of(Delivery))
    interval_s = max(core.settings.sample_interval_s, _LEAST_INTERVAL_S)

    def metrics(snapshot: LedgerSnapshot, now: float) -> Iterator[str]:
        return alert_metrics(snapshot.of(AlertsSlice), now)

    def about() -> dict[str, Any]:
        return {"alerts": unattended(core.ledger.snapshot().of(AlertsSlice), core.clock.now())}

    return Built(
        offers=(AlertAccess(core.ledger, core.clock, lambda: watch.left_out),),
        patrols=(core.patrol("alerts", watch.look, interval_s),),
        metrics=metrics,
        about=about,
    )
