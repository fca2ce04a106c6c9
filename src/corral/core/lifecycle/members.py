"""Combines the reports of a gang's members: into one report for the job, and the members to stop.

A gang runs while all of its members run. Once a member has failed it cannot go on, so the others are stopped. The job
ends when the last member has ended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from corral.core.model.devices.device import Node
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Member, Placement
from corral.core.model.runs.attempt import MemberEnd
from corral.core.model.runs.launch import LaunchPhase, LaunchReport

_BEGUN = frozenset({LaunchPhase.RUNNING, LaunchPhase.DEAD})


@dataclass(frozen=True, slots=True)
class Gang:
    """The state of a gang.

    Attributes:
        report: its members' reports combined, as if it were one launch.
        to_stop: ranks that must be stopped, and kept from starting, because the gang cannot go on.
    """

    report: LaunchReport
    to_stop: tuple[int, ...] = ()


def ranked(placement: Placement, nodes: Iterable[Node]) -> Placement:
    """Return the placement with its members in order of rank: by node name, then by the index of the devices."""
    if len(placement.members) == 1:
        return placement
    names = {member.node for member in placement.members}
    index_of = {device.uuid: device.index for node in nodes if node.name in names for device in node.devices}

    def place(member: Member) -> tuple[str, list[int]]:
        return member.node, sorted(index_of.get(grant.uuid, -1) for grant in member.grants)

    return Placement(tuple(sorted(placement.members, key=place)))


def fold(reports: Sequence[LaunchReport], nodes: Sequence[str], *, script: bool = False) -> Gang:
    """Combine the reports of all members, ordered by rank. `nodes` are those of the members.

    The report of a member whose node is gone is DEAD, with the reason. The job's exit code is that of the member that
    failed first, by the time of its end and then by rank. A member that could not be launched fails the launch of all.
    A `script` runs at rank 0 only: its end is the job's.
    """
    first, *_ = reports
    if len(reports) == 1:
        return Gang(first)
    begun = [one.started_at for one in reports if one.started_at is not None]
    whole = LaunchReport(first.launch_id, _phase(reports), started_at=max(begun, default=None))
    if all(one.phase.over for one in reports):
        ended = [one.ended_at for one in reports if one.ended_at is not None]
        outcome = _outcome(reports, nodes, script)
        return Gang(
            replace(
                outcome,
                launch_id=whole.launch_id,
                started_at=whole.started_at,
                ended_at=max(ended, default=None),
                age_s=None,
            )
        )
    ages = [one.age_s for one in reports if one.age_s is not None]
    reasons = [one.reason for one in reports if one.reason is not None and not one.phase.over]
    whole = replace(whole, age_s=max(ages, default=None), reason=next(iter(reasons), None))
    cannot_go_on = any(one.phase.over and not _is_well(one) for one in reports)
    if cannot_go_on or (script and first.phase.over):
        return Gang(whole, tuple(rank for rank, one in enumerate(reports) if not one.phase.over))
    return Gang(whole)


def ends_of(reports: Sequence[LaunchReport]) -> tuple[MemberEnd, ...]:
    """Return the end of each member of a gang, by rank; () for a single launch, whose end is the job's."""
    return () if len(reports) == 1 else tuple(map(_end_of, reports))


def _end_of(report: LaunchReport) -> MemberEnd:
    if report.phase is LaunchPhase.EXITED:
        return MemberEnd(report.ending or Phase.FAILED, report.exit_code, report.signal)
    return MemberEnd(Phase.LOST if report.phase is LaunchPhase.DEAD else None)


def _is_well(report: LaunchReport) -> bool:
    return report.phase is LaunchPhase.EXITED and report.ending is Phase.SUCCEEDED


def _has_begun(report: LaunchReport) -> bool:
    return report.phase in _BEGUN or (report.phase is LaunchPhase.EXITED and report.started_at is not None)


def _phase(reports: Sequence[LaunchReport]) -> LaunchPhase:
    """Return the phase of a gang that has not ended."""
    phases = {one.phase for one in reports}
    if all(_has_begun(one) for one in reports):
        return LaunchPhase.RUNNING
    if phases - {LaunchPhase.UNKNOWN, LaunchPhase.PREPARING}:
        return LaunchPhase.CLAIMED
    return LaunchPhase.PREPARING if LaunchPhase.PREPARING in phases else LaunchPhase.UNKNOWN


def _outcome(reports: Sequence[LaunchReport], nodes: Sequence[str], script: bool) -> LaunchReport:
    """Return the report that says how the gang ended, once all of its members have ended."""
    leader = reports[0]
    if script and leader.phase is LaunchPhase.EXITED and leader.ending is not Phase.CANCELLED:
        return leader
    by_end = sorted(enumerate(reports), key=lambda one: (one[1].ended_at is None, one[1].ended_at or 0.0, one[0]))
    not_launched = [(rank, one) for rank, one in by_end if one.phase is LaunchPhase.DECLARED_LOST]
    for rank, one in not_launched:
        if one.reason is not None:
            return replace(one, reason=f"rank {rank} on {nodes[rank]}: {one.reason}")
    for rank, one in by_end:
        if one.phase is LaunchPhase.EXITED and one.ending not in (Phase.SUCCEEDED, Phase.CANCELLED):
            return one if one.ending is Phase.TIMED_OUT else replace(one, reason=_failure(one, rank, nodes[rank]))
    for rank, one in by_end:
        if one.phase is LaunchPhase.DEAD:
            why = one.reason or "its supervisor died and left no record of how it ended"
            return replace(one, reason=f"rank {rank} on {nodes[rank]}: {why}")
    if not_launched:
        return not_launched[0][1]
    stopped = [one for _, one in by_end if not _is_well(one)]
    return stopped[0] if stopped else leader


def _failure(report: LaunchReport, rank: int, node: str) -> str:
    who = f"rank {rank} on {node}"
    if report.signal is not None:
        what = f"{who} was ended by signal {report.signal}"
    elif report.exit_code is not None:
        what = f"{who} exited with {report.exit_code}"
    else:
        what = f"{who} could not be started"
    return f"{what}: {report.reason}" if report.reason else what
