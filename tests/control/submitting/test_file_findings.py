"""Files are looked at once for many submissions, with their caller's rights, and what was seen is soon forgotten."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from corral.access.caller import Caller
from corral.clock import ManualClock
from corral.control.submitting import file_findings as module
from corral.control.submitting.file_findings import TRUST_S, FileFindingsCache
from corral.model.job import JobKind, Request
from corral.model.submission import Submission
from corral.node.file_inspector import InProcessFileInspector
from corral.ports.host import Credentials, FileQuery
from corral.preflight.file_facts import FileFacts

ALICE = Caller("alice", 1000, 1000, (1000, 44))
BOB = Caller("bob", 1001, 1001, (1001,))
JOB = Submission(("python", "train.py", "--lr", "1"), workdir="/", env={"PATH": "/usr/bin"})
WITHOUT_GPUS = replace(JOB, request=Request(devices=0))


class CountingInspector(InProcessFileInspector):
    """Every query that was asked, and as whom."""

    def __init__(self) -> None:
        self.asked: list[tuple[FileQuery, Credentials | None]] = []

    def inspect(self, queries: Sequence[FileQuery], who: Credentials | None) -> dict[FileQuery, FileFacts]:
        self.asked += [(query, who) for query in queries]
        return super().inspect(queries, who)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def inspector() -> CountingInspector:
    return CountingInspector()


@pytest.fixture
def cache(inspector: CountingInspector, clock: ManualClock) -> FileFindingsCache:
    return FileFindingsCache(inspector, clock)


def test_what_was_seen_is_known_for_a_while_and_to_nobody_else(cache: FileFindingsCache, clock: ManualClock) -> None:
    assert cache.cached([JOB], ALICE) is None
    seen = cache.inspect([JOB], ALICE)
    assert cache.cached([JOB], ALICE) == seen
    assert cache.cached([JOB], BOB) is None
    assert cache.cached([replace(JOB, workdir="/tmp")], ALICE) is None
    clock.advance(TRUST_S)
    assert cache.cached([JOB], ALICE) is None


def test_an_inspection_has_the_rights_of_the_caller(cache: FileFindingsCache, inspector: CountingInspector) -> None:
    cache.inspect([JOB], ALICE)
    assert {who for _, who in inspector.asked} == {Credentials(1000, 1000, (1000, 44))}


def test_commands_with_the_same_files_are_looked_at_once(
    cache: FileFindingsCache, inspector: CountingInspector, clock: ManualClock
) -> None:
    sweep = [replace(JOB, command=("python", "train.py", str(n)), env={**JOB.env, "N": str(n)}) for n in range(50)]
    cache.inspect(sweep, ALICE)
    assert len(inspector.asked) == 2
    cache.inspect([replace(JOB, command=("python", "other.py"))], ALICE)
    assert len(inspector.asked) == 2
    clock.advance(TRUST_S)
    cache.inspect(sweep, ALICE)
    assert len(inspector.asked) == 4


def test_findings_are_trusted_from_the_time_of_the_inspection(cache: FileFindingsCache, clock: ManualClock) -> None:
    cache.inspect([JOB], ALICE)
    clock.advance(TRUST_S * 0.75)
    other = replace(JOB, command=("perl", "other.pl"))
    cache.inspect([other], ALICE)
    clock.advance(TRUST_S * 0.5)
    assert cache.cached([other], ALICE) is None


def test_a_job_without_gpus_has_only_its_directory_looked_at(
    cache: FileFindingsCache, inspector: CountingInspector
) -> None:
    cache.inspect([WITHOUT_GPUS], ALICE)
    assert inspector.asked == [(FileQuery(directory="/"), Credentials(1000, 1000, (1000, 44)))]
    assert cache.cached([JOB], ALICE) is None


def test_a_reservation_has_nothing_looked_at(cache: FileFindingsCache, inspector: CountingInspector) -> None:
    cache.inspect([Submission(kind=JobKind.RESERVE)], ALICE)
    assert inspector.asked == []


def test_who_makes_the_directory_that_was_missing_is_let_in_at_once(cache: FileFindingsCache, tmp_path: Path) -> None:
    job = replace(WITHOUT_GPUS, workdir=str(tmp_path / "run"))
    assert cache.inspect([job], ALICE)[0].enterable is False
    (tmp_path / "run").mkdir()
    assert cache.inspect([job], ALICE)[0].enterable is True


def test_what_does_not_answer_is_not_known_and_not_asked_again_at_once(clock: ManualClock) -> None:
    class Silence(CountingInspector):
        def inspect(self, queries: Sequence[FileQuery], who: Credentials | None) -> dict[FileQuery, FileFacts]:
            super().inspect(queries, who)
            return {}

    silent = Silence()
    cache = FileFindingsCache(silent, clock)
    for _ in range(3):
        (files,) = cache.inspect([JOB], ALICE)
        assert (files.enterable, files.detection) == (None, None)
    assert len(silent.asked) == 2


def test_many_findings_are_not_remembered_for_ever(cache: FileFindingsCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    jobs = [replace(WITHOUT_GPUS, workdir=f"/{name}") for name in ("tmp", "usr", "etc")]
    assert [files.enterable for files in cache.inspect(jobs, ALICE)] == [True, True, True]
    assert [cache.cached([job], ALICE) is not None for job in jobs] == [False, True, True]
