"""Applies the settings when a server starts, and again on SIGHUP or a request to reload."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields

from corral.config import Settings
from corral.config.differences import Difference, differences
from corral.config.keys import LIVE
from corral.core.access.caller import Caller
from corral.core.access.permissions import must_be_admin
from corral.core.control.site.from_settings import Arrange, site_setup
from corral.core.control.site.remarks import clash_remarks, site_remarks
from corral.core.model.answers.site import ChangedSetting, ReloadedSettings
from corral.core.model.devices.device import Device
from corral.core.model.errors import BackendFailed, CorralError, LedgerFailed
from corral.core.model.fact import SiteArranged
from corral.core.model.units import count_of
from corral.core.ports.ledger import Decided, Ledger
from corral.core.scheduling.policy import Policy
from corral.declared.fields import declarations

log = logging.getLogger(__name__)

_NAMES = frozenset(field.name for field in fields(Settings))
_LIVE = frozenset(name for name, declared in declarations(Settings).items() if LIVE in declared.beside)


class SiteSettings:
    """Puts a site's queues, projects, pools and limits into the ledger's view.

    Each reload also calls `renew`, which reads other inputs that may have changed, and logs those that are unusable.
    `applied` is called with settings once they are in force. `arrange` are the functions of features.
    """

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        load: Callable[[], Settings],
        policies: Mapping[str, Policy],
        *,
        renew: Callable[[], None] = lambda: None,
        applied: Callable[[Settings], None] = lambda _: None,
        arrange: Sequence[Arrange] = (),
    ) -> None:
        self._ledger = ledger
        self._started_with = self._in_force = settings
        self._load = load
        self._policies = policies
        self._renew = renew
        self._applied = applied
        self._arrange = arrange
        self._lock = threading.Lock()
        self._remarked: frozenset[str] = frozenset()
        self._looked_at: dict[str, tuple[Device, ...]] | None = None
        self._told = False

    @property
    def cluster_name(self) -> str | None:
        """The site's name for the cluster, by the settings in force."""
        return self._in_force.cluster_name

    def begin(self) -> None:
        """Apply the settings of the start, once the devices are known. Raises Refused for contradictions."""
        self._put_in_force(self._started_with)

    def reload_soon(self) -> None:
        """Reload on a thread of its own. Safe to call from a signal handler."""
        threading.Thread(target=self.reload, name="reload", daemon=True).start()

    def reload(self) -> bool:
        """Read the settings again and apply all of them, or apply none and log why. Return whether they were
        applied.
        """
        try:
            self._reload()
        except (CorralError, OSError):
            return False
        return True

    def reload_for(self, caller: Caller) -> ReloadedSettings:
        """Reload as `reload` does, for an administrator. Return the changes.

        Raises Forbidden, BackendFailed, and Refused if no settings were applied.
        """
        must_be_admin(caller, "reloading the settings")
        log.info("%s has the settings reloaded", caller.user)
        try:
            return self._reload()
        except OSError as error:
            raise BackendFailed(f"the settings cannot be read: {error}") from error

    def _reload(self) -> ReloadedSettings:
        with self._lock:
            self._renew()
            try:
                settings = self._load()
                remarks = self._put_in_force(settings)
            except (CorralError, OSError) as error:
                log.error("the settings were not reloaded; the previous ones stay in effect: %s", error)
                raise
            before, self._in_force = self._in_force, settings
        changed = differences(before, settings, _LIVE)
        later = differences(self._started_with, settings, _NAMES - _LIVE)
        log.info("the settings were reloaded%s", "".join(f"; {_in_words(one)}" for one in changed))
        if later:
            log.warning(
                "these changed settings take effect when the server is restarted (jobs run on): %s",
                "; ".join(map(_in_words, later)),
            )
        return ReloadedSettings(_rows(changed), _rows(later), remarks)

    def _put_in_force(self, settings: Settings) -> tuple[str, ...]:
        """Apply the settings, and return remarks for administrators."""
        view = self._ledger.view()
        silent = len(view.silences.keys() - view.nodes.keys())
        setup = site_setup(settings, view.nodes.values(), self._policies, silent=silent, arrange=self._arrange)
        self._ledger.observe([setup.observation, *setup.of_features])
        # Publications are ordered: after this commit the view has the settings, even if the disk accepts nothing.
        with suppress(LedgerFailed):
            self._ledger.commit(lambda _: Decided((), None)).result()
        self._applied(settings)
        remarks = [*setup.remarks, *self._left_behind(setup.observation)]
        for remark in remarks:
            log.warning("%s", remark)
        self._remarked, self._told = frozenset(setup.remarks), False
        return tuple(remarks)

    def look_at_nodes(self) -> None:
        """Log remarks that became true or false, once the nodes are the same as in the last round.

        The remarks are computed once for given settings and nodes, because that takes long with thousands of nodes.
        """
        nodes = self._ledger.view().nodes
        before, self._looked_at = self._looked_at, {name: node.devices for name, node in nodes.items()}
        with self._lock:
            if before != self._looked_at:
                self._told = False
                return
            if self._told:
                return
            settings, there = self._in_force, nodes.values()
            remarks = frozenset([*site_remarks(settings, there), *clash_remarks(settings, there)])
            for remark in sorted(remarks - self._remarked):
                log.warning("%s", remark)
            for remark in sorted(self._remarked - remarks):
                log.info("resolved: %s", remark)
            self._remarked, self._told = remarks, True

    def _left_behind(self, arranged: SiteArranged) -> list[str]:
        """Return a remark for each removed queue that still has jobs."""
        there = {queue.name for queue in arranged.queues}
        counts = Counter(job.spec.queue for job in self._ledger.view().jobs.values())
        return [
            f"queue {name} was removed with {count_of(count, 'job')} in it; they stay, ordered by priority"
            for name, count in sorted(counts.items())
            if name not in there
        ]


def _in_words(one: Difference) -> str:
    return f"{one.setting}: {one.old or 'not set'} -> {one.new or 'not set'}"


def _rows(found: Iterable[Difference]) -> tuple[ChangedSetting, ...]:
    return tuple(ChangedSetting(*one) for one in found)
