"""All details of one job: its request and its devices, the state of its members, and each attempt."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from corral.clock import Clock
from corral.core.control.launching.attempts import Attempt
from corral.core.control.querying.listing_rows import grant_rows
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.lifecycle.past_attempts import attempts_of
from corral.core.model.answers.job_details import (
    AttemptRow,
    ExecutedCommand,
    GrantedDevice,
    JobDetail,
    MemberRow,
    WaitPart,
)
from corral.core.model.answers.jobs import JobRow
from corral.core.model.devices.numa import cpu_list, numa_binding
from corral.core.model.fact import CommandExecuted, Fact
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.output import output_files
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, GpuInfo
from corral.core.model.runs.attempt import MemberEnd, RecordedAttempt
from corral.core.model.runs.launch import LaunchPhase, LaunchReport, launch_id
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.ports.monitoring import JobMonitoring, MonitoredDevice, UseOfJob
from corral.core.scheduling.explaining.packed_words import packing_clause
from corral.core.scheduling.explaining.phrases import need_of
from corral.wire import to_plain

MOST_FACTS = 2_000
"""The number of the newest facts about a job that are read for its history."""

MOST_ATTEMPTS = 100
"""The number of the newest attempts in the answer."""

MOST_COMMANDS = 100
"""The number of the newest commands run inside it in the answer."""

LogPath = Callable[[str, str, int], str | None]
"""Returns the path of a log on its node. The arguments are the node's name, the job's id and the rank. None is unknown.
"""


class JobDetails:
    """Reads the ledger's facts of a job, and the state of its members."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        find: Callable[[str], Job],
        row: Callable[[Job], JobRow],
        waited: Callable[[Job], tuple[tuple[str, float], ...]],
        live: Callable[[str], Attempt | None],
        log_path: LogPath,
        monitoring: JobMonitoring,
        use: UseOfJob,
    ) -> None:
        """`find` raises NotFound; `row` is a job as `ps` lists it; `live` is the record of a live allocation."""
        self._ledger = ledger
        self._clock = clock
        self._find = find
        self._row = row
        self._waited = waited
        self._live = live
        self._log_path = log_path
        self._monitoring = monitoring
        self._use = use

    def of(self, job_id: str) -> JobDetail:
        """Return one job with all its details. Raises NotFound."""
        job = self._find(job_id)
        view, last = self._ledger.view(), self._ledger.last_allocation(job)
        facts = [entry.fact for entry in self._ledger.latest_entries(job.id, MOST_FACTS)]
        recorded = attempts_of(facts)
        held = None if job.phase is Phase.PENDING else last
        spec = to_plain(job.spec)
        # Every user may see this answer. An address for notifications is often as secret as a password.
        del spec["env"], spec["notify"]
        if spec["container"] is not None:
            # A pod template may contain environment variables, too.
            del spec["container"]["pod_template"]
        row = self._row(job)
        return in_wall_time(
            JobDetail(
                **{**{one.name: getattr(row, one.name) for one in fields(JobRow)}, **_held(held)},
                spec=spec,
                request=spec["request"],
                needs=need_of(job.spec.request),
                gpu_info=None if last is None else to_plain(last.gpu_info),
                waits_for=job.waits_for,
                waited=tuple(WaitPart(reason, seconds) for reason, seconds in self._waited(job)),
                grant=() if held is None else granted_devices(view, held),
                members=() if held is None else self._members(job, held, recorded, view),
                history=tuple(self._attempt(job, one) for one in recorded[-MOST_ATTEMPTS:]),
                gpu_monitoring=None if last is None else self._monitoring(job, last, monitored_devices(view, last)),
                commands=_commands(facts)[-MOST_COMMANDS:],
                use=self._use(job.id),
                saved_at=view.saved.get(job.allocation_id or ""),
                packing=packing_clause(view, job),
            ),
            self._clock,
        )

    def monitored(self, job_id: str) -> tuple[Job, Allocation | None, tuple[MonitoredDevice, ...]]:
        """Return a job, its last allocation, and the devices of that allocation. Raises NotFound."""
        job = self._find(job_id)
        last = self._ledger.last_allocation(job)
        return job, last, () if last is None else monitored_devices(self._ledger.view(), last)

    def _members(
        self, job: Job, allocation: Allocation, recorded: Sequence[RecordedAttempt], view: View
    ) -> tuple[MemberRow, ...]:
        members = allocation.placement.members
        runs = job.spec.kind is JobKind.RUN and not job.phase.terminal
        bound = [numa_binding(member, view.nodes.get(member.node)) if runs else None for member in members]
        stands = self._standing(job, allocation, recorded)
        files = output_files(job, [member.node for member in members])
        return tuple(
            MemberRow(
                rank=rank,
                node=member.node,
                devices=tuple(grant.uuid for grant in member.grants),
                phase=stands[rank].phase,
                exit_code=stands[rank].exit_code,
                signal=stands[rank].signal,
                log=self._log_path(member.node, job.id, rank),
                output=files[rank].output,
                error=files[rank].error,
                numa_nodes=() if numa is None else numa.nodes,
                numa_cpus="" if numa is None else cpu_list(numa.cpus),
            )
            for rank, (member, numa) in enumerate(zip(members, bound, strict=True))
        )

    def _standing(self, job: Job, allocation: Allocation, recorded: Sequence[RecordedAttempt]) -> tuple[MemberEnd, ...]:
        """Return the state or the end of each member, by rank."""
        count = len(allocation.placement.members)
        if count == 1:
            return (MemberEnd(job.phase, job.exit_code, job.signal),)
        if job.phase.terminal:
            ends = recorded[-1].members if recorded and recorded[-1].allocation.id == allocation.id else ()
            return ends if len(ends) == count else (MemberEnd(),) * count
        live = self._live(allocation.id)
        unknown = [LaunchReport(launch_id(allocation.id, rank), LaunchPhase.UNKNOWN) for rank in range(count)]
        reports = unknown if live is None else [live.report(rank) for rank in range(count)]
        return tuple(_stands(job, report) for report in reports)

    def _attempt(self, job: Job, one: RecordedAttempt) -> AttemptRow:
        nodes = tuple(dict.fromkeys(member.node for member in one.allocation.placement.members))
        node = nodes[0] if nodes else ""
        return AttemptRow(
            attempt=one.allocation.attempt,
            node=node,
            started_at=one.started_at,
            ended_at=one.ended_at,
            reason=one.reason,
            log=self._log_path(node, job.id, 0),
            ended_as=one.ended_as,
            exit_code=one.exit_code,
            signal=one.signal,
            allocated_at=one.allocation.created_at,
            nodes=nodes,
            devices=one.allocation.placement.uuids,
        )


