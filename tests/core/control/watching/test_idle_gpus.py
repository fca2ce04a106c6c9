"""The watch over idle GPUs: a word in the job's log first, then the end, through the ledger."""

from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.control.watching.idle_gpus import IdleWatch
from corral.core.control.watching.memory_guard import Stopper
from corral.core.ledger.store import open_ledger
from corral.core.model.devices.device import DeviceSample
from corral.core.model.devices.health import Health
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


def test_a_job_that_leaves_its_gpus_unused_is_told_once_also_while_nobody_waits(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.observe(observed(box(gpus=1)))  # type: ignore[arg-type]
    ledger.commit(lambda _: Decided(tuple(submitted(job(1))), None)).result()  # type: ignore[arg-type]
    start = Planner(ledger.view()).plan(T0).starts[0]
    ledger.commit(lambda _: Decided(tuple(started(start)), None)).result()  # type: ignore[arg-type]
    clock, told, seen = ManualClock(T0), list[tuple[float, str]](), Seen(0)
    watch = IdleWatch(
        ledger,
        seen,
        clock,
        policy=IdlePolicy(after_s=None, tell_after_s=600),
        tell=lambda job_id, line: told.append((clock.now() - T0, line)),
        stopper=Stopper(ledger, clock, lambda _: None),
    )
    for minute in range(40):
        seen.seen = Seen(50 if minute == 20 else 0).seen
        watch.look()
        clock.advance(60)
    ledger.close()
    assert [at for at, _ in told] == [600, 21 * 60 + 600]
    assert told[0][1].startswith("1 GPU unused for 10m: ")


@pytest.mark.parametrize(("tests", "state"), [(True, Health.PROBATION), (False, None)])
def test_a_gpu_that_its_job_leaves_unused_is_tested_after_the_job_if_the_site_wants_it(
    tmp_path: Path, tests: bool, state: Health | None
) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.observe(observed(box(gpus=2)))  # type: ignore[arg-type]
    ledger.commit(lambda _: Decided(tuple(submitted(job(1))), None)).result()  # type: ignore[arg-type]
    start = Planner(ledger.view()).plan(T0).starts[0]
    ledger.commit(lambda _: Decided(tuple(started(start)), None)).result()  # type: ignore[arg-type]
    clock = ManualClock(T0)
    watch = IdleWatch(
        ledger,
        Seen(0, 0),
        clock,
        policy=IdlePolicy(after_s=None, tell_after_s=600),
        tell=lambda job_id, line: None,
        stopper=Stopper(ledger, clock, lambda _: None),
        tests=tests,
    )
    for _ in range(12):
        watch.look()
        clock.advance(60)
    view = ledger.view()
    ledger.close()
    (held,) = view.allocations["1.1"].placement.uuids
    assert {uuid: health.state for uuid, health in view.health.items()} == ({held: state} if state else {})
    assert view.jobs["1"].phase is Phase.RUNNING
    if state:
        assert view.health[held].reason == "job 1 has it and did not use it for 10m: it is tested after the job"


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
