"""What a restarted server remembers of work that is over: usage, service and run times."""

from pathlib import Path

from corral.core.ledger.store import open_ledger
from corral.core.model.fact import AllocationEnded, AllocationMade, Fact, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.decayed_usage import DecayedUsage
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from tests.core.ledger.making import attempt

T0 = 1_700_000_000.0


def test_a_restart_forgets_neither_usage_nor_service_nor_run_times(tmp_path: Path) -> None:
    asked = Request(devices=2, models=("A100", "H100"))
    spec = JobSpec("alice", ("./night", "--seed", "7"), name="nightly", project="nlp", queue="night", request=asked)
    done, evicted = Job("1", 1, spec, T0), Job("2", 2, spec, T0)
    facts: list[Fact] = [JobSubmitted(done, at=T0, by="alice"), JobSubmitted(evicted, at=T0, by="alice")]
    facts += attempt(done, 1, T0, T0 + 100, Phase.SUCCEEDED)
    facts += attempt(evicted, 1, T0 + 100, T0 + 4000, Phase.PENDING)
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.commit(lambda _: Decided(tuple(facts), None)).result()
    before = ledger.view()
    ledger.close()
    again = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    after = again.view()
    again.close()
    assert (after.usage, after.spent, after.served, after.durations) == (
        before.usage,
        before.spent,
        before.served,
        before.durations,
    )
    assert before.served == {"2": 1950.0}
    assert set(before.durations["alice"].of_groups.values()) == {(99.0,)}
    assert before.usage["nlp", "alice"].gpu_s > 1999


def test_use_is_remembered_as_it_counted_and_an_older_record_by_its_share(tmp_path: Path) -> None:
    spec = JobSpec(user="alice")
    facts: list[Fact] = []
    for number, grant in enumerate((Grant("GPU-0", 100, 61_440, counts_milli=750), Grant("GPU-0", 100, 61_440)), 1):
        placement = Placement((Member("box", (grant,)),))
        made = AllocationMade(Allocation(f"{number}.1", str(number), "alice", placement, T0), at=T0, by="test")
        facts += [JobSubmitted(Job(str(number), number, spec, T0), at=T0, by="alice"), made]
        facts += [AllocationEnded(f"{number}.1", str(number), at=T0 + 100, by="test")]
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.commit(lambda _: Decided(tuple(facts), None)).result()
    used, (held,) = ledger.view().usage, ledger.allocated(T0, T0 + 1000)
    ledger.close()
    again = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert again.view().usage == used
    again.close()
    assert used["default", "alice"].gpu_s == held.gpu_s == 85.0


def test_what_was_used_is_forgiven_as_fast_as_the_server_is_told(tmp_path: Path) -> None:
    job = Job("1", 1, JobSpec(user="alice"), T0)
    facts = [JobSubmitted(job, at=T0, by="alice"), *attempt(job, 1, T0, T0 + 100, Phase.PENDING)]
    facts += attempt(job, 2, T0 + 3900, T0 + 4100, Phase.SUCCEEDED)
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.commit(lambda _: Decided(tuple(facts), None)).result()
    ledger.close()
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", View(usage_half_life_s=2000))
    (used,) = ledger.view().usage.values()
    ledger.close()
    assert used == DecayedUsage(100 + 50 / 4, T0 + 4100)


def test_a_view_without_a_past_remembers_nothing() -> None:
    assert View().remembering([]) == View()


def test_a_server_knows_which_devices_it_handed_out_last_though_all_have_come_back(tmp_path: Path) -> None:
    jobs = [Job(str(number), number, JobSpec(user="alice"), T0) for number in (1, 2, 3)]
    facts: list[Fact] = [JobSubmitted(one, at=T0, by="alice") for one in jobs]
    for at, (one, uuid) in enumerate(zip(jobs, ("GPU-1", "GPU-0", "GPU-2"), strict=True)):
        placement = Placement((Member("box" if uuid != "GPU-0" else "other", (Grant(uuid, 1000),)),))
        allocation = Allocation(f"{one.id}.1", one.id, "alice", placement, T0 + at)
        facts += [
            AllocationMade(allocation, at=T0 + at, by="test"),
            AllocationEnded(allocation.id, one.id, at=T0 + 10 - at, by="test"),
        ]
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.commit(lambda _: Decided(tuple(facts), None)).result()
    before = ledger.view().given
    ledger.close()
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    given = ledger.view().given
    ledger.close()
    assert list(given.items()) == list(before.items()) == [("other", ("GPU-0",)), ("box", ("GPU-2",))]


def test_a_restart_forgets_neither_how_many_packable_jobs_were_together_nor_for_how_long(tmp_path: Path) -> None:
    spec = JobSpec("alice", ("./small", "--seed", "7"), name="small", packable=True)
    jobs = [Job(str(number), number, spec, T0) for number in range(1, 6)]
    facts: list[Fact] = [JobSubmitted(one, at=T0, by="alice") for one in jobs]
    for job, (start, end, phase) in zip(
        jobs,
        (
            (0.0, 10.0, Phase.SUCCEEDED),
            (20.0, 60.0, Phase.SUCCEEDED),
            (22.0, 50.0, Phase.FAILED),
            (55.0, 200.0, Phase.SUCCEEDED),
            (100.0, 300.0, Phase.SUCCEEDED),
        ),
        strict=True,
    ):
        facts += attempt(job, 1, T0 + start, T0 + end, phase)
    facts.sort(key=lambda fact: fact.at)
    before = facts[: next(i for i, fact in enumerate(facts) if fact.at >= T0 + 200)]
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.commit(lambda _: Decided(tuple(before), None)).result()
    halfway = ledger.view()
    ledger.close()
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert (ledger.view().packed, ledger.view().beside_s) == (halfway.packed, halfway.beside_s)
    ledger.commit(lambda _: Decided(tuple(facts[len(before) :]), None)).result()
    found = ledger.view()
    ledger.close()
    assert {group.amounts[-1]: ran for group, ran in found.packed["alice"].of_groups.items()} == {
        1: (9.0,),
        2: (39.0, 144.0, 199.0),
    }
    assert not found.beside_s
