"""The first log line of an attempt after a job's first: its number, and how the attempt before it ended."""

from collections.abc import Sequence

from corral.core.model.fact import JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.exit_code import exit_code_in_words
from corral.core.ports.ledger import JournalEntry, Ledger
from corral.core.scheduling.explaining.eviction_notices import goes_on

LONGEST_REASON = 300


def begins(ledger: Ledger, job: Job) -> tuple[str, ...]:
    """Return the line for a job that is STARTING, () for its first attempt."""
    if job.attempts == 0 or job.phase is not Phase.STARTING:
        return ()
    number, planned = job.attempts + 1, job.spec.retries + 1
    which = f"attempt {number} of {planned}" if number <= planned else f"attempt {number}"
    if job.evicted_before is not None:
        return (f"{which} begins; {goes_on(job, job.evicted_before)}",)
    ended = how_it_ended(ledger.journal(job_id=job.id))
    return (f"{which} begins" if ended is None else f"{which} begins; attempt {job.attempts} {ended}",)


def how_it_ended(journal: Sequence[JournalEntry]) -> str | None:
    """Return how the last attempt ended, from the facts about a job: "failed with exit code 1"."""
    for entry in reversed(journal):
        fact = entry.fact
        if not isinstance(fact, JobChanged):
            continue
        reason = fact.changes.get("reason")
        why = f": {reason[:LONGEST_REASON]}" if reason else ""
        match fact.changes.get("phase"):
            case Phase.FAILED:
                code = fact.changes.get("exit_code")
                if code is None:
                    return f"failed{why}"
                return f"failed with {exit_code_in_words(code, fact.changes.get('signal'), brief=True)}{why}"
            case Phase.LOST:
                return f"was lost{why}"
            case Phase.STOPPING if fact.changes.get("stop_reason") is Phase.PENDING:
                return f"was stopped{why}"
    return None
