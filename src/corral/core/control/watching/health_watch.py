"""The watch over the health of devices: it writes down what follows from their signs, and has devices tested.

A device whose node does not answer is not looked at. A slice of a device has the signs of the whole device, too.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from corral.clock import Clock
from corral.core.lifecycle.device_health import (
    FORGOTTEN_AFTER_S,
    HealthPolicy,
    HealthStep,
    Look,
    after_test,
    looked_at,
    that_matter,
)
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.devices.health import WELL, DeviceHealth, Health, HealthSign, SignKind, Verdict
from corral.core.model.fact import DeviceHealthChanged, Fact, JobChanged, ServerPart
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View, ViewDraft
from corral.core.ports.ledger import Decided, Ledger
from corral.core.ports.telemetry import Samples

log = logging.getLogger(__name__)

UNREADABLE_S = 3.0
"""A device that alone could not be read for this time counts as lost."""


@dataclass(frozen=True, slots=True)
class ProbationEnd:
    """The end of a test; `failure` says why the device failed, None if it passed."""

    failure: str | None = None


class DeviceTests(Protocol):
    """Tests and resets devices on their nodes. No call waits."""

    def result(self, node: str, device: Device, health: DeviceHealth, *, may_begin: bool) -> ProbationEnd | None:
        """Return the result of the device's test in this state of its health; None before its end.

        The test begins if it has not begun, and if it may.
        """
        ...

    def was_reset(self, node: str, device: Device, health: DeviceHealth) -> bool:
        """Reset a quarantined device that nothing uses, once, if the site wants it. Return whether it was reset."""
        ...


FellSick = Callable[[View, str, DeviceHealth, float], Sequence[Fact]]
"""Returns what becomes of the jobs on a device that is quarantined now, by the view before that."""


@dataclass(slots=True)
class _Memory:
    """The memory of the watch about one device.

    `quiet_since_s` is monotonic. `reset_at` is when it was reset, Unix seconds. `needs_recovery` says that its driver
    asked for a recovery at the last look. `absent_since` is when its node had it no more.
    """

    quiet_since_s: float
    reset_at: float | None = None
    needs_recovery: bool = False
    absent_since: float | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A device of which there is something to judge, with its health then, and the end of its test.

    `node` and `device` are None if no node has it.
    """

    uuid: str
    look: Look
    health: DeviceHealth
    node: Node | None = None
    device: Device | None = None
    tested: ProbationEnd | None = None


