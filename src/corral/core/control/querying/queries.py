"""Answers queries: listings and forecasts. Nothing here changes anything."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from corral.clock import Clock
from corral.core.control.changing.named_jobs import named_jobs, no_such_job, several_jobs
from corral.core.control.querying.listing_rows import device_rows, grant_rows, job_row
from corral.core.control.querying.outlooks import Outlooks
from corral.core.control.querying.predictions import Predictions, offer
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.control.submitting.device_request import RequestRules
from corral.core.control.submitting.new_jobs import called, completed, still_to_follow
from corral.core.control.submitting.site_rules import LeastUse, obey
from corral.core.control.submitting.submission_checks import check
from corral.core.control.submitting.sweeps import first_of
from corral.core.lifecycle.following import follows_no_more
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.dry_run import DeviceChoice, DryRun, NearestRequest
from corral.core.model.answers.jobs import JobRow
from corral.core.model.answers.site import ServerInfo
from corral.core.model.devices.means import Means
from corral.core.model.errors import NotFound, Refused
from corral.core.model.jobs.array_indices import named_elements
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.job_sort import sorted_rows
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.allocation import Allocation
from corral.core.model.placing.plan import Plan, WaitReason
from corral.core.model.view import View
from corral.core.ports.ledger import HeldBy, JobQuery, Ledger
from corral.core.ports.telemetry import Samples
from corral.core.scheduling.explaining.submission_forecast import as_last, forecast_submission
from corral.core.scheduling.explaining.why import WaitIndex, wait_reason
from corral.core.scheduling.forecast import Foresight, MakePlanner
from corral.core.scheduling.planner import Planner


class Decisions(Protocol):
    """The part of the controller that answers need."""

    @property
    def plan(self) -> Plan:
        """The last plan."""
        ...

    @property
    def obstacle(self) -> str | None:
        """The reason why nothing can start now although devices may be free, None while something can start."""
        ...

    def waited(self, job: Job) -> tuple[tuple[str, float], ...]:
        """Return how a job has spent its waiting time so far: (reason, seconds) pairs."""
        ...


class Queries:
    """Reads the ledger, the last plan and telemetry."""

    def __init__(
        self,
        ledger: Ledger,
        decisions: Decisions,
        telemetry: Samples,
        clock: Clock,
        *,
        asking: RequestRules,
        outlooks: Outlooks,
        predictions: Predictions,
        planner: MakePlanner = Planner,
        about: Callable[[], ServerInfo],
        trouble: Callable[[str], str | None],
        failed_as: Callable[[Job], str | None],
        via: Callable[[str], str | None] = lambda node: None,
    ) -> None:
        """`trouble` returns why the next step of an allocation's launch fails. `failed_as` returns in few words why a
        job failed. `via` tells how a node is reached.
        """
        self._via = via
        self._ledger = ledger
        self._decisions = decisions
        self._telemetry = telemetry
        self._clock = clock
        self._about = about
        self._trouble = trouble
        self._failed_as = failed_as
        self._asking = asking
        self._planner = planner
        self._outlooks = outlooks
        self._predictions = predictions
        self._index: tuple[Plan, WaitIndex] | None = None

    def find(self, job_id: str) -> Job:
        """Return a job in any phase. Raises NotFound."""
        job = self._ledger.view().jobs.get(job_id) or self._ledger.find_job(job_id)
        if job is not None:
            return job
        found = self.named(job_id)
        if not found:
            raise no_such_job(job_id, self._ledger.find_array(job_id.partition("_")[0]))
        if len(found) > 1 or found[0].array_id == job_id:
            raise several_jobs(job_id, found)
        return found[0]

    def named(self, job_id: str) -> tuple[Job, ...]:
        """Return the job, or the elements of the array, with this id; () if there are none."""
        return named_jobs(self._ledger, (job_id,))[job_id]

    def jobs(
        self, query: JobQuery, *, active_only: bool, starts: bool = False, means: Means | None = None
    ) -> tuple[list[JobRow], int | None]:
        """Return a page of jobs, newest first, and the sequence number below which the next page begins (None after the
        last).

        With `starts`, the planner runs ahead to predict when waiting jobs will start. `means` selects jobs whose
        devices are, or were at last, shared by these means.
        """
        since = None if query.since is None else self._clock.taken(query.since)
        held = None if means is None else _held_by(self._ledger.view(), means)
        query = replace(query, since=since, now=self._clock.now(), held=held)
        foresight = self._foresight() if starts else None
        if active_only:
            found, rows = self._active(query, foresight)
        else:
            found = self._ledger.jobs(query)
            rows = self._rows(found, foresight)
        more = query.limit is not None and len(found) == query.limit and query.sort is None
        return in_wall_time(rows, self._clock), found[-1].sequence if more else None

    def _foresight(self) -> Foresight:
        with self._outlooks.current() as outlook:
            return outlook.foresight

    def _active(self, query: JobQuery, foresight: Foresight | None) -> tuple[Sequence[Job], list[JobRow]]:
        """Return the jobs that match the query and have not ended, and their rows."""
        view = self._ledger.view()
        matching = [job for job in view.jobs.values() if not job.phase.terminal and query.has(job)]
        if query.held is not None:
            holding = _holding(view, query.held)
            matching = [job for job in matching if job.id in holding]
        if query.sort is None:
            newest = sorted(matching, key=lambda job: -job.sequence)[: query.limit]
            return newest, self._rows(newest, foresight)
        return matching, sorted_rows(self._rows(matching, foresight), query.sort, query.now)[: query.limit]

    def _rows(self, jobs: Sequence[Job], foresight: Foresight | None = None) -> list[JobRow]:
        """Return the rows of jobs; ended jobs get their last allocation."""
        had = self._ledger.last_allocations([job.id for job in jobs if job.phase.terminal and job.launches])
        return [
            self._ended_row(job, had.get(job.id)) if job.phase.terminal else self.row(job, foresight) for job in jobs
        ]

    def ended(self, ids: Sequence[str]) -> tuple[bool, list[JobRow]]:
        """Return whether all of these jobs or arrays have ended, and the row of each job. Raises NotFound.

        Once all have ended, every later call returns the same: the database has an end before a view has it, it never
        loses ended jobs, and a failure and its retry are one transaction.
        """
        found = self._named(ids)
        return all(job.phase.terminal for job in found), in_wall_time(self._rows(found), self._clock)

    def have_ended(self, ids: Sequence[str]) -> bool:
        """Return whether all of these jobs or arrays have ended. Cheaper than `ended` while jobs wait. Raises
        NotFound.
        """
        return all(job.phase.terminal for job in self._named(ids))

    def _named(self, ids: Sequence[str]) -> list[Job]:
        named = named_jobs(self._ledger, ids)
        for job_id, jobs in named.items():
            if not jobs:
                raise no_such_job(job_id)
        return [job for job_id in ids for job in named[job_id]]

    def is_live(self, job_id: str) -> bool:
        """Return whether the job, or an element of the array, has not ended. Quick: reads only the view."""
        jobs = self._ledger.view().jobs
        if job_id in jobs:
            return not jobs[job_id].phase.terminal
        array_id, indices = named_elements(job_id) or (job_id, None)
        if indices is not None:
            elements = (jobs.get(f"{array_id}_{index}") for index in indices)
            return any(job is not None and not job.phase.terminal for job in elements)
        return any(job.array_id == array_id and not job.phase.terminal for job in jobs.values())

    def notes(self, job_id: str) -> tuple[str, ...]:
        """Return notes for the user about a job that was just submitted; () if there are none, or the job has ended."""
        job = self._ledger.view().jobs.get(job_id)
        if job is None:
            return ()
        return (*job.spec.notes, *self._predictions.notes(self._ledger.view(), job, self._clock.now()))

    def dry_run(self, submission: Submission, user: str) -> DryRun:
        """Return whether the submission would start now and on which devices. Otherwise say why not, and which similar
        request would start.
        """
        view = self._ledger.view()
        submission, notes = self._asking.settle(submission, user, view.nodes.values())
        check(submission)
        obey(view, submission, user, LeastUse())
        submission = _named(completed(submission, view.limits))
        stands = still_to_follow(view, _stand_in(submission, user), self.named)
        if stands.lost is not None:
            return DryRun(
                starts_now=False,
                possible=False,
                reason=f"it would be cancelled at once: {follows_no_more(stands.lost)}",
            )
        now = self._clock.now()
        found = forecast_submission(
            view,
            submission,
            user,
            now,
            waits_for=stands.waits_for,
            plan=self._decisions.plan,
            planner=self._planner,
        )
        uuids, grants = ((), ()) if found.placement is None else (found.placement.uuids, found.placement.grants)
        job = as_last(view, submission, user, now)
        waits = found.possible and found.placement is None and not stands.waits_for and not submission.held
        predicted = self._predictions.offered(view, job, now) if waits else self._predictions.of(view, job.spec)
        offered = offer(predicted, job)
        answer = DryRun(
            starts_now=found.placement is not None,
            possible=found.possible,
            devices=tuple(_device_named(view, uuid) for uuid in uuids),
            grants=grant_rows(grants),
            notes=notes if offered is None else (*notes, offered),
            predicted=predicted,
            reason=found.sentence if found.possible else self._asking.explained(found.sentence, submission, view),
            expected_start=found.expected_start,
            expected_start_is=found.certainty,
            nearest=None if found.nearest is None else NearestRequest(found.nearest),
            **_of_elements(submission),
        )
        return in_wall_time(answer, self._clock)

    def devices(self) -> list[DeviceRow]:
        """Return every device with its state, its holders and its processes."""
        return in_wall_time(device_rows(self._ledger.view(), self._telemetry.latest(), self._via), self._clock)

    def uuid_of(self, device: str) -> str:
        """Return the UUID of a device.

        `device` is a UUID, its first characters (4 or more), NODE:INDEX or an index. Raises NotFound, and Refused for
        an index that several nodes have.
        """
        nodes = self._ledger.view().nodes
        name, colon, index = device.rpartition(":")
        on_node = bool(colon) and name in nodes
        if on_node:
            nodes, device = {name: nodes[name]}, index
        known = [(node, each) for node in sorted(nodes) for each in nodes[node].devices]
        found = [(node, each.uuid) for node, each in known if device in (each.uuid, str(each.index))]
        found = found or [(node, e.uuid) for node, e in known if len(device) >= 4 and e.uuid.startswith(device)]
        if len(found) == 1:
            return found[0][1]
        if len({node for node, _ in found}) > 1 and device.isdecimal():
            places = ", ".join(f"{node}:{device}" for node, _ in found)
            raise Refused(f"several nodes have a device {device}; name one of {places}", field="device")
        where = f" on node {name}" if on_node else ""
        indices = ", ".join(dict.fromkeys(str(each.index) for _, each in known)) or "none"
        raise NotFound(
            f"there is no device {device}{where}; the indices are {indices} (`corral devices` shows the UUIDs)"
        )

    def server(self) -> ServerInfo:
        """Return this server's information about itself."""
        devices = sum(len(node.devices) for node in self._ledger.view().nodes.values())
        return replace(self._about(), devices=devices, obstacle=self._decisions.obstacle)

    def row(self, job: Job, foresight: Foresight | None = None) -> JobRow:
        """Return a job's row of `ps`, with times by the ledger's clock. With `foresight` the row has the predicted
        start.
        """
        if job.phase.terminal:
            return self._ended_row(job, self._ledger.last_allocation(job))
        if job.phase is not Phase.PENDING:
            held = job.allocation_id or ""
            delay = self._trouble(held) if job.phase in (Phase.STARTING, Phase.RUNNING) else None
            return job_row(job, None, None, self._ledger.view().allocations.get(held), remark=delay)
        wait = self.waits().of(job)
        now = self._clock.now()
        expected_start = None if wait is None else wait.expected_start
        what = None if expected_start is None else self.waits().certainty(job.id, now)
        expected = None if foresight is None else foresight.of(job.id, held=job.held)
        if expected is not None and (expected.start_at is not None or expected_start is None):
            expected_start, what = expected.start_at, expected.certainty
        reason = wait_reason(job, wait, now)
        if self._decisions.obstacle is not None and wait is None and reason is WaitReason.NOT_REACHED:
            reason = WaitReason.DISK
        return job_row(job, reason, expected_start, certainty=what)

    def _ended_row(self, job: Job, had: Allocation | None) -> JobRow:
        return job_row(job, None, None, had, remark=self._failed_as(job))

    def waits(self) -> WaitIndex:
        """Return why jobs wait by the last plan, indexed once per plan."""
        plan, index = self._decisions.plan, self._index
        if index is None or index[0] is not plan:
            index = self._index = (plan, WaitIndex(plan, self._ledger.view()))
        return index[1]


