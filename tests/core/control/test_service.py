"""What callers can have done: who may, what the phase allows, all of an array at once, and what is stopped for it."""

import base64
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from corral.config import Settings
from corral.core.access.caller import Caller
from corral.core.control.changing.job_changes import Verb
from corral.core.control.core import ControlCore
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.service import Service
from corral.core.control.submitting.device_request import RequestRules
from corral.core.control.submitting.file_findings import FileFindings
from corral.core.lifecycle import starting
from corral.core.model.answers.site import ServerInfo
from corral.core.model.errors import Conflict, Forbidden, NotFound, Refused
from corral.core.model.fact import DeviceCordoned, JobSubmitted
from corral.core.model.jobs.job import Job, JobKind, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import ArraySpec, Submission
from corral.core.model.placing.allocation import Member, Placement
from corral.core.model.runs.launch import LaunchPhase
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, JobQuery
from corral.core.ports.node import LogChunk
from corral.sim.faults.live_server import QuietHub
from tests.core.control.cluster import Cluster, on, until

ALICE = Caller("alice", 1000, 1000, (1000, 27))
BOB = Caller("bob", 1001)
ROOT = Caller("root", 0, admin=True, overseer=True)
OVERSEER = Caller("root", 0, overseer=True)
"""Root with a token of less than the scope admin."""

TRUE = Submission(("true",), request=Request(devices=1), workdir="/")
ARRAY = Submission(("true",), request=Request(devices=1), workdir="/", array=ArraySpec((0, 1, 2)))
VERBS = ("cancel", "hold", "release", "requeue")


class Served(Cluster):
    """Two nodes of four GPUs, and a service; nothing decides, jobs are placed by the test."""

    def start(self) -> None:
        self.registry = Nodes(self.nodes)
        self.hub = QuietHub(self.nodes)
        self.core = ControlCore(
            self.ledger,
            self.registry,
            self.hub,
            self.clock,
            settings=Settings(retry_backoff_s=0.001, retry_backoff_max_s=0.002),
            rules=RequestRules(),
            about=ServerInfo,
        )
        self.dispatcher = self.core.dispatcher
        for name, node in self.nodes.items():
            node.runtime.on_event = lambda launch_id, name=name: self.dispatcher.look(name, [launch_id])  # type: ignore[misc]

    @property
    def service(self) -> Service:
        return self.core.service

    def do(self, verb: str, job_id: str, caller: Caller = ALICE) -> tuple[str, ...]:
        touched: tuple[str, ...] = self.service.changes.one(Verb(verb), job_id, caller)
        return touched

    def submit(self, submission: Submission = TRUE, caller: Caller = ALICE) -> str:
        (job_id,) = self.service.submit([submission], caller)
        return job_id

    def running(self, job_id: str, *members: Member) -> str:
        """The job runs on these members."""

        def decide(view: View) -> Decided[None]:
            step = starting.start(view.jobs[job_id], Placement(members), by="test", at=self.clock.now())
            return Decided(tuple(step), None)

        self.ledger.commit(decide).result()
        self.dispatcher.launch(f"{job_id}.1")
        until(lambda: self.phase_of(job_id) is Phase.RUNNING)
        return job_id

    def ended(self, job_id: str, member: Member, exit_code: int) -> str:
        """The job ran there and ended."""
        self.running(job_id, member)
        self.nodes[member.node].runtime.finish(f"{job_id}.1", exit_code)
        until(lambda: self.find(job_id).phase.terminal)
        return job_id

    def find(self, job_id: str) -> Job:
        found = self.ledger.view().jobs.get(job_id) or self.ledger.find_job(job_id)
        assert found is not None
        return found

    def phase_of(self, job_id: str) -> Phase:
        return self.find(job_id).phase

    def phases(self, array_id: str) -> list[Phase]:
        return [self.phase_of(job.id) for job in self.ledger.find_array(array_id)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, "a", "b")
    yield served
    served.close()