class HealthWatch:
    """Judges the newest samples of all devices, round by round. For one thread."""

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Samples,
        clock: Clock,
        *,
        policy: HealthPolicy,
        tests: DeviceTests,
        stop: Callable[[str], None],
        fell_sick: FellSick = lambda view, uuid, health, at: (),
    ) -> None:
        """`stop` ends an allocation whose job is to stop by `fell_sick`."""
        self._ledger = ledger
        self._telemetry = telemetry
        self._clock = clock
        self._policy = policy
        self._tests = tests
        self._stop = stop
        self._fell_sick = fell_sick
        self._memories: dict[str, _Memory] = {}

    def look(self) -> None:
        """Run one round."""
        view = self._ledger.view()
        found = list(self._look_at_all(view, self._telemetry.latest()))
        changed = [one for one in found if self._change(view, one) is not None]
        if changed:
            for allocation_id in self._ledger.commit(lambda now: self._decide(now, changed)).result():
                self._stop(allocation_id)

    def _decide(self, view: View, found: Sequence[_Found]) -> Decided[tuple[str, ...]]:
        facts: list[Fact] = []
        draft = ViewDraft(view)
        for one in found:
            before, change, at = view.health.get(one.uuid, WELL), self._change(view, one), self._clock.now()
            if change is None:
                continue
            log.log(*_told(one, change))
            by = ServerPart.HEALTH_WATCH
            step: list[Fact] = [DeviceHealthChanged(one.uuid, change.health, change.evidence, at=at, by=by)]
            if change.health.state is Health.QUARANTINED is not before.state:
                # Several devices of one job may fall sick together: each step sees those before it.
                step += self._fell_sick(draft.view, one.uuid, change.health, at)
            draft.apply(step)
            facts += step
        return Decided(tuple(facts), tuple(dict.fromkeys(_stopped(view, facts))))

    def _change(self, view: View, one: _Found) -> HealthStep | None:
        """Return what follows from the last look at a device, or from the end of its test."""
        health, at = view.health.get(one.uuid, WELL), self._clock.now()
        sick = health.state is Health.QUARANTINED
        if one.device is None and not sick and not one.look.signs and at - health.since >= FORGOTTEN_AFTER_S:
            return HealthStep(WELL, ("no node has it any more",))
        change = looked_at(health, one.look, self._policy)
        if change is None and one.tested is not None and one.health == health:
            return after_test(health, one.tested.failure, replace(one.look, at=at), self._policy)
        return change

    def _look_at_all(self, view: View, samples: Mapping[str, DeviceSample]) -> Iterator[_Found]:
        present = set[str]()
        for node in view.nodes.values():
            for device in node.devices:
                uuid = device.uuid
                present.add(uuid)
                sample = samples.get(uuid)
                if sample is None and uuid in self._memories:
                    self._memories[uuid].quiet_since_s = self._clock.monotonic()
                # A cluster that counts its devices judges them itself, and chooses which of them a pod gets.
                if sample is None or sample.counted:
                    continue
                signs = sample.signs if device.parent_uuid is None else _with_those_of_whole(device, sample, samples)
                if signs or uuid in view.health or uuid in self._memories:
                    yield self._look_at(view, node, device, signs, unread=sample.fault is not None)
        yield from self._absent(view, present)

    def _look_at(self, view: View, node: Node, device: Device, signs: Sequence[HealthSign], *, unread: bool) -> _Found:
        uuid, now_s, now = device.uuid, self._clock.monotonic(), self._clock.now()
        health, memory = view.health.get(uuid, WELL), self._memories.setdefault(uuid, _Memory(now_s))
        if not signs and uuid not in view.health:
            del self._memories[uuid]
        signs = tuple(_counted_as_lost(sign, now) for sign in signs)
        matter = that_matter(signs, health)
        needed_recovery, memory.needs_recovery = memory.needs_recovery, _needs_recovery(matter)
        recovered = needed_recovery and not memory.needs_recovery
        if recovered or memory.absent_since is not None or self._was_reset(view, node, device, health):
            memory.reset_at, memory.absent_since = now, None
        if memory.reset_at is not None and any(sign.at > memory.reset_at for sign in matter):
            memory.reset_at = None
        if unread or any(sign.lasts for sign in matter):
            memory.quiet_since_s = now_s
        was_reset = memory.reset_at is not None and memory.reset_at >= health.since
        look = Look(now, signs, node.boot_id, was_reset, now_s - memory.quiet_since_s, unread)
        tested = None
        if health.state is Health.PROBATION and not health.tested:
            tested = self._tests.result(node.name, device, health, may_begin=_is_unused(view, device))
        return _Found(uuid, look, health, node, device, tested)

    def _was_reset(self, view: View, node: Node, device: Device, health: DeviceHealth) -> bool:
        if health.state is not Health.QUARANTINED or not _is_unused(view, device):
            return False
        return self._tests.was_reset(node.name, device, health)

    def _absent(self, view: View, present: Collection[str]) -> Iterator[_Found]:
        """Yield the devices that no node has any more although a job has them, or that were quarantined.

        The devices of a node that does not answer are in its last inventory. One that never answered may have any, and
        so may one whose driver has not answered since its agent started.
        """
        held = {uuid: _node_of(view, uuid) for uuid in view.holders if uuid not in present}
        for uuid, node in held.items():
            has = None if node is None or node in view.silences else view.nodes.get(node)
            if has is not None and _names_devices(has):
                yield self._lost(view, uuid, f"node {node} does not have it any more")
        if not view.silences:
            unheard = {node.boot_id for node in view.nodes.values() if not _names_devices(node)}
            for uuid, health in view.health.items():
                if uuid not in present and uuid not in held:
                    known = health.state is Health.QUARANTINED and (health.boot is None or health.boot not in unheard)
                    unread = _Found(uuid, Look(self._clock.now(), unread=True), health)
                    yield self._lost(view, uuid, "no node has it any more") if known else unread

    def _lost(self, view: View, uuid: str, detail: str) -> _Found:
        now_s, now = self._clock.monotonic(), self._clock.now()
        memory = self._memories.setdefault(uuid, _Memory(now_s))
        since = memory.absent_since = now if memory.absent_since is None else memory.absent_since
        memory.quiet_since_s = now_s
        sign = HealthSign(SignKind.LOST, Verdict.QUARANTINE, detail, since, lasts=True)
        return _Found(uuid, Look(now, (sign,)), view.health.get(uuid, WELL))


