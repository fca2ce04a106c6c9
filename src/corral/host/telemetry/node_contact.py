"""The server's state of one node: its devices, and whether it answers. A clock gives the time; there is no thread."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from corral.clock import CLOCKS_AGREE_S, Clock
from corral.config import Settings
from corral.core.model.devices.device import (
    SERVICE,
    Device,
    DeviceCondition,
    DeviceSample,
    Node,
    Silence,
)
from corral.core.model.devices.sample_moments import moved
from corral.core.model.fact import ConditionObserved, NodeObserved, NodeRemoved, Observation, SilenceObserved
from corral.core.model.printable import printable
from corral.core.model.units import format_duration
from corral.core.model.view import View
from corral.core.ports.node import News
from corral.core.ports.telemetry import Contact, NodeContact
from corral.host.telemetry.device_condition import Standing, is_news, judge
from corral.host.telemetry.signs.device_signs import signs_of
from corral.host.telemetry.signs.reading import NOTHING_BEFORE, SignMemory
from corral.host.telemetry.state_log import StateLog


class _Standings:
    """The devices of one node. Not thread-safe.

    Attributes:
        devices: by UUID, including slices.
        samples: the last sample of each sampled device.
        metered: whether any device ever had a reading.
        node: the last inventory.
        view_before: the view when samples were judged last.
    """

    def __init__(self, settings: Settings, view: View) -> None:
        self.node: Node | None = None
        self.view_before = view
        self._settings = settings
        self.devices: dict[str, Device] = {}
        self.samples: dict[str, DeviceSample] = {}
        self.metered = False
        self._standings: dict[str, Standing] = {}
        self._signs: dict[str, SignMemory] = {}
        self._reported: dict[str, DeviceCondition] = {}

    def take(self, node: Node) -> None:
        """Store the inventory; the data of devices that no longer exist is deleted."""
        self.node = node
        self.devices = {device.uuid: device for device in node.devices}
        for known in (self.samples, self._standings, self._signs, self._reported):
            for uuid in [uuid for uuid in known if uuid not in self.devices]:
                del known[uuid]

    def record(self, samples: Sequence[DeviceSample], views: Sequence[View], now_s: float) -> None:
        """Judge the samples by the holders of the devices in any of `views`: a job may have started or ended in
        between.
        """
        for sample in samples:
            device = self.devices.get(sample.uuid)
            if device is None:
                continue
            places = (sample.uuid, *(part.uuid for part in device.partitions))
            jobs = {job for uuid in places for view in views for job in _jobs_on(view, uuid)}
            jobs.add(SERVICE)
            signed = self.samples[sample.uuid] = self._with_signs(device, sample, jobs)
            self.metered = self.metered or sample.metered
            before = self._standings.get(sample.uuid)
            self._standings[sample.uuid] = judge(device, signed, before, jobs, self._settings, now_s=now_s)

    def _with_signs(self, device: Device, sample: DeviceSample, jobs: Collection[str]) -> DeviceSample:
        if not sample.metered:
            return sample
        before, limit_c = self._signs.get(device.uuid, NOTHING_BEFORE), self._settings.max_temperature_c
        signs, memory = signs_of(device, sample, before, max_temperature_c=limit_c, holders=jobs)
        self._signs[device.uuid] = memory
        return replace(sample, signs=signs) if signs else sample

    def conditions(self) -> dict[str, DeviceCondition]:
        """Return the condition of each device by its last sample."""
        return {uuid: standing.condition for uuid, standing in self._standings.items()}

    def condition(self, uuid: str, silence: Silence | None) -> DeviceCondition:
        """Return the condition of a device that the node has. While the node is silent, all its devices are
        unreadable.
        """
        standing = self._standings.get(uuid)
        if silence is None and standing is not None:
            return standing.condition
        since = None if standing is None else standing.condition.strangers_since
        reason = "not sampled yet" if silence is None else silence.reason
        ill_since = None if silence is None else silence.since
        return DeviceCondition(uuid, unreadable=reason, ill_since=ill_since, strangers_since=since)

    def news(self, silence: Silence | None) -> list[ConditionObserved]:
        """Return the conditions that differ noticeably from the reported ones, and mark them as reported."""
        news: list[ConditionObserved] = []
        for uuid in self._standings:
            condition = self.condition(uuid, silence)
            if is_news(self._reported.get(uuid), condition, self.devices[uuid].memory_mib):
                self._reported[uuid] = condition
                news.append(ConditionObserved(condition))
        return news

    def tell_again(self, uuid: str) -> None:
        """Report the device's condition again with the next changes: the caller has this condition and may report it
        later.
        """
        self._reported.pop(uuid, None)


def _jobs_on(view: View, uuid: str) -> frozenset[str]:
    return frozenset(view.allocations[allocation_id].job_id for allocation_id in view.holders.get(uuid, ()))


logger = logging.getLogger(__name__)

_LONGEST_TROUBLE = 300


class WatchedNode:
    """Judges the news of a node, and reports relevant changes to the ledger. Thread-safe.

    The node is ready once it was heard and then readmitted. It is silent `settings.node_silent_after_s` after its last
    answer, and gone after `settings.node_gone_after_s`. Until it is ready all its devices are unreadable.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        settings: Settings,
        *,
        view: Callable[[], View],
        observe: Callable[[Sequence[Observation]], None],
        title: str | None = None,
    ) -> None:
        """`title` is the name of the node in log lines about its devices, None if there is only one node."""
        self.name = name
        self._clock = clock
        self._settings = settings
        self._view = view
        self._observe = observe
        self._lock = threading.Lock()
        self._standings = _Standings(settings, view())
        self._state_log = StateLog(title)
        self._epoch: str | None = None
        self._visit = 0
        self._contact = Contact.SILENT
        self._silence: Silence | None = Silence(clock.now(), f"node {name} has not answered yet")
        self._seen = NodeContact(name, Contact.SILENT, None)
        self._trouble: str | None = None
        self._heard_s = self._gone_from_s = clock.monotonic()
        self._clock_difference_s = 0.0
        self._left = False
        self._silent_alone = True

    def expect(self) -> None:
        """Report to the ledger that the node is expected and has not answered yet."""
        with self._lock:
            self._tell([SilenceObserved(self.name, self._silence)])

    def leave(self) -> None:
        """Report that the node has left the cluster. Later news of it is ignored."""
        with self._lock:
            self._left = True
            self._observe([NodeRemoved(self.name)])

    def hear(self, news: News) -> int | None:
        """Process the node's news. Return the number of its new connection, None if it was connected before."""
        with self._lock:
            if self._left:
                return None
            visit = self._come(news.epoch)
            observations: list[Observation] = []
            node = None if news.node is None else replace(news.node, name=self.name)
            if node is not None and (node != self._standings.node or visit is not None):
                self._standings.take(node)
                observations.append(NodeObserved(node))
            if visit is not None:
                observations.append(SilenceObserved(self.name, self._silence))
            if not news.samples and not observations:
                # News of launches comes many times a second under load, and does not concern devices.
                return None
            view = self._view()
            samples = self._by_own_clock(news.samples, news.now)
            self._standings.record(samples, (self._standings.view_before, view), self._heard_s)
            self._standings.view_before = view
            self._tell(observations)
            return visit

    def hear_nothing_new(self) -> int | None:
        """Record an answer without news. Return the number of the node's new connection, None if it was connected
        before.
        """
        with self._lock:
            if self._left or self._epoch is None:
                return None
            # An old view would keep all changes since then in memory.
            self._standings.view_before = self._view()
            visit = self._come(self._epoch)
            if visit is not None:
                self._tell([SilenceObserved(self.name, self._silence)])
            return visit

    def miss(self, reason: str, *, at_once: bool = True) -> None:
        """Record why the node does not answer: a sentence without its full stop.

        The node is silent `at_once`, or after the time for that: then this is a part of the reason.
        """
        reason = printable(reason)[:_LONGEST_TROUBLE].rstrip(".")
        with self._lock:
            if self._left or self._contact is Contact.GONE:
                return
            if not at_once:
                self._trouble = reason
                if self._seen.last_seen_at is not None or self._contact is not Contact.SILENT:
                    return
                reason = f"node {self.name} has not answered yet ({reason})"
            if self._silence is not None and self._silence.reason == reason:
                return
            if self._contact is not Contact.SILENT:
                self._silent_alone = True
                logger.warning("node %s is silent: %s. No job starts there; running jobs go on", self.name, reason)
            self._be_silent(self._silent_since() if at_once else self._clock.now(), reason)

    def look(self, feed_trouble: str | None = None) -> bool:
        """Return whether the node has just become gone. Also reports a node that has become silent.

        `feed_trouble` is the reason why the node's feed does not answer. The node is then silent. It counts as gone
        only after it could have answered for long enough.
        """
        with self._lock:
            if self._left:
                return False
            now_s = self._clock.monotonic()
            if feed_trouble is not None:
                self._gone_from_s = now_s
            elif now_s - self._gone_from_s >= self._settings.node_gone_after_s and self._contact is not Contact.GONE:
                self._lose(Contact.GONE)
                return True
            if now_s - self._heard_s >= self._settings.node_silent_after_s and self._contact in (
                Contact.READY,
                Contact.RETURNING,
            ):
                self._silent_alone = feed_trouble is None
                if feed_trouble is None:
                    self._lose(Contact.SILENT)
                else:
                    self._be_silent(self._silent_since(), feed_trouble)
            return False

    def readmit(self, visit: int) -> None:
        """Mark the node as ready: it was reconciled during this connection. The number of an older connection
        changes nothing.
        """
        with self._lock:
            if visit == self._visit and self._contact is Contact.RETURNING and not self._left:
                self._contact, self._silence = Contact.READY, None
                self._tell([SilenceObserved(self.name, None)])

    def has(self, uuid: str) -> bool:
        """Return whether the node has a device of this UUID."""
        return uuid in self._standings.devices

    def judged(self, samples: Sequence[DeviceSample], before: View) -> tuple[ConditionObserved, ...]:
        """Return the conditions by requested samples of its devices. The caller reports them to the ledger."""
        with self._lock:
            known = [sample for sample in samples if sample.uuid in self._standings.devices]
            self._standings.record(known, (before, self._view()), self._clock.monotonic())
            for sample in known:
                # The caller may report them late. The next news reports them again, so the newest condition is the
                # last.
                self._standings.tell_again(sample.uuid)
            conditions = (self._standings.condition(sample.uuid, self._silence) for sample in known)
            return tuple(ConditionObserved(condition) for condition in conditions)

    def samples(self) -> dict[str, DeviceSample]:
        """Return the last sample of each device, none while the node does not answer."""
        with self._lock:
            answers = self._contact in (Contact.READY, Contact.RETURNING)
            return dict(self._standings.samples) if answers else {}

    def readings(self) -> dict[str, DeviceSample]:
        """Return the samples in `samples` of devices with readings."""
        with self._lock:
            if not self._standings.metered:
                return {}
        return {uuid: sample for uuid, sample in self.samples().items() if sample.metered}

    def contact(self) -> NodeContact:
        """Return whether the node answers."""
        with self._lock:
            answers = self._contact in (Contact.READY, Contact.RETURNING)
            return replace(self._seen, contact=self._contact, connected_at=self._seen.connected_at if answers else None)

    def _come(self, epoch: str) -> int | None:
        """Record an answer. Return the number of a new connection if the node was not connected, or its agent has
        restarted.
        """
        self._heard_s = self._gone_from_s = self._clock.monotonic()
        self._seen = replace(self._seen, last_seen_at=self._clock.now())
        self._trouble = None
        if epoch == self._epoch and self._contact in (Contact.READY, Contact.RETURNING):
            return None
        if self._epoch is not None and self._silent_alone:
            away = "its agent was restarted" if self._contact is Contact.READY else "it answers again"
            logger.info("node %s: %s; what runs there is compared with the ledger", self.name, away)
        self._epoch = epoch
        self._seen = replace(self._seen, connected_at=self._seen.last_seen_at)
        self._visit += 1
        self._contact = Contact.RETURNING
        self._silence = Silence(
            self._clock.now(),
            f"node {self.name} has just come; what runs there is compared with the ledger",
            answers=True,
        )
        return self._visit

    def _lose(self, contact: Contact) -> None:
        since = self._silent_since()
        shown = time.strftime("%H:%M:%S", time.localtime(self._clock.shown(since)))
        reason = f"node {self.name} has not answered since {shown}" + (f" ({self._trouble})" if self._trouble else "")
        if contact is Contact.GONE:
            reason += "; its jobs are given up, and what ran there may still run"
            after = format_duration(self._settings.node_gone_after_s)
            logger.warning("node %s is gone: it has not answered for %s. Its jobs are lost, or run again elsewhere "
                           "where they may; what they started there may still run", self.name, after)  # fmt: skip
        else:
            logger.warning("node %s is silent: it has not answered since %s. No job starts there; running jobs go on",
                           self.name, shown)  # fmt: skip
        self._be_silent(since, reason, contact)

    def _silent_since(self) -> float:
        return self._clock.now() - (self._clock.monotonic() - self._heard_s)

    def _be_silent(self, since: float, reason: str, contact: Contact = Contact.SILENT) -> None:
        self._contact = contact
        self._silence = Silence(since, reason, gone=contact is Contact.GONE)
        self._tell([SilenceObserved(self.name, self._silence)])

    def _tell(self, observations: list[Observation]) -> None:
        news = [*observations, *self._standings.news(self._silence)]
        if news:
            self._observe(news)
        if self._contact is Contact.READY:
            self._state_log.look(self._standings.devices, self._standings.conditions(), self._clock.monotonic())

    def _by_own_clock(self, samples: Sequence[DeviceSample], sent_at: float) -> Sequence[DeviceSample]:
        """Return the samples with times by the server's clock.

        The difference of the clocks is kept until it has changed noticeably, so that times of the same event stay
        equal.
        """
        difference_s = self._clock.now() - sent_at
        if abs(difference_s - self._clock_difference_s) >= CLOCKS_AGREE_S:
            self._clock_difference_s = difference_s
            ahead_s = 0.0 if abs(difference_s) < CLOCKS_AGREE_S else -difference_s
            self._seen = replace(self._seen, clock_ahead_s=ahead_s)
        return [moved(sample, self._clock_difference_s) for sample in samples] if self._clock_difference_s else samples