def _named(submission: Submission) -> Submission:
    """Return the submission with the name that its job would have."""
    if submission.name or not submission.command:
        return submission
    return replace(submission, name=called(submission))


def _stand_in(submission: Submission, user: str) -> Job:
    """Return a job that stands for the submission, or for the first element of its array."""
    spec = JobSpec(user=user, name=submission.name, after=submission.after)
    array = submission.elements
    index = None if array is None else array.indices[0]
    return Job("", 0, spec, 0.0, array_index=index)


def _of_elements(submission: Submission) -> dict[str, Any]:
    """Return the parts of a dry run about an array: the number of jobs, and for a sweep, the first job's command."""
    array, sweep = submission.elements, submission.sweep
    said: dict[str, Any] = {} if array is None else {"jobs": len(array.indices)}
    if sweep is not None:
        said |= {"command": first_of(submission).command, "params": dict(next(sweep.elements()))}
    return said


def _device_named(view: View, uuid: str) -> DeviceChoice:
    found = view.device(uuid)
    return DeviceChoice(uuid, found[1].index, found[1].model, found[0].name) if found else DeviceChoice(uuid)


def _held_by(view: View, means: Means) -> HeldBy:
    devices = [device for node in view.nodes.values() for device in node.devices]
    return HeldBy(
        means,
        frozenset(device.uuid for device in devices if device.means is means),
        frozenset(device.uuid for device in devices if device.is_part),
    )


def _holding(view: View, held: HeldBy) -> set[str]:
    """Return the ids of live jobs whose first device is held by these means."""
    first = ((one.job_id, one.placement.grants[:1]) for one in view.allocations.values())
    return {job_id for job_id, grants in first if grants and held.has(grants[0])}