def _with_those_of_whole(
    device: Device, sample: DeviceSample, samples: Mapping[str, DeviceSample]
) -> tuple[HealthSign, ...]:
    whole = samples.get(device.parent_uuid or "")
    return sample.signs if whole is None else (*sample.signs, *whole.signs)


def _needs_recovery(signs: Iterable[HealthSign]) -> bool:
    """Whether the driver asks for a recovery of the device: the only sign among its errors that lasts."""
    return any(sign.lasts and sign.kind is SignKind.XID for sign in signs)


def _counted_as_lost(sign: HealthSign, at: float) -> HealthSign:
    """Return the sign; a device that alone cannot be read for a while has the verdict of one that is lost."""
    unreadable = sign.kind is SignKind.UNREADABLE and sign.verdict is Verdict.SUSPECT
    return replace(sign, verdict=Verdict.QUARANTINE) if unreadable and at - sign.at >= UNREADABLE_S else sign


def _is_unused(view: View, device: Device) -> bool:
    """Whether nothing is on the device, as far as is known."""
    condition = view.conditions.get(device.uuid)
    if condition is None or condition.unreadable is not None or condition.strangers:
        return False
    if condition.pod is not None or condition.parts:
        return False
    return not any(uuid in view.holders for uuid in (device.uuid, *(part.uuid for part in device.partitions)))


def _names_devices(node: Node) -> bool:
    """Whether the node knows which devices it has: a host whose driver has not answered yet shows none."""
    return bool(node.devices) or node.driver_version is not None


def _node_of(view: View, uuid: str) -> str | None:
    """Return the node on which a job has the device."""
    allocations = (view.allocations[allocation_id] for allocation_id in view.holders[uuid])
    members = (member for allocation in allocations for member in allocation.placement.members)
    return next((member.node for member in members if any(grant.uuid == uuid for grant in member.grants)), None)


def _stopped(view: View, facts: Iterable[Fact]) -> Iterator[str]:
    """Yield the allocations of the jobs that are to stop by these facts."""
    for fact in facts:
        if isinstance(fact, JobChanged) and fact.changes.get("phase") is Phase.STOPPING:
            allocation_id = view.jobs[fact.job_id].allocation_id
            if allocation_id is not None:
                yield allocation_id


def _told(one: _Found, change: HealthStep) -> tuple[int, str, str, Health, str]:
    level = logging.WARNING if change.health.state in (Health.QUARANTINED, Health.SUSPECT) else logging.INFO
    called = one.uuid if one.node is None else f"{one.uuid} of node {one.node.name}"
    reason = change.health.reason or "its faults are forgotten"
    return level, "GPU %s is %s: %s", called, change.health.state, reason
