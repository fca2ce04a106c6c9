"""What a soak claims of jobs and their pods can be seen not to hold."""

from typing import Any

import pytest

from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from tests.engines.kubernetes import manifests
from tests.engines.kubernetes.soak.claims import differences, ran_twice
from tests.engines.kubernetes.soak.record import Record


def of_others(name: str = "one", *, code: int | None = None, deleted: bool = False) -> dict[str, Any]:
    """A pod that Corral has bound; it has ended once it has an exit code."""
    pod = manifests.pod(name, "ml", gpus=1, node="a")
    marks = {"annotations": {"corral.dev/bound-for": "1.1"}, **({"deletionTimestamp": "now"} if deleted else {})}
    return pod | {"metadata": {**pod["metadata"], "uid": name, **marks}, "status": _status(code)}


def own(allocation: str, rank: int = 0, *, members: int = 1, code: int | None = None) -> dict[str, Any]:
    """A pod of Corral's that runs, or has ended."""
    pod = manifests.pod(f"{allocation}-{rank}", "ml", gpus=1, node="a")
    labels = {"corral.dev/server": "s", "corral.dev/allocation": allocation, "corral.dev/rank": str(rank)}
    notes = {"corral.dev/job": "1", "corral.dev/members": str(members)}
    marks = {"uid": f"{allocation}-{rank}", "labels": labels, "annotations": notes}
    return pod | {"metadata": {**pod["metadata"], **marks}, "status": _status(code)}


def _status(code: int | None) -> dict[str, Any]:
    phase = "Running" if code is None else "Failed" if code else "Succeeded"
    state = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
    return {"phase": phase, "containerStatuses": [{"state": state}]}


def told(*events: tuple[str, dict[str, Any]]) -> Record:
    record = Record()
    record.hear_of_node("ADDED", manifests.node("a", gpus=8))
    for kind, pod in events:
        record.hear_of_pod(kind, pod)
    return record


def job(phase: Phase, *pods: str, members: int = 1) -> Job:
    refs = tuple(PodRef("ml", name, name) for name in pods)
    spec = JobSpec("alice", ("true",), request=Request(gang_size=members), pods=refs)
    return Job("1", 1, spec, 0.0, phase=phase)


def wrong(record: Record, phase: Phase, *pods: str) -> bool:
    return bool(list(differences((job(phase, *pods),), record.pods)))


@pytest.mark.parametrize("phase", [Phase.LOST, Phase.CANCELLED, Phase.FAILED])
def test_a_job_whose_pod_ended_well_has_succeeded(phase: Phase) -> None:
    theirs = told(("MODIFIED", of_others()), ("MODIFIED", of_others(code=0)))
    ours = told(("MODIFIED", own("1.1")), ("MODIFIED", own("1.1", code=0)), ("DELETED", own("1.1", code=0)))
    assert not wrong(theirs, Phase.SUCCEEDED, "one")
    assert not wrong(ours, Phase.SUCCEEDED)
    assert wrong(theirs, phase, "one")
    assert wrong(ours, phase)


def test_of_a_pod_of_others_that_is_removed_at_once_the_end_may_be_unseen() -> None:
    gone = told(("MODIFIED", of_others(code=0)), ("DELETED", of_others(code=0)))
    assert not wrong(gone, Phase.CANCELLED, "one")
    assert wrong(gone, Phase.LOST, "one")
    vanished = told(("MODIFIED", of_others(code=0)))
    vanished.hear_of_node("DELETED", manifests.node("a", gpus=8))
    assert wrong(vanished, Phase.LOST, "one")
    vanished.hear_of_pod("DELETED", of_others(code=0))
    assert not wrong(vanished, Phase.LOST, "one")


def test_who_deletes_a_pod_of_others_cancels_its_job_though_it_ends_well() -> None:
    deleted = told(("MODIFIED", of_others(deleted=True)), ("MODIFIED", of_others(code=0, deleted=True)))
    assert not wrong(deleted, Phase.CANCELLED, "one")
    assert wrong(deleted, Phase.FAILED, "one")
    late = told(("MODIFIED", of_others(code=0)), ("MODIFIED", of_others(code=0, deleted=True)))
    assert wrong(late, Phase.CANCELLED, "one")


def test_no_job_is_lost_without_a_reason() -> None:
    failed = told(("MODIFIED", own("1.1", code=3)))
    assert not wrong(failed, Phase.FAILED)
    assert wrong(failed, Phase.LOST)
    failed.hear_of_node("DELETED", manifests.node("a", gpus=8))
    assert not wrong(failed, Phase.LOST)


def test_a_start_of_a_part_of_a_gang_does_not_count_unless_the_next_runs_beside_it() -> None:
    part, whole = own("1.1", members=2), [own("1.2", rank, members=2) for rank in (0, 1)]
    beside = told(("ADDED", part), *(("ADDED", one) for one in whole))
    assert list(ran_twice(beside.pods)) == ["1.2 of job 1 ran beside 1.1"]
    after = told(("ADDED", part), ("MODIFIED", own("1.1", members=2, code=143)), *(("ADDED", one) for one in whole))
    assert list(ran_twice(after.pods)) == []


def test_a_job_that_ran_whole_ran_once() -> None:
    seen = told(("ADDED", own("1.1")), ("MODIFIED", own("1.1", code=0)), ("ADDED", own("1.2")))
    assert list(ran_twice(seen.pods)) == ["job 1 ran 2 times"]
