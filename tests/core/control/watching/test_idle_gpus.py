"""The watch over idle GPUs: a word in the job's log first, then the end, through the ledger."""

from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.control.watching.idle_gpus import IdleWatch
from corral.core.control.watching.memory_guard import Stopper
from corral.core.ledger.store import open_ledger
from corral.core.model.devices.device import DeviceSample
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import Decided
from corral.core.scheduling.evicting.idle_reclaim import IdlePolicy
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted


class Seen:
    """Samples as the test says."""

    def __init__(self, *utilization: int) -> None:
        self.seen = {
            f"GPU-box-{i}": DeviceSample(f"GPU-box-{i}", T0, utilization_pct=pct) for i, pct in enumerate(utilization)
        }

    def latest(self) -> dict[str, DeviceSample]:
        return self.seen


@pytest.mark.parametrize(("utilization", "ends"), [(0, True), (7, False)])
def test_a_job_that_leaves_its_gpus_unused_is_told_and_then_stopped(
    tmp_path: Path, utilization: int, ends: bool
) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.observe(observed(box(gpus=1)))  # type: ignore[arg-type]
    ledger.commit(lambda _: Decided(tuple(submitted(job(1), job(2))), None)).result()  # type: ignore[arg-type]
    start = Planner(ledger.view()).plan(T0).starts[0]
    ledger.commit(lambda _: Decided(tuple(started(start)), None)).result()  # type: ignore[arg-type]
    clock, told, stopped = ManualClock(T0), list[tuple[str, str]](), list[str]()
    watch = IdleWatch(
        ledger,
        Seen(utilization),
        clock,
        policy=IdlePolicy(after_s=600, grace_s=60),
        tell=lambda job_id, line: told.append((job_id, line)),
        stopper=Stopper(ledger, clock, stopped.append),
    )
    for _ in range(13):
        watch.look()
        clock.advance(60)
    ended = ledger.view().jobs["1"]
    ledger.close()
    assert [job_id for job_id, _ in told] == (["1", "1"] if ends else [])
    assert stopped == (["1.1"] if ends else [])
    assert ended.phase is (Phase.STOPPING if ends else Phase.RUNNING)