@pytest.fixture
def commits(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many facts each commit from now on writes."""
    counts: list[int] = []
    commit = served.ledger.commit

    def counted(decide: Callable[[View], Decided[Any]], **about: Any) -> "Future[Any]":
        def decided(view: View) -> Decided[Any]:
            taken = decide(view)
            counts.append(len(taken.facts))
            return taken

        return commit(decided, **about)

    monkeypatch.setattr(served.ledger, "commit", counted)
    return counts


# Submitting


def test_a_submission_is_answered_with_its_id_when_it_is_on_disk_with_who_asked(served: Served) -> None:
    job_id = served.submit()
    (entry,) = served.ledger.journal(job_id=job_id)
    assert isinstance(entry.fact, JobSubmitted)
    assert entry.fact.by == "alice"
    spec = entry.fact.job.spec
    assert (spec.user, spec.uid, spec.gid, spec.groups, spec.name) == ("alice", 1000, 1000, (1000, 27), "true")


def test_a_batch_is_one_commit_and_answered_in_its_order_an_array_by_its_own_id(
    served: Served, commits: list[int]
) -> None:
    first, array, last = served.service.submit([TRUE, ARRAY, TRUE], ALICE)
    assert commits == [5]
    elements = [f"{array}_{index}" for index in range(3)]
    assert sorted(served.ledger.view().jobs) == sorted([first, *elements, last])
    assert int(first) < int(array) < int(last)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (Submission(("true",), request=Request(devices=9), workdir="/"), "request"),
        (Submission((), workdir="/"), "command"),
        (Submission(("true",), workdir="/", after=("99",)), "after"),
        (Submission(kind=JobKind.ADOPT, name="old"), "kind"),
        (Submission(kind=JobKind.RESERVE, request=Request(devices=1), owner_pid=2**22 + 1), "owner_pid"),
    ],
    ids=["more than any node has", "no command", "follows nobody", "an adoption", "nobody's reservation"],
)
def test_of_a_batch_with_one_bad_submission_none_is_accepted_and_its_field_is_named(
    served: Served, bad: Submission, field: str
) -> None:
    with pytest.raises(Refused) as refused:
        served.service.submit([TRUE, bad], ALICE)
    assert refused.value.field == field
    assert served.ledger.jobs(JobQuery()) == ()


def test_a_dry_run_says_what_would_be_and_changes_nothing(served: Served, commits: list[int]) -> None:
    answer = served.service.dry_run(TRUE, ALICE, FileFindings())
    assert (answer.starts_now, [device.node for device in answer.devices]) == (True, ["a"])
    assert (commits, served.ledger.view().jobs) == ([], {})


# Who may


@pytest.mark.parametrize("verb", VERBS)
def test_only_its_user_and_administrators_change_a_job(served: Served, verb: str) -> None:
    job_id = served.submit()
    if verb == "requeue":
        served.running(job_id, on("a", 0))
    before = served.find(job_id)
    for other in (BOB, OVERSEER):
        with pytest.raises(Forbidden, match=f"job {job_id} belongs to alice"):
            served.do(verb, job_id, other)
    assert served.find(job_id) == before
    assert served.do(verb, job_id, ROOT) == (job_id,)


@pytest.mark.parametrize("verb", VERBS)
def test_what_does_not_exist_is_not_found_whoever_asks(served: Served, verb: str) -> None:
    for caller in (ALICE, ROOT):
        with pytest.raises(NotFound, match="there is no job 99"):
            served.do(verb, "99", caller)


def test_whoever_changes_a_job_is_named_with_the_fact(served: Served) -> None:
    job_id = served.submit()
    served.do("hold", job_id, ROOT)
    assert [entry.fact.by for entry in served.ledger.journal(job_id=job_id)] == ["alice", "root"]


# What the phase allows


def test_a_job_that_is_held_waits_until_it_is_released(served: Served) -> None:
    job_id = served.submit()
    assert (served.do("hold", job_id), served.find(job_id).held) == ((job_id,), True)
    assert served.do("hold", job_id) == (job_id,), "to hold it again is no error"
    assert (served.do("release", job_id), served.find(job_id).held) == ((job_id,), False)


def test_a_waiting_job_that_is_cancelled_is_over_at_once_and_so_is_what_follows_it(served: Served) -> None:
    job_id = served.submit()
    follower = served.submit(Submission(("true",), workdir="/", after=(job_id,)))
    assert served.do("cancel", job_id) == (job_id,)
    assert [served.phase_of(one) for one in (job_id, follower)] == [Phase.CANCELLED] * 2
    assert served.find(job_id).reason == "cancelled by alice"


def test_a_running_job_that_is_cancelled_is_stopped_on_every_node_of_its_gang(served: Served) -> None:
    gang = Submission(("true",), request=Request(devices=1, gang_size=2), workdir="/")
    job_id = served.running(served.submit(gang), on("a", 0), on("b", 0))
    served.do("cancel", job_id)
    until(lambda: served.phase_of(job_id) is Phase.CANCELLED)
    assert served.ledger.view().allocations == {}
    until(lambda: not any(node.runtime.launches() for node in served.nodes.values()))


def test_a_running_job_that_is_requeued_is_stopped_and_waits_again(served: Served) -> None:
    job_id = served.running(served.submit(), on("a", 0))
    served.do("requeue", job_id)
    until(lambda: served.phase_of(job_id) is Phase.PENDING)
    assert served.nodes["a"].runtime.report(f"{job_id}.1").phase in (LaunchPhase.EXITED, LaunchPhase.UNKNOWN)


def test_a_job_that_failed_waits_again_when_it_is_requeued(served: Served) -> None:
    job_id = served.ended(served.submit(), on("a", 0), exit_code=3)
    assert served.phase_of(job_id) is Phase.FAILED
    served.do("requeue", job_id)
    assert (served.phase_of(job_id), served.find(job_id).reason) == (Phase.PENDING, None)


def test_a_reservation_that_is_released_ends_well_and_gives_its_devices_back(served: Served) -> None:
    reservation = Submission(kind=JobKind.RESERVE, request=Request(devices=1), workdir="/")
    job_id = served.running(served.submit(reservation), on("a", 0))
    served.do("release", job_id)
    assert (served.phase_of(job_id), served.ledger.view().allocations) == (Phase.SUCCEEDED, {})
    until(lambda: served.nodes["a"].runtime.launches() == ())


@pytest.mark.parametrize(
    ("verb", "state", "why"),
    [
        ("requeue", "waits", "only a job that runs, failed or was lost can be requeued"),
        ("hold", "runs", "only a job that waits can be held"),
        ("release", "runs", "only a job that waits can be released"),
        ("cancel", "ended", "has already ended"),
        ("hold", "ended", "only a job that waits can be held"),
        ("requeue", "ended", "`corral show [0-9]+` has its command, to submit it anew"),
    ],
)
def test_what_the_phase_does_not_allow_is_a_conflict_that_says_so_and_changes_nothing(
    served: Served, commits: list[int], verb: str, state: str, why: str
) -> None:
    job_id = served.submit()
    if state != "waits":
        served.running(job_id, on("a", 0))
    if state == "ended":
        served.nodes["a"].runtime.finish(f"{job_id}.1")
        until(lambda: served.phase_of(job_id) is Phase.SUCCEEDED)
    before = served.find(job_id)
    commits.clear()
    with pytest.raises(Conflict, match=why):
        served.do(verb, job_id)
    assert (served.find(job_id), [count for count in commits if count]) == (before, [])


# Arrays


def test_all_of_an_array_is_cancelled_in_one_commit(served: Served, commits: list[int]) -> None:
    array = served.submit(ARRAY)
    commits.clear()
    assert served.do("cancel", array) == tuple(f"{array}_{index}" for index in range(3))
    assert commits == [3]
    assert served.phases(array) == [Phase.CANCELLED] * 3


@pytest.fixture
def mixed(served: Served) -> str:
    """An array of which an element runs, one succeeded, one failed and two wait."""
    array = served.submit(
        Submission(("true",), request=Request(devices=1), workdir="/", array=ArraySpec(tuple(range(5))))
    )
    served.running(f"{array}_0", on("a", 0))
    served.ended(f"{array}_1", on("a", 1), exit_code=0)
    served.ended(f"{array}_2", on("a", 2), exit_code=1)
    return array


@pytest.mark.parametrize(
    ("verb", "touched"),
    [("cancel", (0, 3, 4)), ("hold", (3, 4)), ("release", (3, 4)), ("requeue", (0, 2))],
)
def test_an_array_is_changed_where_the_phase_of_an_element_allows_it(
    served: Served, mixed: str, verb: str, touched: Sequence[int]
) -> None:
    before = {index: served.find(f"{mixed}_{index}") for index in range(5)}
    assert served.do(verb, mixed) == tuple(f"{mixed}_{index}" for index in touched)
    for index in set(range(5)) - set(touched):
        assert served.find(f"{mixed}_{index}") == before[index]


def test_what_runs_of_an_array_is_stopped_when_it_is_cancelled(served: Served, mixed: str) -> None:
    served.do("cancel", mixed)
    until(lambda: served.phases(mixed)[0] is Phase.CANCELLED)
    assert served.ledger.view().allocations == {}


@pytest.mark.parametrize("verb", VERBS)
def test_an_array_in_which_nothing_can_be_changed_is_a_conflict(served: Served, verb: str) -> None:
    array = served.submit(ARRAY)
    served.do("cancel", array)
    with pytest.raises(Conflict, match=f"array {array}: no element is in a phase that allows this"):
        served.do(verb, array)


# Devices


def cordons(served: Served) -> dict[str, str]:
    return dict(served.ledger.view().cordons)


def test_only_administrators_cordon_and_uncordon_devices(served: Served) -> None:
    for caller in (ALICE, OVERSEER):
        with pytest.raises(Forbidden, match="cordoning a device is for administrators"):
            served.service.device_cordons.cordon("a:0", "", caller)
        with pytest.raises(Forbidden, match="uncordoning a device is for administrators"):
            served.service.device_cordons.uncordon("a:0", caller)
    assert cordons(served) == {}


def test_a_device_is_cordoned_with_a_reason_that_stays_until_it_is_uncordoned(served: Served) -> None:
    (row,) = served.service.device_cordons.cordon("b:1", "it throws errors", ROOT)
    assert (row.uuid, row.state, row.state_reason) == ("b-1", "cordoned", "it throws errors")
    served.service.device_cordons.cordon("b-1", "", ROOT)
    assert cordons(served) == {"b-1": "it throws errors"}
    fact = served.ledger.journal()[-1].fact
    assert isinstance(fact, DeviceCordoned)
    assert fact.by == "root"
    (row,) = served.service.device_cordons.uncordon("b:1", ROOT)
    assert (row.state, cordons(served)) == ("free", {})


def test_an_index_that_several_nodes_have_names_no_device(served: Served) -> None:
    with pytest.raises(Refused, match="name one of a:1, b:1"):
        served.service.device_cordons.cordon("1", "", ROOT)
    assert cordons(served) == {}


# Logs


def log_of(served: Served, node: str) -> None:
    """The node has a log of every rank, which says where it is."""

    def read_log(job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        text = f"job {job_id} rank {rank} on {node}".encode()
        end = offset + max_bytes
        return LogChunk(base64.b64encode(text[offset:end]).decode(), len(text))

    served.nodes[node].logs.read = read_log  # type: ignore[method-assign]


def test_each_members_log_is_read_on_its_own_node_also_after_the_end(served: Served) -> None:
    for node in ("a", "b"):
        log_of(served, node)
    gang = Submission(("true",), request=Request(devices=1, gang_size=2), workdir="/")
    job_id = served.submit(gang)
    assert [log.read(0) for log in served.service.logs(job_id, ALICE)] == [b"", b""], "nothing ran yet"
    served.running(job_id, on("b", 0), on("a", 0))
    logs = served.service.logs(job_id, ALICE)
    texts = [f"job {job_id} rank 0 on b".encode(), f"job {job_id} rank 1 on a".encode()]
    assert ([log.read(0) for log in logs], [log.has_ended() for log in logs]) == (texts, [False] * 2)
    served.do("cancel", job_id)
    until(lambda: served.phase_of(job_id) is Phase.CANCELLED)
    assert ([log.read(4) for log in logs], [log.has_ended() for log in logs]) == (
        [one[4:] for one in texts],
        [True] * 2,
    )


def test_a_log_is_read_by_its_user_and_by_who_sees_everything(served: Served) -> None:
    job_id = served.submit()
    for caller in (ALICE, ROOT, OVERSEER):
        assert len(served.service.logs(job_id, caller)) == 1
    with pytest.raises(Forbidden, match=f"may read the log of job {job_id}"):
        served.service.logs(job_id, BOB)


def test_an_array_has_no_log_of_its_own_and_an_element_of_it_is_named(served: Served) -> None:
    array = served.submit(ARRAY)
    with pytest.raises(NotFound, match=f"{array} is an array; name one of its elements, such as {array}_0"):
        served.service.logs(array, ALICE)


def test_why_a_job_failed_is_told_to_those_who_may_read_its_log(served: Served) -> None:
    text = base64.b64encode(b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB\n").decode()
    served.nodes["a"].logs.read = lambda job_id, rank, offset, max_bytes, mark: LogChunk(text, 77)  # type: ignore[method-assign]
    job_id = served.ended(served.submit(), on("a", 0), exit_code=1)
    diagnosis = served.service.explanations.with_log_end(job_id, ALICE).diagnosis
    assert diagnosis is not None
    assert "memory" in diagnosis
    assert served.service.explanations.with_log_end(job_id, BOB).diagnosis is None
