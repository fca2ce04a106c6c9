"""The notifications of a server, put together: alerts, messages about starts and ends of jobs, and channels."""

from collections import Counter

from corral.alerts.delivery import Delivery
from corral.clock import Clock
from corral.config import Settings
from corral.core.control.alerting.alert_access import AlertAccess
from corral.core.control.alerting.alert_watch import AlertSources, AlertWatch
from corral.core.control.telling.channels import ChannelAccess
from corral.core.control.telling.job_notices import JobNotices
from corral.core.control.telling.notifications import LOOK_INTERVAL_S
from corral.core.control.watching.patrol import Patrol
from corral.core.ports.ledger import Ledger

_LEAST_INTERVAL_S = 1.0


class Alerting:
    """The parts of a server that send messages to people through channels.

    Attributes:
        delivery: brings messages to channels.
        channels: the use cases of users for channels.
        access: the use cases of users for alerts.
        patrols: the threads that check the alert rules and that notify users of their jobs.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        settings: Settings,
        sources: AlertSources,
        delivery: Delivery,
        *,
        failures: Counter[str],
    ) -> None:
        """`failures` counts the rounds of a patrol that failed."""
        self.delivery = delivery
        self.channels = ChannelAccess(delivery, clock)
        watch = AlertWatch(ledger, clock, sources, delivery)
        self.access = AlertAccess(ledger, clock, lambda: watch.left_out)
        interval_s = max(settings.sample_interval_s, _LEAST_INTERVAL_S)
        notices = JobNotices(ledger, delivery, clock)
        self.patrols = (
            Patrol("alerts", watch.look, interval_s, vital=False, failures=failures),
            Patrol("job-notices", notices.look, LOOK_INTERVAL_S, vital=False, failures=failures),
        )
