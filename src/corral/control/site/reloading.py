"""Settings in force: put in force when a server starts, and again when somebody has it read them anew."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields

from corral.config import Settings
from corral.control.site.from_settings import arrange
from corral.model.errors import CorralError
from corral.model.fact import SiteArranged
from corral.model.units import count_of
from corral.ports.ledger import Ledger
from corral.scheduling.policy import Policy

log = logging.getLogger(__name__)

LIVE = frozenset(
    {
        "algorithm", "auto_retry_failed_jobs", "cluster_name", "default_priority", "enable_preemption",
        "expected_gpus", "max_job_duration_s", "max_milli_per_user", "max_queue_size", "max_retries",
        "max_running_jobs", "places", "pools", "priority_range", "projects", "queues", "reserved_ratio", "strategy",
        "unbuilt", "user_quota",
    }
)  # fmt: skip
"""Settings that a running server takes on; the others wait for its next start."""


class SiteSettings:
    """The arrangement that comes of a site's settings, kept in the ledger's view."""

    def __init__(
        self, ledger: Ledger, settings: Settings, load: Callable[[], Settings], policies: Mapping[str, Policy]
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._load = load
        self._policies = policies

    def begin(self) -> None:
        """Put the settings of the start in force, once the devices are known. Raises Refused for contradictions."""
        self._put_in_force(self._settings)

    def reload_soon(self) -> None:
        """Read the settings again, on a thread of its own. Safe from a signal handler."""
        threading.Thread(target=self.reload, name="reload", daemon=True).start()

    def reload(self) -> bool:
        """Read the settings again and put all of them in force, or none, with the reason in the log."""
        try:
            settings = self._load()
            self._put_in_force(settings)
        except (CorralError, OSError) as error:
            log.error("the settings were not reloaded, those before hold: %s", error)
            return False
        log.info("the settings were reloaded")
        later = waits_for_start(self._settings, settings)
        if later:
            log.warning("these settings take effect when the server starts again: %s", ", ".join(later))
        return True

    def _put_in_force(self, settings: Settings) -> None:
        arrangement = arrange(settings, self._ledger.view().nodes.values(), self._policies)
        self._ledger.observe([arrangement.observation])
        for remark in (*arrangement.remarks, *self._left_behind(arrangement.observation)):
            log.warning("%s", remark)
        if settings.unbuilt:
            log.warning("settings that have no effect yet: %s", ", ".join(settings.unbuilt))

    def _left_behind(self, arranged: SiteArranged) -> list[str]:
        """Queues that are gone while jobs are in them."""
        there = {queue.name for queue in arranged.queues}
        counts = Counter(job.spec.queue for job in self._ledger.view().jobs.values())
        return [
            f"queue {name} is gone; what is in it ({count_of(count, 'job')}) stays, and is served by priority"
            for name, count in sorted(counts.items())
            if name not in there
        ]


def waits_for_start(before: Settings, after: Settings) -> tuple[str, ...]:
    """The settings that differ and that a running server does not take on."""
    return tuple(
        field.name
        for field in fields(Settings)
        if field.name not in LIVE and getattr(before, field.name) != getattr(after, field.name)
    )
