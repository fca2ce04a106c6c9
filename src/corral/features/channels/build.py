"""Builds the channels of a server."""

from collections.abc import Iterator

from corral.api.requests.auth import ids_of
from corral.core.access.caller import Caller
from corral.core.control.metrics.exposition import Row, family, labelled
from corral.core.model.jobs.submission import Submission
from corral.core.model.slice import LedgerSnapshot
from corral.features.building import Built, CoreDoors
from corral.features.channels.channel_access import ChannelAccess
from corral.features.channels.channel_process import checking_channels
from corral.features.channels.delivery import Delivery
from corral.features.channels.job_notices import JobNotices
from corral.features.channels.notifications import LOOK_INTERVAL_S, Notifications
from corral.features.channels.outbox import Outbox


def build(core: CoreDoors) -> Built:
    """The delivery of messages, the use cases of channels, and the patrols that find what users are to be told."""
    checked = checking_channels(core.settings.channels, core.settings.places)
    delivery = Delivery(Outbox(core.home.deliveries_file), core.clock, ids_of)
    access = ChannelAccess(delivery, core.clock)
    notices = JobNotices(core.ledger, delivery, core.clock)
    notifications = Notifications(core.ledger, core.nodes, core.clock)

    def metrics(_: LedgerSnapshot, now: float) -> Iterator[str]:
        return family(
            "corral_alert_deliveries_total",
            "counter",
            "Tries to deliver a message to a channel, and dropped messages; all channels of users count as one.",
            (Row(labelled(channel=name, result=result), n) for (name, result), n in sorted(delivery.results.items())),
        )

    def notes(submission: Submission, caller: Caller) -> tuple[str, ...]:
        return access.notes(caller) if submission.notify_on else ()

    return Built(
        offers=(delivery, access),
        patrols=(
            core.patrol("job-notices", notices.look, LOOK_INTERVAL_S),
            core.patrol("notifications", notifications.look, LOOK_INTERVAL_S),
        ),
        ready=checked.result,
        applied=delivery.apply,
        metrics=metrics,
        notes=notes,
        close=delivery.close,
    )
