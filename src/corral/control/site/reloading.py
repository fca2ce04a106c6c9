"""Applies the settings when a server starts, and again when it is told to reload them (SIGHUP)."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields

from corral.config import Settings
from corral.control.site.from_settings import site_setup
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
"""Settings that a reload changes; the others wait for the next start of the server."""


class SiteSettings:
    """Puts a site's queues, projects, pools and limits into the ledger's view."""

    def __init__(
        self, ledger: Ledger, settings: Settings, load: Callable[[], Settings], policies: Mapping[str, Policy]
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._load = load
        self._policies = policies

    def begin(self) -> None:
        """Apply the settings of the start, once the devices are known. Raises Refused for contradictions."""
        self._put_in_force(self._settings)

    def reload_soon(self) -> None:
        """Reload on a thread of its own. Safe to call from a signal handler."""
        threading.Thread(target=self.reload, name="reload", daemon=True).start()

    def reload(self) -> bool:
        """Read the settings again and apply all of them, or none and log why. Returns whether they were applied."""
        try:
            settings = self._load()
            self._put_in_force(settings)
        except (CorralError, OSError) as error:
            log.error("the settings were not reloaded; the previous ones stay in effect: %s", error)
            return False
        log.info("the settings were reloaded")
        later = waits_for_start(self._settings, settings)
        if later:
            log.warning(
                "these changed settings take effect when the server is restarted (corral down, corral up): %s",
                ", ".join(later),
            )
        return True

    def _put_in_force(self, settings: Settings) -> None:
        setup = site_setup(settings, self._ledger.view().nodes.values(), self._policies)
        self._ledger.observe([setup.observation])
        for remark in (*setup.remarks, *self._left_behind(setup.observation)):
            log.warning("%s", remark)
        if settings.unbuilt:
            log.warning("settings that Corral reads but does not use yet: %s", ", ".join(settings.unbuilt))

    def _left_behind(self, arranged: SiteArranged) -> list[str]:
        """Queues that were removed while jobs are in them."""
        there = {queue.name for queue in arranged.queues}
        counts = Counter(job.spec.queue for job in self._ledger.view().jobs.values())
        return [
            f"queue {name} was removed with {count_of(count, 'job')} in it; they stay, ordered by priority"
            for name, count in sorted(counts.items())
            if name not in there
        ]


def waits_for_start(before: Settings, after: Settings) -> tuple[str, ...]:
    """The names of the settings that differ and that a reload does not change."""
    return tuple(
        field.name
        for field in fields(Settings)
        if field.name not in LIVE and getattr(before, field.name) != getattr(after, field.name)
    )
