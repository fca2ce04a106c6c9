"""Records how waiting jobs spend their time: seconds by reason.

Jobs that are equal to the planner form a group (`group_of`) and wait for the same reason. So the reason in a plan is
recorded by group. A hold, a dependency or a pause concerns a single job and is recorded by job. The records are in
memory. The start of a job writes its account to the ledger.
"""

import itertools
from collections.abc import Iterable

from corral.core.model.jobs.job import Job
from corral.core.model.placing.plan import Group, WaitReason, group_of

Stretch = tuple[float, str]
"""A reason, and the moment (Unix seconds) from which it holds; "" is no reason."""

UNRECORDED = "Unrecorded"


class WaitBook:
    """Records the wait of each group of equal jobs, and of each parked job, under its current reason."""

    def __init__(self) -> None:
        self._groups: dict[Group, list[Stretch]] = {}
        self._noted: frozenset[Group] = frozenset()
        self._parked: dict[str, list[Stretch]] = {}
        self._again_since: dict[str, float] = {}

    def note(self, waits: Iterable[tuple[Job, WaitReason]], now: float, starting: Iterable[Job] = ()) -> None:
        """Record the reasons of a plan made at `now`. A group that two plans in a row do not name is deleted.

        Jobs that the plan is `starting` may go on waiting for their previous reason: for example, if their node does
        not answer.
        """
        reasons = {group_of(job): reason for job, reason in waits}
        for group, reason in reasons.items():
            _turn(self._groups.setdefault(group, []), now, reason.value)
        named = frozenset((*reasons, *map(group_of, starting)))
        for group in [group for group in self._groups if group not in named and group not in self._noted]:
            del self._groups[group]
        self._noted = named

    def park(self, job: Job, reason: WaitReason | None, now: float, until: float | None = None) -> None:
        """Record that the job is parked for `reason` from `now` on, until `until` if that time is known.

        With `reason` None the job is not parked any more.
        """
        if reason is None and job.id not in self._parked:
            return
        if reason is not None and not _at(self._parked.get(job.id, []), now):
            # The job may be the only one of its group. The record of the group is then deleted.
            self.carry_over(job, now)
        stretches = self._parked.setdefault(job.id, [])
        while stretches and stretches[-1][0] > now:
            stretches.pop()
        _turn(stretches, now, "" if reason is None else reason.value)
        if until is not None:
            _turn(stretches, until, "")

    def carry_over(self, job: Job, now: float) -> None:
        """Copy the wait so far to the job's own record. `job` is the job before it changes to another group."""
        alike, own = self._groups.get(group_of(job)), self._parked.get(job.id, [])
        if not alike:
            return
        carried: list[Stretch] = []
        for moment in sorted({at for at, _ in (*own, *alike) if at < now}):
            _turn(carried, moment, _at(own, moment) or _at(alike, moment))
        _turn(carried, now, _at(own, now))
        self._parked[job.id] = carried + [stretch for stretch in own if stretch[0] > now]

    def reopen(self, job_id: str, at: float) -> None:
        """Record that the job, which had been started, waits again from `at` on."""
        self._again_since[job_id] = at

    def close(self, job_id: str) -> None:
        """Delete the records of a job that waits no longer."""
        self._parked.pop(job_id, None)
        self._again_since.pop(job_id, None)

    def spent(self, job: Job, now: float) -> tuple[tuple[str, float], ...]:
        """Return (reason, seconds) pairs of a waiting job, in the order in which the reasons first occurred.

        The waits before earlier attempts are included; the run times of these attempts are not. Unrecorded time, for
        example while the server was down, is "Unrecorded" if it is a second or more.
        """
        since = min(now, self._again_since.get(job.id, max(job.submitted_at, job.ended_at or 0.0)))
        parked = self._parked.get(job.id, [])
        alike = self._groups.get(group_of(job), [])
        moments = sorted({since, now, *(at for at, _ in (*parked, *alike) if since < at < now)})
        spent = dict(job.waited)
        for start, end in itertools.pairwise(moments):
            reason = _at(parked, start) or _at(alike, start) or UNRECORDED
            spent[reason] = spent.get(reason, 0.0) + end - start
        return tuple((reason, seconds) for reason, seconds in spent.items() if reason != UNRECORDED or seconds >= 1.0)


def _turn(stretches: list[Stretch], now: float, reason: str) -> None:
    if not stretches or stretches[-1][1] != reason:
        stretches.append((now, reason))


def _at(stretches: list[Stretch], moment: float) -> str:
    """Return the reason at a moment, "" before the first."""
    reason = ""
    for since, word in stretches:
        if since > moment:
            break
        reason = word
    return reason
