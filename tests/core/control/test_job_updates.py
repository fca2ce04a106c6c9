"""Jobs are given other values: who may, all or nothing, and what hears of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.core.access.caller import Caller
from corral.core.control.deciding.commit import commit_starts
from corral.core.lifecycle import starting
from corral.core.model.errors import Conflict, CorralError, Forbidden, NotFound, Refused
from corral.core.model.fact import JobUpdated, SiteArranged
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.job_update import JobUpdate
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import ArraySpec, Submission
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.plan import Start
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.host.runtimes.simulated import SimulatedRuntime
from tests.core.control.cluster import on, until
from tests.core.control.test_service import ALICE, BOB, OVERSEER, ROOT, Served

HOUR_S = 3600.0
TRUE = Submission(("true",), request=Request(devices=1), workdir="/", time_limit_s=HOUR_S)
QUEUES = (
    Queue("default"),
    Queue("day", quota=Quota(share_milli=4000)),
    Queue("small", parent="day", quota=Quota(share_milli=1000, waiting=2)),
)
LIMITS = Limits(max_time_limit_s=4 * HOUR_S, priority_range=(0, 10))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, "a", "b")
    arrange(served)
    yield served
    served.close()


def arrange(served: Served, limits: Limits = LIMITS) -> None:
    served.ledger.observe([SiteArranged(queues=QUEUES, projects=(Project("ours", users=("bob",)),), limits=limits)])
    served.ledger.commit(lambda _: Decided((), None)).result()


def update(served: Served, job_id: str, caller: Caller = ALICE, **asked: Any) -> tuple[str, ...]:
    return served.service.updating.update(job_id, JobUpdate(**asked), caller)


def updates(served: Served) -> list[JobUpdated]:
    return [entry.fact for entry in served.ledger.journal() if isinstance(entry.fact, JobUpdated)]


def runtime(served: Served, node: str = "a") -> SimulatedRuntime:
    return served.nodes[node].runtime


def test_a_user_changes_all_four_of_a_waiting_job_in_one_fact_that_names_them(served: Served) -> None:
    job_id = served.submit(TRUE)
    asked: dict[str, Any] = {"priority": 1, "time_limit_s": 2 * HOUR_S, "name": "new", "queue": "day"}
    assert update(served, job_id, **asked) == (job_id,)
    spec = served.find(job_id).spec
    assert {name: getattr(spec, name) for name in asked} == asked
    (fact,) = updates(served)
    assert (fact.by, fact.job_id) == ("alice", job_id)


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({}, Refused, "nothing to change"),
        ({"priority": 11}, Refused, "priority 11 of job 1 is not allowed: users may choose 0 to 10"),
        ({"priority": 2_000_000_000}, Refused, "must be from"),
        ({"time_limit_s": 0.0}, Refused, "is not a time limit"),
        ({"time_limit_s": float("nan")}, Refused, "is not a time limit"),
        ({"time_limit_s": 5 * HOUR_S}, Forbidden, "more than the 4h that this site allows"),
        ({"name": ""}, Refused, "it is empty"),
        ({"name": "x" * 201}, Refused, "at most 200"),
        ({"name": "a\x1b[2J"}, Refused, "printable"),
        ({"queue": ""}, Refused, "it is empty"),
        ({"queue": "dya"}, Refused, "did you mean 'day'"),
    ],
)
def test_a_refused_part_changes_nothing(
    served: Served, asked: dict[str, Any], error: type[CorralError], said: str
) -> None:
    job_id = served.submit(TRUE)
    before = served.find(job_id)
    also: dict[str, Any] = {"name": "new", "priority": 2}
    with pytest.raises(error, match=said):
        update(served, job_id, **(also | asked if asked else {}))
    assert served.find(job_id) == before
    assert updates(served) == []


def test_a_queue_in_which_the_job_could_never_start_is_refused(served: Served) -> None:
    job_id = served.submit(Submission(("true",), request=Request(devices=2), workdir="/"))
    with pytest.raises(Refused, match="queue small may use at most 1 GPUs at a time, but this job asks for 2"):
        update(served, job_id, queue="small")


def test_a_queue_takes_no_more_waiting_jobs_than_it_may_have(served: Served) -> None:
    inside, *outside = (served.submit(TRUE) for _ in range(3))
    update(served, inside, queue="small")
    update(served, outside[0], queue="small")
    with pytest.raises(Refused, match="2 wait, this adds 1, and at most 2 may wait"):
        update(served, outside[1], queue="small")
    update(served, inside, queue="day")
    update(served, outside[1], queue="small")


def test_only_its_user_or_an_administrator_changes_a_job_and_the_latter_has_no_bounds(served: Served) -> None:
    job_id = served.submit(TRUE)
    for stranger in (BOB, OVERSEER):
        with pytest.raises(Forbidden):
            update(served, job_id, stranger, priority=1)
    update(served, job_id, ROOT, priority=-50, time_limit_s=100 * HOUR_S)
    spec = served.find(job_id).spec
    assert (spec.priority, spec.time_limit_s, spec.user) == (-50, 100 * HOUR_S, "alice")


def test_a_job_that_is_above_what_the_site_allows_by_now_may_be_shortened(served: Served) -> None:
    job_id = served.submit(TRUE)
    arrange(served, Limits(max_time_limit_s=60.0))
    update(served, job_id, time_limit_s=HOUR_S / 2)
    assert served.find(job_id).spec.time_limit_s == HOUR_S / 2


def test_what_there_is_not_or_has_ended_is_said_so(served: Served) -> None:
    with pytest.raises(NotFound, match="no job 99"):
        update(served, "99", priority=1)
    job_id = served.ended(served.submit(TRUE), on("a", 0), 0)
    with pytest.raises(Conflict, match=r"already ended \(SUCCEEDED\)"):
        update(served, job_id, priority=1)


def test_a_running_job_is_shortened_by_its_user_and_lengthened_by_an_administrator_alone(served: Served) -> None:
    job_id = served.running(served.submit(TRUE), on("a", 0))
    with pytest.raises(Forbidden, match="which you may only shorten"):
        update(served, job_id, time_limit_s=2 * HOUR_S)
    update(served, job_id, time_limit_s=60.0)
    until(lambda: runtime(served).time_limits == {f"{job_id}.1": 60.0})
    until(lambda: (job_id, 0, "alice changed its time limit from 1h to 1m") in served.nodes["a"].notes)
    update(served, job_id, ROOT, time_limit_s=7200.0)
    until(lambda: runtime(served).time_limits == {f"{job_id}.1": 7200.0})


def test_a_running_job_that_has_used_up_its_new_time_ends_timed_out(served: Served) -> None:
    job_id = served.running(served.submit(TRUE), on("a", 0))
    update(served, job_id, time_limit_s=0.000_001)
    until(lambda: served.phase_of(job_id) is Phase.TIMED_OUT)


def test_every_member_of_a_gang_is_told_on_its_node(served: Served) -> None:
    gang = Submission(("true",), request=Request(devices=1, gang_size=2), workdir="/")
    job_id = served.running(served.submit(gang), on("a", 0), on("b", 0))
    update(served, job_id, time_limit_s=60.0)
    until(lambda: runtime(served, "a").time_limits == {f"{job_id}.1": 60.0})
    until(lambda: runtime(served, "b").time_limits == {f"{job_id}.1-1": 60.0})


def test_a_node_that_did_not_answer_is_told_by_the_recheck(served: Served) -> None:
    job_id = served.running(served.submit(TRUE), on("a", 0))
    served.nodes["a"].fall_silent()
    update(served, job_id, time_limit_s=60.0)
    until(lambda: "did not answer" in str(served.dispatcher.trouble(f"{job_id}.1")))
    served.nodes["a"].answer_again()
    served.dispatcher.recheck()
    until(lambda: runtime(served).time_limits == {f"{job_id}.1": 60.0})
    until(lambda: served.dispatcher.trouble(f"{job_id}.1") is None)


def test_a_job_that_is_yet_to_be_launched_is_launched_with_its_new_time_limit(served: Served) -> None:
    job_id = served.submit(TRUE)

    def decide(view: View) -> Decided[None]:
        step = starting.start(view.jobs[job_id], Placement((on("a", 0),)), by="test", at=served.clock.now())
        return Decided(tuple(step), None)

    served.ledger.commit(decide).result()
    # The record of the attempt is made with the limit that the job has now.
    assert served.dispatcher.attempts.of(f"{job_id}.1") is not None
    update(served, job_id, time_limit_s=60.0)
    served.dispatcher.launch(f"{job_id}.1")
    until(lambda: runtime(served).time_limits == {f"{job_id}.1": 60.0})


def test_an_array_is_changed_with_all_elements_that_have_not_ended_or_not_at_all(served: Served) -> None:
    array = served.submit(Submission(("true",), workdir="/", array=ArraySpec((0, 1, 2)), request=Request(devices=1)))
    served.ended(f"{array}_0", on("a", 0), 0)
    served.running(f"{array}_1", on("a", 1))
    with pytest.raises(Conflict, match=f"job {array}_1 is RUNNING"):
        update(served, array, queue="day", priority=3)
    assert updates(served) == []
    assert update(served, array, priority=3) == (f"{array}_1", f"{array}_2")
    assert [job.spec.priority for job in served.ledger.find_array(array)] == [5, 3, 3]
    served.do("cancel", array)
    until(lambda: all(phase.terminal for phase in served.phases(array)))
    with pytest.raises(Conflict, match="every element has ended"):
        update(served, array, priority=4)


def test_a_value_that_is_so_already_is_no_fact(served: Served) -> None:
    job_id = served.submit(TRUE)
    assert update(served, job_id, time_limit_s=HOUR_S, queue="default") == (job_id,)
    assert updates(served) == []


def test_what_was_decided_for_the_job_as_it_was_is_decided_again(served: Served) -> None:
    job_id = served.submit(TRUE)
    start = Start(job_id, Placement((on("a", 0),)), "test", spec=served.find(job_id).spec)
    update(served, job_id, queue="day")

    def committed(view: View) -> tuple[str, ...]:
        said = commit_starts(
            view,
            [start],
            1.0,
            verify=lambda *_: None,
            describe=lambda *_: None,
            enforce=lambda *_: None,
            waited=lambda _: (),
        )
        return said.value

    assert committed(served.ledger.view()) == ()


def test_a_node_that_knows_no_other_time_limits_loses_nothing_but_those(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(launch_id: str, time_limit_s: float) -> None:
        raise Refused("'launches.set_time_limit' is not a call of an agent", field="call")

    job_id = served.running(served.submit(TRUE), on("a", 0))
    monkeypatch.setattr(served.nodes["a"].launches, "set_time_limit", refuse)
    update(served, job_id, time_limit_s=60.0)
    until(lambda: "not a call" in str(served.dispatcher.trouble(f"{job_id}.1")))
    served.dispatcher.recheck()
    assert served.phase_of(job_id) is Phase.RUNNING
    runtime(served).finish(f"{job_id}.1")
    until(lambda: served.phase_of(job_id) is Phase.SUCCEEDED)
