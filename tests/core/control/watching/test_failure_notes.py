"""Who fails is told why, in the log and when asked, also after a restart; each attempt by its own words."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from corral.core.control.watching.failure_notes import FailureNotes
from corral.core.diagnosis.diagnose import diagnose
from corral.core.diagnosis.failure import Diagnosis, Failure
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import NodeUnreachable
from corral.core.model.fact import AllocationEnded, AllocationMade, Fact, JobChanged, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.ports.ledger import Decided
from corral.core.ports.node import LogChunk, NodeAgent
from corral.host.node.files.job_logs import JobLogs

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 24.00 GiB "
    "of which 1.10 GiB is free. Including non-PyTorch memory, this process has 22.90 GiB memory in use.\n"
)
TOLD = "out of GPU memory: tried 2.5G with 1.1G free of 24G; ask for --gpu-mem 28G or lower the batch size"
LOST_PEER = "RuntimeError: NCCL error in: a.cpp:1, remote process exited or there was a network error, NCCL version 2\n"


class Host:
    """Logs on a disk, as a node's agent reads and writes them; `reachable` is whether it answers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = JobLogs(directory)
        self.reachable = True

    @property
    def logs(self) -> "Host":
        return self

    def read(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        if not self.reachable:
            raise NodeUnreachable("the node did not answer within 2 s")
        return self.files.read(job_id, rank, offset, max_bytes, mark)

    def note(self, job_id: str, rank: int, line: str) -> None:
        self.files.note(job_id, rank, line)


class Site:
    """A ledger whose failures are noted on one host."""

    def __init__(self, ledger: SqlLedger, host: Host) -> None:
        self.ledger, self.host = ledger, host
        self.waiting: list[Callable[[], None]] = []
        self.notes = self.restarted()
        ledger.subscribe(self.notes.on_change)
        self.devices = (
            Device("GPU-1", 0, "NVIDIA A30", 24576, (8, 0)),
            Device("GPU-2", 1, "NVIDIA L40S", 46068, (8, 9)),
        )
        self.found(*self.devices)

    def found(self, *devices: Device) -> None:
        self.ledger.observe([NodeObserved(Node("here", devices, 8000, 32768))])
        # Behind it in the ledger's queue.
        self.write()

    def restarted(self) -> FailureNotes:
        agent = cast(NodeAgent, self.host)
        return FailureNotes(
            self.ledger,
            lambda job, rank: agent,
            later=self.waiting.append,
            on_node=lambda job, task: self.waiting.append(task),
        )

    def run(self, job_id: str, log: str, *more: str, spec: Any = None, patch: JobPatch | None = None) -> None:
        """Have a job run, write these logs (one of each member), and fail."""
        for rank, text in enumerate((log, *more)):
            with (self.host.directory / (f"{job_id}.{rank}.log" if rank else f"{job_id}.log")).open("a") as file:
                file.write(text)
        spec = spec or JobSpec("ann", ("python", "train.py"), request=Request(share_milli=500, gang_size=1 + len(more)))
        job = Job(job_id, int(job_id), spec, 0.0)
        members = tuple(Member("here", (Grant("GPU-1", 500, 12288),)) for _ in range(1 + len(more)))
        made = Allocation(f"{job_id}.1", job_id, "ann", Placement(members), 0.0)
        running: JobPatch = {"phase": Phase.RUNNING, "allocation_id": made.id, "launches": 1}
        if self.ledger.find_job(job_id) is None:
            self.write(JobSubmitted(at=0.0, by="ann", job=job))
        self.write(AllocationMade(at=1.0, by="x", allocation=made), self.changed(job_id, running))
        failed: JobPatch = {"phase": Phase.FAILED, "exit_code": 1, "attempts": 1, "ended_at": 2.0}
        ended = AllocationEnded(at=2.0, by="x", allocation_id=made.id, job_id=job_id)
        failed.update(patch or {})
        again: JobPatch = {"phase": Phase.PENDING, "allocation_id": None}
        tried_again = (self.changed(job_id, again),) if failed["attempts"] <= spec.retries else ()
        self.write(self.changed(job_id, failed), *tried_again, ended)

    def changed(self, job_id: str, patch: JobPatch) -> JobChanged:
        return JobChanged(at=2.0, by="x", job_id=job_id, changes=patch)

    def write(self, *facts: Fact) -> None:
        self.ledger.commit(lambda view: Decided(facts, None)).result()

    def work(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def log(self, job_id: str) -> list[str]:
        return (self.host.directory / f"{job_id}.log").read_text().splitlines()

    def why(self, job_id: str) -> str | None:
        job = self.ledger.find_job(job_id)
        assert job is not None
        found = self.restarted().of(job)
        return None if found is None else found.line

    def missing(self, job_id: str) -> int | None:
        job = self.ledger.find_job(job_id)
        assert job is not None
        return self.notes.missing_bytes(job)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    ledger = open_ledger(f"sqlite:///{tmp_path / 'corral.db'}")
    yield Site(ledger, Host(tmp_path))
    ledger.close()


def test_the_last_line_of_the_log_says_why_the_job_failed(site: Site) -> None:
    site.run("1", OOM)
    site.work()
    assert site.log("1")[-1] == f"corral: attempt 1 failed with exit code 1: {TOLD}"


def test_nothing_is_told_from_the_log_of_another_job_of_the_same_id(site: Site) -> None:
    site.run("1", OOM)
    (site.host.directory / "1.log.of").symlink_to("1 12345 7.5")
    assert site.why("1") is None
    assert site.missing("1") == 0


def test_a_server_that_has_just_started_tells_the_same(site: Site) -> None:
    site.run("1", OOM)
    site.work()
    assert site.why("1") == TOLD


def test_few_words_say_in_lists_of_jobs_that_memory_of_the_gpu_was_short(site: Site) -> None:
    site.run("1", OOM)
    job = site.ledger.find_job("1")
    assert job is not None
    assert site.notes.word(job) is None
    site.work()
    assert site.notes.word(job) == "out of GPU memory"
    assert site.notes.word(replace(job, attempts=job.attempts + 1)) is None
    assert site.notes.word(replace(job, phase=Phase.SUCCEEDED)) is None
    after_restart = site.restarted()
    after_restart.look_back()
    site.work()
    assert after_restart.word(job) == "out of GPU memory"


def test_more_memory_is_not_advised_where_no_gpu_of_the_site_has_it(site: Site) -> None:
    site.found(site.devices[0])
    site.run("1", OOM)
    assert site.why("1") == (
        "out of GPU memory: tried 2.5G with 1.1G free of 24G; no GPU here has more than 24G: "
        "split the model over several (--gpus), lower the precision, or lower the batch size"
    )
    site.found(site.devices[0], Device("GPU-2", 1, "of a size that the driver does not tell", None))
    assert site.why("1") == TOLD


def test_a_failure_that_nobody_understands_leaves_the_log_alone(site: Site) -> None:
    site.run("1", "KeyError: 'loss'\n")
    site.work()
    assert site.log("1") == ["KeyError: 'loss'"]
    assert site.why("1") is None


def test_a_job_that_is_tried_again_has_a_line_between_its_attempts(site: Site) -> None:
    retried = JobSpec("ann", ("python", "train.py"), retries=1)
    site.run("1", OOM, spec=retried)
    site.work()
    site.run("1", "epoch 1\n", spec=retried, patch={"attempts": 2})
    site.work()
    assert site.log("1")[-2:] == ["epoch 1", "corral: attempt 2 failed with exit code 1"]
    assert site.why("1") is None


def test_of_a_gang_the_member_is_named_that_failed_by_itself(site: Site) -> None:
    site.run("1", LOST_PEER, LOST_PEER, OOM)
    site.work()
    assert site.why("1") == f"rank 2: {TOLD}"
    assert site.log("1")[-1] == f"corral: attempt 1 failed with exit code 1: rank 2: {TOLD}"


def test_what_is_missing_in_the_logs_of_all_members_is_told(site: Site) -> None:
    cut = "corral: {} bytes of output are missing here (the log is limited to 9 bytes); what follows is its end\nx\n"
    site.run("1", "epoch 1\n")
    site.run("2", cut.format(30), "epoch 1\n", cut.format(4))
    assert [site.missing(job_id) for job_id in ("1", "2")] == [0, 34]
    site.host.reachable = False
    assert site.missing("2") is None


def test_a_node_that_does_not_answer_costs_the_diagnosis_alone(site: Site) -> None:
    site.run("1", OOM)
    site.host.reachable = False
    assert site.why("1") is None


@pytest.mark.parametrize(
    "error", [ValueError("9" * 5000), RecursionError(), MemoryError(), OverflowError(), KeyError("\udc80")]
)
def test_a_log_that_breaks_its_reader_is_said_to_be_unreadable_and_hides_no_others(
    site: Site, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(failure: Failure, log_end: bytes) -> Diagnosis | None:
        if b"hostile" in log_end:
            raise error
        return diagnose(failure, log_end)

    monkeypatch.setattr("corral.core.control.watching.failure_notes.diagnose", broken)
    site.run("1", "hostile\n")
    site.run("2", OOM)
    site.run("3", "hostile\n", OOM)
    site.work()
    assert f": the end of its log could not be read ({type(error).__name__}); " in site.log("1")[-1]
    assert (
        site.why("1")
        == f"the end of its log could not be read ({type(error).__name__}); look into it yourself: corral logs 1"
    )
    assert site.log("2")[-1].endswith(TOLD)
    assert "rank 1: out of GPU memory" in site.log("3")[-1]


def test_the_end_of_a_long_log_is_enough(site: Site) -> None:
    site.run("1", "epoch 3 loss 0.25\n" * 50_000 + OOM)
    assert site.why("1") == TOLD


def test_a_job_that_succeeded_is_not_looked_at(site: Site) -> None:
    site.run("1", OOM, patch={"phase": Phase.SUCCEEDED, "exit_code": 0})
    assert site.waiting == []
    assert site.why("1") is None
