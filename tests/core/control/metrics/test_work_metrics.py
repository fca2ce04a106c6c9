from dataclasses import replace

from corral.core.control.metrics.exposition import text_of
from corral.core.control.metrics.work_metrics import job_metrics, node_metrics
from corral.core.model.devices.device import Device, Node, NodeCordon, Silence
from corral.core.model.fact import NodeObserved, SilenceObserved
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.queues.queue import Queue
from corral.core.model.view import View
from tests.core.control.metrics.reading import Rows, named, rows_of

NOW = 1000.0


def job(number: int, phase: Phase = Phase.PENDING, **changes: object) -> Job:
    spec = JobSpec(user='al"ice\n', command=("true",), request=Request(), project="p", queue="default")
    return replace(Job(str(number), number, spec, submitted_at=NOW - 100 * number, phase=phase), **changes)  # type: ignore[arg-type]


def view_of(*jobs: Job, placed: dict[str, tuple[str, ...]] | None = None) -> View:
    allocations = {
        f"{job_id}.1": Allocation(
            f"{job_id}.1",
            job_id,
            "alice",
            Placement((Member("n", tuple(Grant(uuid, 1000) for uuid in uuids)),)),
            NOW,
        )
        for job_id, uuids in (placed or {}).items()
    }
    queues = {name: Queue(name) for name in ("default", "night")}
    return View(jobs={each.id: each for each in jobs}, allocations=allocations, queues=queues)


def read(view: View) -> Rows:
    return rows_of(text_of(job_metrics(view, NOW)))


def test_jobs_are_counted_by_phase_and_queue_also_where_there_are_none() -> None:
    rows = named(read(view_of(job(1), job(2), job(3, Phase.RUNNING))), "corral_jobs")
    assert sum(value for _, value in rows) == 3
    assert ({"phase": "PENDING", "queue": "default"}, 2.0) in rows
    assert ({"phase": "STOPPING", "queue": "night"}, 0.0) in rows


def test_a_job_that_runs_is_told_with_each_of_its_devices_once_and_no_other_is() -> None:
    jobs = (job(1, Phase.RUNNING), job(2, Phase.STARTING), job(3, Phase.RUNNING))
    placed: dict[str, tuple[str, ...]] = {"1": ("GPU-a", "GPU-b", "GPU-a"), "2": ("GPU-c",), "3": ()}
    rows = named(read(view_of(*jobs, placed=placed)), "corral_job_info")
    told = [(labels["job"], labels.get("UUID")) for labels, _ in rows]
    assert sorted(told, key=str) == [("1", "GPU-a"), ("1", "GPU-b"), ("3", None)]
    assert rows[0][0]["user"] == 'al"ice\n'


def test_the_longest_wait_is_of_jobs_that_could_start_and_counts_from_when_they_could() -> None:
    could = job(2), job(3, eligible_at=NOW - 250.0)
    could_not = job(5, held=True), job(6, eligible_at=NOW + 5), job(7, waits_for=("1",)), job(8, Phase.RUNNING)
    rows = named(read(view_of(*could, *could_not)), "corral_queue_longest_wait_seconds")
    assert rows == [({"queue": "default"}, 250.0), ({"queue": "night"}, 0.0)]


def test_nodes_are_counted_by_state_and_each_has_its_own_also_one_that_never_came() -> None:
    nodes = [NodeObserved(Node(name, (Device(f"GPU-{name}", 0, "A", 1),), 1, 1)) for name in ("a", "b")]
    view = View().advance([*nodes, SilenceObserved("b", Silence(0.0, "quiet", gone=True))])
    view = replace(view, node_cordons={"a": NodeCordon("", "root", 0.0)})
    rows = rows_of(text_of(node_metrics(view, ["c"], {"": "full", "a": "full"})))
    assert ({"state": "gone"}, 1.0) in named(rows, "corral_nodes")
    assert ({"state": "silent"}, 0.0) in named(rows, "corral_nodes")
    states = {labels["node"]: labels["state"] for labels, _ in named(rows, "corral_node_state")}
    assert states == {"a": "cordoned", "b": "gone", "c": "ready"}
    assert named(rows, "corral_starts_blocked") == [({"disk": "ledger"}, 1.0), ({"disk": "node", "node": "a"}, 1.0)]
