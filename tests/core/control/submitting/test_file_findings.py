"""Files are looked at once for many submissions, with their caller's rights, and what was seen is soon forgotten."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.access.caller import Caller
from corral.core.control.submitting import file_findings as module
from corral.core.control.submitting.file_findings import TRUST_S, FileFindingsCache
from corral.core.model.devices.device import Silence
from corral.core.model.fact import SilenceObserved
from corral.core.model.jobs.job import JobKind, Request
from corral.core.model.jobs.submission import Submission
from corral.core.ports.host import Credentials, FileQuery
from tests.core.control.submitting.inspected_cluster import CountingNode, InspectedCluster

ALICE = Caller("alice", 1000, 1000, (1000, 44))
BOB = Caller("bob", 1001, 1001, (1001,))
JOB = Submission(("python", "-m", "train", "--lr", "1"), workdir="/", env={"PATH": "/usr/bin"})
WITHOUT_GPUS = replace(JOB, request=Request(devices=0))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(tmp_path: Path, clock: ManualClock) -> Iterator[InspectedCluster]:
    """One node."""
    with InspectedCluster(tmp_path, clock, "here") as cluster:
        yield cluster


@pytest.fixture
def node(cluster: InspectedCluster) -> CountingNode:
    return cluster.nodes["here"]


@pytest.fixture
def cache(cluster: InspectedCluster) -> FileFindingsCache:
    return cluster.cache


def test_what_was_seen_is_known_for_a_while_and_to_nobody_else(cache: FileFindingsCache, clock: ManualClock) -> None:
    assert cache.cached([JOB], ALICE) is None
    seen = cache.inspect([JOB], ALICE)
    assert cache.cached([JOB], ALICE) == seen
    assert cache.cached([JOB], BOB) is None
    assert cache.cached([replace(JOB, workdir="/tmp")], ALICE) is None
    clock.advance(TRUST_S)
    assert cache.cached([JOB], ALICE) is None


def test_an_inspection_has_the_rights_of_the_caller(cache: FileFindingsCache, node: CountingNode) -> None:
    cache.inspect([JOB], ALICE)
    assert {who for _, who in node.asked} == {Credentials(1000, 1000, (1000, 44), "alice")}


def test_commands_with_the_same_files_are_looked_at_once(
    cache: FileFindingsCache, node: CountingNode, clock: ManualClock
) -> None:
    sweep = [replace(JOB, command=("python", "-m", "train", str(n)), env={**JOB.env, "N": str(n)}) for n in range(50)]
    cache.inspect(sweep, ALICE)
    assert len(node.asked) == 3
    cache.inspect([replace(JOB, command=("python", "-m", "other"))], ALICE)
    assert len(node.asked) == 3
    clock.advance(TRUST_S)
    cache.inspect(sweep, ALICE)
    assert len(node.asked) == 6


def test_findings_are_trusted_from_the_time_of_the_inspection(cache: FileFindingsCache, clock: ManualClock) -> None:
    cache.inspect([JOB], ALICE)
    clock.advance(TRUST_S * 0.75)
    other = replace(JOB, command=("perl", "other.pl"))
    cache.inspect([other], ALICE)
    clock.advance(TRUST_S * 0.5)
    assert cache.cached([other], ALICE) is None


def test_a_job_without_gpus_has_only_its_directory_and_program_looked_at(
    cache: FileFindingsCache, node: CountingNode
) -> None:
    cache.inspect([WITHOUT_GPUS], ALICE)
    program = FileQuery(start="python", variables=(("PATH", "/usr/bin"),))
    assert [query for query, _ in node.asked] == [FileQuery(directory="/"), program]
    assert cache.cached([JOB], ALICE) is None


def test_a_reservation_has_nothing_looked_at(cache: FileFindingsCache, node: CountingNode) -> None:
    cache.inspect([Submission(kind=JobKind.RESERVE)], ALICE)
    assert node.asked == []


def test_who_makes_the_directory_that_was_missing_is_let_in_at_once(cache: FileFindingsCache, tmp_path: Path) -> None:
    job = replace(WITHOUT_GPUS, workdir=str(tmp_path / "run"))
    assert cache.inspect([job], ALICE)[0].unusable
    (tmp_path / "run").mkdir()
    assert not cache.inspect([job], ALICE)[0].unusable


def test_what_does_not_answer_is_not_known_and_not_asked_again_at_once(
    cache: FileFindingsCache, node: CountingNode
) -> None:
    node.finds_nothing = True
    for _ in range(3):
        (files,) = cache.inspect([JOB], ALICE)
        assert (files.nodes["here"].enterable, files.nodes["here"].detection) == (None, None)
    assert len(node.asked) == 3


def test_many_findings_are_not_remembered_for_ever(cache: FileFindingsCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    jobs = [replace(WITHOUT_GPUS, workdir=f"/{name}") for name in ("tmp", "usr", "etc")]
    assert [files.nodes["here"].enterable for files in cache.inspect(jobs, ALICE)] == [True, True, True]
    assert [cache.cached([job], ALICE) is not None for job in jobs] == [False, True, True]


@pytest.fixture
def five(tmp_path: Path, clock: ManualClock) -> Iterator[InspectedCluster]:
    """Five nodes of one GPU each."""
    with InspectedCluster(tmp_path, clock, "a", "b", "c", "d", "e") as cluster:
        yield cluster


def test_of_many_nodes_a_few_are_asked_once_each(five: InspectedCluster, clock: ManualClock) -> None:
    seen = five.cache.inspect([JOB], ALICE)
    assert list(seen[0].nodes) == ["a", "b", "c", "d"]
    assert [len(node.asked) for node in five.nodes.values()] == [3, 3, 3, 3, 0]
    assert five.cache.cached([JOB], ALICE) == seen
    five.cache.inspect([replace(JOB, command=("python", "-m", "other"))], ALICE)
    assert [len(node.asked) for node in five.nodes.values()] == [3, 3, 3, 3, 0]
    clock.advance(TRUST_S)
    assert five.cache.cached([JOB], ALICE) is None


def test_only_nodes_that_could_serve_the_job_are_asked(five: InspectedCluster) -> None:
    named = replace(JOB, request=Request(node="e"))
    labelled = replace(JOB, request=Request(labels=(("zone", "c"),)))
    impossible = replace(JOB, request=Request(devices=2))
    found = five.cache.inspect([named, labelled, impossible], ALICE)
    assert [list(files.nodes) for files in found] == [["e"], ["c"], []]
    assert [name for name, node in five.nodes.items() if node.asked] == ["c", "e"]


def test_a_node_that_is_silent_is_not_asked_and_one_that_is_free_is_asked_first(five: InspectedCluster) -> None:
    five.observe(SilenceObserved("a", Silence(1.0, "it has not answered since 10:00")))
    five.allocate("b")
    (files,) = five.cache.inspect([JOB], ALICE)
    assert list(files.nodes) == ["c", "d", "e", "b"]


def test_a_node_that_hangs_is_left_out_where_others_answer(five: InspectedCluster) -> None:
    five.nodes["b"].fall_silent()
    (files,) = five.cache.inspect([JOB], ALICE)
    assert list(files.nodes) == ["a", "c", "d"]


def test_a_submission_that_is_refused_anyway_has_no_file_looked_at(five: InspectedCluster) -> None:
    endless = replace(JOB, request=Request(devices=0, gang_size=10**9, one_node=True))
    (files,) = five.cache.inspect([endless], ALICE)
    assert files.nodes == {}
    assert not any(node.asked for node in five.nodes.values())


def test_the_file_that_an_interpreter_is_to_run_is_looked_at_and_a_copied_scripts_interpreter(
    cache: FileFindingsCache, node: CountingNode
) -> None:
    named = replace(WITHOUT_GPUS, command=("python", "-u", "train.py"))
    copied = replace(named, command=("/job",), script=True, script_text="#!/usr/bin/env python\n")
    other = replace(copied, script_text="#!/no/such/interpreter -x\n")
    found = [files.nodes["here"] for files in cache.inspect([named, copied, other], ALICE)]
    asked = [query for query, _ in node.asked]
    assert FileQuery(file="train.py") in asked
    assert FileQuery(start="/no/such/interpreter", variables=(("PATH", "/usr/bin"),)) in asked
    assert "/job" not in {query.start for query in asked}
    assert [one.script for one in found] == [False, True, True]