def _commands(facts: Sequence[Fact]) -> tuple[ExecutedCommand, ...]:
    return tuple(
        ExecutedCommand(fact.at, fact.by, fact.command, fact.rank)
        for fact in facts
        if isinstance(fact, CommandExecuted)
    )


def _held(allocation: Allocation | None) -> dict[str, Any]:
    """Return the devices of an ended job, which its row leaves out."""
    if allocation is None:
        return {}
    return {"grants": grant_rows(allocation.placement.grants), "enforcement": allocation.enforcement}


def granted_devices(view: View, allocation: Allocation) -> tuple[GrantedDevice, ...]:
    """Return an allocation's part of each device, by rank."""
    known = {device.uuid: device for node in view.nodes.values() for device in node.devices}
    rows = []
    for rank, member in enumerate(allocation.placement.members):
        for position, grant in enumerate(member.grants):
            found = known.get(grant.uuid)
            index, name = _as_chosen(allocation, position) if found is None else (found.index, found.model)
            rows.append(
                GrantedDevice(
                    uuid=grant.uuid,
                    index=index,
                    node=member.node,
                    rank=rank,
                    share_milli=grant.share_milli,
                    memory_mib=grant.memory_mib,
                    name=name,
                    mig_profile=None if found is None else found.mig_profile,
                )
            )
    return tuple(rows)


def monitored_devices(view: View, allocation: Allocation) -> tuple[MonitoredDevice, ...]:
    """Return the devices of an allocation, each once. A device is labelled by its index, on several nodes by
    "NODE:INDEX".
    """
    memory_mib = {device.uuid: device.memory_mib for node in view.nodes.values() for device in node.devices}
    several = len({member.node for member in allocation.placement.members if member.grants}) > 1
    found: dict[str, MonitoredDevice] = {}
    for one in granted_devices(view, allocation):
        label = one.uuid if one.index is None else f"{one.node}:{one.index}" if several else str(one.index)
        if one.uuid not in found:
            # The index of a device that is gone may belong to another device now.
            taken = any(label == other.label for other in found.values())
            found[one.uuid] = MonitoredDevice(one.uuid if taken else label, one.name, memory_mib.get(one.uuid))
    return tuple(found.values())


def _as_chosen(allocation: Allocation, position: int) -> tuple[int | None, str | None]:
    """Return index and model of a device that is no longer known, as recorded when it was chosen. Both are None if they
    were not recorded.
    """
    info: GpuInfo | None = allocation.gpu_info
    # The record of a gang is not in the order of its ranks.
    if info is None or len(allocation.placement.members) > 1 or len(info.details) != len(allocation.placement.grants):
        return None, None
    return info.details[position].index, info.details[position].name


def _stands(job: Job, report: LaunchReport) -> MemberEnd:
    """Return the state of a member of a live gang, from its node's report."""
    match report.phase:
        case LaunchPhase.EXITED:
            return MemberEnd(report.ending or Phase.FAILED, report.exit_code, report.signal)
        case LaunchPhase.DEAD | LaunchPhase.DECLARED_LOST:
            return MemberEnd(Phase.LOST)
        case _ if job.phase is Phase.STOPPING:
            return MemberEnd(Phase.STOPPING)
        case LaunchPhase.RUNNING:
            return MemberEnd(Phase.RUNNING)
    return MemberEnd(Phase.STARTING)
