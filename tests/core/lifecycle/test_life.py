"""Any order of steps: phases only move along legal lines, and devices belong to live jobs alone."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from corral.core.lifecycle import commands, ending, starting, stopping
from corral.core.lifecycle.device_faults import device_fell_sick
from corral.core.model.devices.health import DeviceHealth, Health
from corral.core.model.fact import DeviceHealthChanged, Fact, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import NEXT_PHASES, Phase
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.view import ViewDraft
from tests.core.control.strategies import box, job
from tests.core.lifecycle.taken_steps import BACKOFF, URGENT, exited, place


class JobLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.view = box()
        self.count = 0

    def take(self, facts: list[Fact]) -> None:
        draft = ViewDraft(self.view)
        for fact in facts:
            if isinstance(fact, JobChanged) and "phase" in fact.changes:
                before = draft.view.jobs[fact.job_id].phase
                assert fact.changes["phase"] in NEXT_PHASES[before]
            draft.apply([fact])
        self.view = draft.freeze()

    def some(self, data: st.DataObject, *allowed: Phase) -> Job | None:
        found = sorted(j.id for j in self.view.jobs.values() if j.phase in allowed)
        return self.view.jobs[data.draw(st.sampled_from(found))] if found else None

    @rule(data=st.data(), retries=st.integers(0, 1))
    def submit(self, data: st.DataObject, retries: int) -> None:
        self.count += 1
        parents = sorted(j for j, x in self.view.jobs.items() if not x.phase.terminal)
        after = tuple(data.draw(st.lists(st.sampled_from(parents), unique=True, max_size=2))) if parents else ()
        self.take([JobSubmitted(job(self.count, retries=retries, after=after), at=100.0, by="alice")])

    @precondition(lambda self: len(self.view.holders) < 4)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        chosen = self.some(data, Phase.PENDING)
        free = [i for i in range(4) if f"GPU-{i}" not in self.view.holders]
        if chosen is not None and not chosen.waits_for:
            self.take(starting.start(chosen, place(free[0]), by="test", at=1.0))

    @rule(data=st.data())
    def run(self, data: st.DataObject) -> None:
        if chosen := self.some(data, Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            self.take(starting.running(self.view, chosen, 2.0, by="test", at=2.0))

    @rule(data=st.data(), code=st.sampled_from([0, 1]), how=st.sampled_from([None, Phase.TIMED_OUT, Phase.CANCELLED]))
    def exit(self, data: st.DataObject, code: int, how: Phase | None) -> None:
        if chosen := self.some(data, Phase.STARTING, Phase.RUNNING, Phase.STOPPING):
            self.take(ending.ended(self.view, chosen, exited(chosen.id, code, how), by="test", at=3.0, backoff=BACKOFF))

    @rule(data=st.data(), step=st.sampled_from(["dead", "failed", "never", "cancel", "evict"]))
    def disturb(self, data: st.DataObject, step: str) -> None:
        phases = (Phase.STARTING,) if step in ("failed", "never") else (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
        if (chosen := self.some(data, *phases)) is None:
            return
        dead = LaunchReport(f"{chosen.id}.1", LaunchPhase.DEAD)
        facts = {
            "dead": lambda: ending.ended(self.view, chosen, dead, by="test", at=3.0, backoff=BACKOFF),
            "failed": lambda: starting.launch_failed(self.view, chosen, "no", by="test", at=3.0, backoff=BACKOFF),
            "never": lambda: starting.never_ran(self.view, chosen, by="test", at=3.0),
            "cancel": lambda: commands.cancel(self.view, chosen, by="bob", at=3.0),
            "evict": lambda: stopping.evict(chosen, URGENT, by="test", at=3.0),
        }
        self.take(facts[step]())

    @rule(index=st.integers(0, 3), at=st.sampled_from([3.0, 4.0]))
    def fall_sick(self, index: int, at: float) -> None:
        health = DeviceHealth(Health.QUARANTINED, "gone", at)
        self.take([DeviceHealthChanged(f"GPU-{index}", health, at=at, by="test")])
        self.take(device_fell_sick(self.view, f"GPU-{index}", health, at))

    @invariant()
    def no_job_is_held_without_a_reason(self) -> None:
        for one in self.view.jobs.values():
            assert one.held is (one.held_because is not None)
            assert one.held or len(one.spec.request.avoided) < 2

    @invariant()
    def devices_belong_to_live_jobs_alone(self) -> None:
        live = {j.id for j in self.view.jobs.values() if j.phase in (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)}
        holding = {allocation.job_id for allocation in self.view.allocations.values()}
        assert holding == live
        assert all(len(ids) == 1 for ids in self.view.holders.values())

    @invariant()
    def nobody_waits_for_a_job_that_is_gone(self) -> None:
        for each in self.view.jobs.values():
            assert all(parent in self.view.jobs for parent in each.waits_for)


TestJobLife = JobLife.TestCase
TestJobLife.settings = settings(max_examples=60, stateful_step_count=30)
