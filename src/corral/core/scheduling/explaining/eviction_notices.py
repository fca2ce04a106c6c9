"""Sentences about evictions: for the log of the evicted job, for the job it makes room for, and for `why`."""

from collections.abc import Sequence

from corral.core.lifecycle.input import spent
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import Eviction, EvictionRule
from corral.core.model.placing.plan import Evict
from corral.core.model.units import count_of, format_duration
from corral.core.model.view import View
from corral.core.scheduling.explaining.phrases import job_called, jobs_called

_RULES = {
    EvictionRule.PRIORITY: "which is less urgent",
    EvictionRule.QUEUE_RECLAIM: "which uses GPUs on loan from its queue",
    EvictionRule.POOL_RECLAIM: "which uses GPUs on loan from its pool",
    EvictionRule.TIME_SLICE: "which has had its turn",
    EvictionRule.FASTER_GPUS: "which moves to faster GPUs",
    EvictionRule.MOVE: "which moves to another place",
}


def stopped_for(view: View, job: Job) -> list[Job]:
    """The jobs that are being stopped to make room for this one, in the order in which they were asked."""
    notices = [
        (one.evicted.at, one.sequence, one)
        for one in view.jobs.values()
        if one.phase is Phase.STOPPING and one.evicted is not None and one.evicted.for_job_id == job.id
    ]
    return [one for _, _, one in sorted(notices, key=lambda each: each[:2])]


def room_is_made(stopping: Sequence[Job], now: float) -> str:
    """A clause that the job starts when these jobs, which are being stopped for it, have stopped."""
    first = stopping[0]
    assert first.evicted is not None, "it is being stopped for another"
    asked = format_duration(max(0.0, now - first.evicted.at))
    saves = f", with {format_duration(first.spec.checkpoint_grace_s)} to save its work" if first.evicted.saves else ""
    have = "has" if len(stopping) == 1 else "have"
    ids = jobs_called([one.id for one in stopping])
    return f"it starts when {ids} {have} been stopped for it (asked {asked} ago{saves})"


def room_to_make(view: View, evictions: Sequence[Evict]) -> str:
    """A clause on the job to stop first, and why: "when sweep (job 7) has been stopped for it, which ..."."""
    first, *more = evictions
    who = job_called(view.jobs[first.job_id]) if first.job_id in view.jobs else f"job {first.job_id}"
    also = f", and {count_of(len(more), 'more job')}" if more else ""
    return f"when {who} has been stopped for it, {_RULES.get(first.rule, 'to make room')}{also}"


def eviction_notice(job: Job, eviction: Eviction) -> str:
    """The line for the job's log and the server's log when the job is told to stop."""
    if eviction.rule is EvictionRule.FAULT:
        return f"stopped: {eviction.reason}; {_saving(job, eviction)}{spent(job) or 'it goes on elsewhere'}"
    back = spent(job) or "it goes back to its place in the queue"
    return f"{_taken(eviction)}: {eviction.reason}; {_saving(job, eviction)}{back}"


def _saving(job: Job, eviction: Eviction) -> str:
    word = job.spec.checkpoint_signal
    if not eviction.saves or word is None:
        return ""
    grace = format_duration(job.spec.checkpoint_grace_s)
    return f"it gets SIG{CheckpointSignal.parse(word).name} and has {grace} to save its work; "


def goes_on(job: Job, eviction: Eviction) -> str:
    """A clause for the job's log and the server's: the attempt follows an eviction, with what the eviction cost."""
    return f"it goes on after it was {_taken(eviction)}{_loss(job, eviction)}"


def eviction_sentence(job: Job, eviction: Eviction, now: float) -> str:
    """A sentence that says when and why the job was last evicted, and how much work it lost."""
    ago = format_duration(max(0.0, now - eviction.at))
    fault = eviction.rule is EvictionRule.FAULT
    count, what = (job.site_faults, "left sick GPUs") if fault else (job.evictions, "made room")
    times = "" if count < 2 else f" It has {what} {count} times, and lost {format_duration(job.lost_s)} in all."
    return f"It was {_taken(eviction)} {ago} ago: {eviction.reason}{_loss(job, eviction)}.{times}"


def _taken(eviction: Eviction) -> str:
    """The kind of eviction, and the job that it made room for: "preempted for job 9"."""
    if eviction.rule is EvictionRule.FAULT:
        return "taken off a sick GPU"
    whom = "" if eviction.for_job_id is None else f" for job {eviction.for_job_id}"
    return f"{'reclaimed' if eviction.rule.reclaims else 'preempted'}{whom}"


def _loss(job: Job, eviction: Eviction) -> str:
    if eviction.ran_s is None:
        return ""
    if eviction.saves:
        return f"; it had run for {format_duration(eviction.ran_s)}, and was signalled first to save its work"
    ran = format_duration(eviction.ran_s)
    if eviction.lost_s is not None and eviction.lost_s < eviction.ran_s:
        # The directory is looked at now and then: a later checkpoint may be there.
        return f"; it had run for {ran}, and at most the last {format_duration(eviction.lost_s)} are lost"
    # A job that saves its work may have done so since.
    most = "" if job.spec.checkpoint_signal is None else "at most "
    return f"; {most}the {ran} that it had run are lost"
