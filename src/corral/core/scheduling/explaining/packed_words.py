"""Says with how many others of its program a packable job shares a GPU, and why with no more."""

from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.packing import LEAST_PEAKS, LEAST_RUNS, PackLimit
from corral.core.model.view import View
from corral.core.scheduling.state.packed_request import limit_of, memory_of


def packing_clause(view: View, job: Job) -> str | None:
    """A clause on the packing of a job that has not ended; None if it is not packable."""
    if not job.spec.packable or job.phase.terminal:
        return None
    allocation = view.allocations.get(job.allocation_id or "")
    if job.phase is Phase.PENDING or allocation is None:
        return _before_its_start(view, job)
    together = {uuid: len(view.holders.get(uuid, ())) for uuid in allocation.placement.uuids}
    beside = sum(together.values()) - len(together)
    if beside == 0:
        return "it is packable, and has its GPU alone now"
    return f"it shares its GPU with {beside} more {'job' if beside == 1 else 'jobs'} of its program now"


def _before_its_start(view: View, job: Job) -> str:
    most, allowed = view.limits.pack_jobs, view.limits.pack_slowdown
    if most < 2:
        return "it gets a GPU alone, because this site packs no jobs (pack_jobs: 1)"
    limit = limit_of(view, job)
    if memory_of(view, job) is None:
        return (
            "it gets a GPU alone, because its GPU memory is not known: add --gpu-mem, or let "
            f"{LEAST_PEAKS} such jobs run for a minute"
        )
    if limit.compares:
        return (
            f"it gets a GPU alone: {LEAST_RUNS} jobs of its program run alone now, to be compared with those that "
            "shared a GPU"
        )
    alone = "it gets a GPU alone" if limit.jobs < 2 else f"up to {limit.jobs} jobs of its program share a GPU"
    return f"{alone}{_measured(limit, allowed)}"


def _measured(limit: PackLimit, allowed: float) -> str:
    if limit.will_compare:
        return f"; once {LEAST_RUNS} have, {LEAST_RUNS} run alone, to be compared with them"
    if limit.slowdown is None:
        return ""
    words = f": {limit.together} or more together took {limit.slowdown:.2f} times as long as one alone"
    return f"{words}, and this site allows {allowed:g}" if limit.too_slow else words
