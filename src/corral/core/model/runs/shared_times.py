"""How many packable jobs were together on a device: of past runs all at once, as a server finds them when it starts."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from corral.core.model.runs.run_history import PastRun


class Sharer(NamedTuple):
    """The allocation of a packable job that runs, its device, and since when it has it (Unix seconds)."""

    allocation_id: str
    uuid: str
    since: float


def with_sharing(runs: Sequence[PastRun], holders: Iterable[Sharer]) -> list[PastRun]:
    """The runs, each of a packable job with how many were together on its device. `holders` run now."""
    found = list(runs)
    on: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        if run.packed is not None:
            on.setdefault(run.packed.uuid, []).append(index)
    since: dict[str, list[float]] = {}
    for holder in holders:
        since.setdefault(holder.uuid, []).append(holder.since)
    for uuid, indices in on.items():
        spans = [(runs[index].created_at, runs[index].ended_at) for index in indices]
        last = max(end for _, end in spans)
        still_there = [(start, last) for start in since.get(uuid, ()) if start < last]
        for index, jobs in zip(indices, jobs_together([*spans, *still_there]), strict=False):
            packed = runs[index].packed
            assert packed is not None, "only such runs are counted"
            found[index] = runs[index]._replace(packed=packed._replace(together=jobs))
    return found


def beside_s(holder: Sharer, runs: Iterable[PastRun]) -> float:
    """The seconds that a packable job that runs has shared its device with runs that have ended, counted for each."""
    ends = (run for run in runs if run.packed is not None and run.packed.uuid == holder.uuid)
    return sum(max(0.0, run.ended_at - max(holder.since, run.created_at)) for run in ends)


def jobs_together(spans: Sequence[tuple[float, float]]) -> list[float]:
    """For each span (start and end, Unix seconds) of a job on one device: how many there were, on average over it."""
    events = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    at, jobs, job_s = 0.0, 0, 0.0
    until: dict[float, float] = {}
    for moment, change in events:
        job_s += jobs * (moment - at)
        at, jobs = moment, jobs + change
        until[moment] = job_s
    return [(until[end] - until[start]) / (end - start) if end > start else 1.0 for start, end in spans]
