"""Alerts of a server, put together: the watch with its thread, and the desk."""

from corral.alerts.message import Sender
from corral.clock import Clock
from corral.config import Settings
from corral.control.alerting.alert_watch import AlertSources, AlertWatch
from corral.control.alerting.desk import AlertDesk
from corral.control.watching.memory_guard import Patrol
from corral.ports.ledger import Ledger

_LEAST_INTERVAL_S = 1.0


class Alerting:
    """What a server needs for alerts.

    Attributes:
        desk: what people see of alerts, and do about them.
        patrol: the thread of the watch.
    """

    def __init__(self, ledger: Ledger, clock: Clock, settings: Settings, sources: AlertSources, sender: Sender) -> None:
        watch = AlertWatch(ledger, clock, sources, sender)
        self.desk = AlertDesk(ledger, clock, lambda: watch.left_out)
        self.patrol = Patrol("alerts", watch.look, max(settings.sample_interval_s, _LEAST_INTERVAL_S))
