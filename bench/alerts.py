"""What it costs to judge alert rules: 1,000 devices each 5 s, and 20,000 jobs each 30 s, of which 1,000 run.

`python -m bench.alerts` prints each figure beside its goal.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from corral.clock import ManualClock
from corral.config import Settings
from corral.core.ledger.store import open_ledger
from corral.core.model.devices.device import Device, DeviceCondition, DeviceSample, Node
from corral.core.model.fact import AllocationMade, ConditionObserved, Delta, JobSubmitted, NodeObserved, SiteArranged
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.queues.queue import Queue
from corral.core.model.slice import empty_snapshot
from corral.core.ports.ledger import Decided
from corral.core.ports.telemetry import NodeContact
from corral.features.alerts.alert_rules import alert_rules
from corral.features.alerts.alert_watch import WORK_INTERVAL_S, AlertSources, AlertWatch
from corral.features.alerts.facts import AlertRulesArranged
from corral.features.channels.message import AlertMessage
from corral.features.feature_list import slices

NODES, DEVICES_EACH, WAITING = 125, 8, 19_000
INTERVAL_S = 5.0
LOOKS = 60
NOW = 1_700_000_000.0


class Telemetry:
    """Samples of now."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.uuids = [f"GPU-{node}-{index}" for node in range(NODES) for index in range(DEVICES_EACH)]

    def latest(self) -> dict[str, DeviceSample]:
        """All devices, well used."""
        now = self._clock.now()
        return {
            uuid: DeviceSample(
                uuid, now, 97, 61_000, 20_000, 81_000, 60, 398_000, ecc_errors=0,
                memory_bandwidth_pct=40, sm_clock_mhz=1410, mem_clock_mhz=1593, xid=0, throttle=0,
            )
            for uuid in self.uuids
        }  # fmt: skip

    def contacts(self) -> tuple[NodeContact, ...]:
        """None."""
        return ()


class Nobody:
    """Takes messages."""

    told = 0

    def send(self, channel: str, message: AlertMessage) -> None:
        """Count it."""
        self.told += 1


def main() -> None:
    clock, nobody = ManualClock(NOW), Nobody()
    telemetry = Telemetry(clock)
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as home:
        ledger = open_ledger(f"sqlite:///{Path(home)}/ledger.db", slices=slices())
        snapshot = empty_snapshot(slices()).advance(site(telemetry.uuids))
        ledger.snapshot = lambda: snapshot  # type: ignore[method-assign]
        sources = AlertSources(
            telemetry=telemetry,  # type: ignore[arg-type]
            stale_after_s=10.0,
            obstacles=dict,
            disk=lambda: (100 * 2**30, 50 * 2**30),
            history_stopped=lambda: None,
        )
        watch = AlertWatch(ledger, clock, sources, nobody)
        watch.look()
        sampling_s = timed(telemetry.latest, LOOKS)
        looking_s, most_s = 0.0, 0.0
        for _ in range(LOOKS):
            clock.advance(INTERVAL_S)
            began = time.thread_time()
            watch.look()
            took = time.thread_time() - began - sampling_s
            looking_s, most_s = looking_s + took, max(most_s, took)
        share = looking_s / (LOOKS * INTERVAL_S)
        devices, jobs = len(telemetry.uuids), WAITING + len(telemetry.uuids)
        print(f"{devices:,} devices each {INTERVAL_S:g} s, {jobs:,} jobs each {WORK_INTERVAL_S:g} s")
        print(f"  of a core {share:.2%} (goal: 1 %)")
        print(f"  a look {1000 * looking_s / LOOKS:.1f} ms, the longest {1000 * most_s:.0f} ms")
        ledger.commit(lambda _: Decided((), None)).result()
        ledger.close()


def timed(call: Callable[[], object], times: int) -> float:
    """CPU seconds of one call."""
    began = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - began) / times


def site(uuids: list[str]) -> list[Delta]:
    """Nodes with their devices, a job on each, and more that wait."""
    found: list[Delta] = [SiteArranged((Queue("default"),)), AlertRulesArranged(alert_rules(Settings()))]
    for node in range(NODES):
        here = uuids[node * DEVICES_EACH : (node + 1) * DEVICES_EACH]
        devices = tuple(Device(uuid, index, "H100", 81_920) for index, uuid in enumerate(here))
        found.append(NodeObserved(Node(f"gpu-{node}", devices, 64_000, 512_000)))
        found += [ConditionObserved(DeviceCondition(uuid)) for uuid in here]
    for number in range(len(uuids) + WAITING):
        job = Job(str(number), number, JobSpec(f"user{number % 50}", ("train",)), NOW)
        found.append(JobSubmitted(job, by=job.spec.user, at=NOW))
        if number < len(uuids):
            placement = Placement((Member(f"gpu-{number // DEVICES_EACH}", (Grant(uuids[number], 1000),)),))
            allocation = Allocation(f"{number}.1", job.id, job.spec.user, placement, NOW)
            found.append(AllocationMade(allocation, by=job.spec.user, at=NOW))
    return found


if __name__ == "__main__":
    main()
