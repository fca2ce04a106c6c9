"""Alerts of a server, put together: the watch with its thread, and the desk."""

from collections import Counter

from corral.alerts.message import Sender
from corral.clock import Clock
from corral.config import Settings
from corral.control.alerting.alert_watch import AlertSources, AlertWatch
from corral.control.alerting.desk import AlertDesk
from corral.control.watching.patrol import Patrol
from corral.ports.ledger import Ledger

_LEAST_INTERVAL_S = 1.0


class Alerting:
    """What a server needs for alerts.

    Attributes:
        desk: what people see of alerts, and do about them.
        patrol: the thread of the watch.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        settings: Settings,
        sources: AlertSources,
        sender: Sender,
        *,
        failures: Counter[str],
    ) -> None:
        """`failures` counts rounds of the watch that broke."""
        watch = AlertWatch(ledger, clock, sources, sender)
        self.desk = AlertDesk(ledger, clock, lambda: watch.left_out)
        interval_s = max(settings.sample_interval_s, _LEAST_INTERVAL_S)
        self.patrol = Patrol("alerts", watch.look, interval_s, vital=False, failures=failures)
