"""The use cases of a server: each request is checked, decided and committed. Thread-safe, synchronous."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.permissions import may_read_log
from corral.core.control.changing.job_changes import JobChanges
from corral.core.control.changing.job_updates import JobUpdates
from corral.core.control.nodes.cordoning import DeviceCordons, NodeCordons
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.nodes.slice_changes import SliceChanges
from corral.core.control.querying.allocation_map import AllocationMap
from corral.core.control.querying.explanations import Explanations
from corral.core.control.querying.job_details import JobDetails
from corral.core.control.querying.left_files import FilesLeft
from corral.core.control.querying.member_logs import MemberLog, MemberLogs
from corral.core.control.querying.queries import Queries
from corral.core.control.querying.queue_rows import QueueListing
from corral.core.control.running.adopted_processes import Adoption, find_process, is_of, no_process
from corral.core.control.running.executions import Executions
from corral.core.control.running.interaction import Interaction
from corral.core.control.running.reserved_commands import ReservedCommands
from corral.core.control.submitting import new_jobs
from corral.core.control.submitting.device_request import RequestRules, with_profile_named, with_whole_node
from corral.core.control.submitting.file_findings import FileFindings, FileFindingsCache
from corral.core.control.submitting.image_findings import ImageFindings
from corral.core.control.submitting.kept_scripts import refuse_too_much_kept
from corral.core.control.submitting.preflight import SubmissionPreflight
from corral.core.control.submitting.priorities import settle_priority
from corral.core.control.submitting.site_rules import LeastUse, obey, refuse_overflow
from corral.core.control.submitting.submission_checks import check, node_notes
from corral.core.control.submitting.sweeps import check_text, first_of
from corral.core.control.submitting.uploads import UserUploads
from corral.core.model.answers.dry_run import DryRun
from corral.core.model.answers.site import ResourceNameRow
from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Job, JobKind, JobSpec, ProcessIdentity, Request
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.jobs.submission import Submission
from corral.core.model.queues.queue import Pool
from corral.core.model.view import View
from corral.core.ports.images import ContainerProgram
from corral.core.ports.ledger import Decided, Ledger
from corral.core.scheduling.explaining.impossible import refuse_impossible
from corral.core.scheduling.queueing.pools import closed_pools_of

__all__ = ["Caller", "Service"]

MAX_WISHES = 1000

T = TypeVar("T")

Wish = tuple[Request, tuple[tuple[str, float], ...], tuple[str, ...]]
"""The values that decide whether a node could ever serve a submission: its request, its speeds and its closed pools."""


class Service:
    """All operations that a caller can request.

    `queries` answers questions, `holdings` lists the holders of devices, and `queues` the remaining quotas. `details`
    has everything about a job, and `explanations` says why it waits or failed. `changes` cancels, holds and requeues
    jobs, and `updating` changes their values. `slicing` changes MIG slices, and `adopting` adopts processes.
    `node_cordons` and `device_cordons` keep jobs from starting. `interaction` passes signals and input to jobs, and
    `executions` runs commands inside them, and `reserved` fences those in reservations.
    `uploads` keeps directories for jobs, and `files_left` has what jobs leave.
    """

    def __init__(
        self,
        ledger: Ledger,
        queries: Queries,
        nodes: Nodes,
        clock: Clock,
        *,
        details: JobDetails,
        logs: MemberLogs,
        explanations: Explanations,
        holdings: AllocationMap,
        slicing: SliceChanges,
        adopting: Adoption,
        updating: JobUpdates,
        queues: QueueListing,
        node_cordons: NodeCordons,
        device_cordons: DeviceCordons,
        interaction: Interaction,
        executions: Executions,
        reserved: ReservedCommands,
        asking: RequestRules,
        inspection: SubmissionPreflight,
        images: ImageFindings,
        file_findings: FileFindingsCache,
        changes: JobChanges,
        uploads: UserUploads,
        files_left: FilesLeft,
    ) -> None:
        self.queries = queries
        self.details = details
        self.explanations = explanations
        self.holdings = holdings
        self.slicing = slicing
        self.adopting = adopting
        self.updating = updating
        self.queues = queues
        self.node_cordons = node_cordons
        self.device_cordons = device_cordons
        self.changes = changes
        self.interaction = interaction
        self.executions = executions
        self.uploads = uploads
        self.files_left = files_left
        self.reserved = reserved
        self._ledger = ledger
        self._nodes = nodes
        self._logs = logs
        self._clock = clock
        self._asking = asking
        self.file_findings = file_findings
        self._inspection = inspection
        self.images = images
        self._least_of = LeastUse()
        self._possible: tuple[tuple[Mapping[str, Node], Mapping[str, Pool]] | None, set[Wish]] = (None, set())

    def resource_names(self) -> tuple[ResourceNameRow, ...]:
        """Return the resource names of other systems that submissions may use."""
        return self._asking.resource_names()

    def submit(self, submissions: Sequence[Submission], caller: Caller) -> tuple[str, ...]:
        """Accept all submissions or none. Return the id of each, once on disk. Raises Refused, Forbidden, Conflict,
        LedgerFailed.
        """
        return self.submit_inspected(submissions, caller, self.file_findings.inspect(submissions, caller)).result()

    def submit_inspected(
        self, submissions: Sequence[Submission], caller: Caller, findings: Sequence[FileFindings]
    ) -> "Future[tuple[str, ...]]":
        """Submit as `submit` does, with the findings of an earlier file inspection. Does not wait for the disk."""
        view = self._ledger.view()
        now = self._clock.now()
        specs: list[JobSpec] = []
        before: Submission | None = None
        for asked, files in zip(submissions, findings, strict=True):
            # A batch often repeats the same submission; its jobs share a spec.
            specs.append(specs[-1] if asked == before else self._checked(view, asked, caller, files))
            before = asked
        refuse_overflow(view, sum(map(new_jobs.jobs_needed, submissions)))
        check_text(submissions)
        # All numbers are taken at once: taking more than are in reserve waits for the disk each time.
        numbers = iter(self._ledger.next_ids(sum(map(new_jobs.ids_needed, submissions))))
        jobs: list[Job] = []
        ids: list[str] = []
        for submission, spec in zip(submissions, specs, strict=True):
            own = tuple(islice(numbers, new_jobs.ids_needed(submission)))
            jobs.extend(new_jobs.jobs_of(submission, spec, own, now))
            ids.append(own[0])
        return self._admitted(jobs, caller.user, now, tuple(ids))

    def submit_for_pods(
        self,
        submission: Submission,
        pods: tuple[PodRef, ...],
        caller: Caller,
        program: ContainerProgram | None = None,
    ) -> "Future[str]":
        """Queue pods that others created as one job with a member per pod. The future has its id, once on disk. Raises
        as `submit`.

        No check is made whether a node could ever serve them: a pod waits for nodes that may still join. Preflight
        checks the `program` of their containers for the devices that there are.
        """
        now = self._clock.now()
        spec = replace(self.spec_for_pods(submission, caller, program), pods=pods)
        (job_id,) = self._ledger.next_ids(1)
        jobs = new_jobs.jobs_of(submission, spec, (job_id,), now)
        return self._admitted(jobs, caller.user, now, job_id)

    def spec_for_pods(self, submission: Submission, caller: Caller, program: ContainerProgram | None = None) -> JobSpec:
        """Return the specification of the job that would stand for pods of others. Raises Refused, Forbidden."""
        view = self._ledger.view()
        submission, of_priority = settle_priority(view.limits, submission, caller)
        submission, notes = replace(self._asking, containers=None).settle(submission, caller.user, view.nodes.values())
        check(submission)
        obey(view, submission, caller.user, self._least_of)
        spec = new_jobs.spec_of(submission, caller, view.limits, None)
        if program is None or not submission.request.devices:
            return replace(spec, notes=notes + of_priority)
        checked = view, submission, caller, program, self.images.known_or_begun(program.image, caller.user)
        notes += of_priority + self._inspection.container_notes(*checked)
        forced_by = caller.user if self._inspection.container_overrides(*checked) else None
        return replace(spec, notes=notes, forced_by=forced_by)

    def _admitted(self, jobs: Sequence[Job], user: str, now: float, answer: T) -> "Future[T]":
        """Commit new jobs by the newest view. The future has the answer, once they are on disk."""

        def decide(newest: View) -> Decided[T]:
            return Decided(new_jobs.admit(newest, jobs, self.queries.named, user, now).facts, answer)

        return self._ledger.commit(decide, user=user, jobs=len(jobs))

    def _checked(self, view: View, asked: Submission, caller: Caller, files: FileFindings) -> JobSpec:
        """Return the specification of a valid submission. Raises Refused, Forbidden."""
        if asked.kind is JobKind.ADOPT:
            raise Refused("a process is adopted with `corral adopt PID`, not submitted", field="kind")
        asked, of_priority = settle_priority(view.limits, self._in_own_time(asked), caller)
        submission, notes = self._asking.settle(
            with_whole_node(asked, view.nodes.values()), caller.user, view.nodes.values()
        )
        submission = with_profile_named(submission, view.nodes.values())
        check(submission)
        submission = self.uploads.settle(submission, caller)
        obey(view, submission, caller.user, self._least_of)
        refuse_too_much_kept(view, submission, caller.user)
        self._check_possible(view, submission, caller.user)
        first = first_of(submission)
        notes += of_priority + node_notes(view, submission.request) + self._inspection.notes(view, first, caller, files)
        spec = new_jobs.spec_of(submission, caller, view.limits, self._owner(submission, caller))
        forced_by = caller.user if self._inspection.overrides(view, first, caller, files) else None
        return replace(spec, notes=notes, forced_by=forced_by) if notes else spec

    def dry_run(self, submission: Submission, caller: Caller, files: FileFindings) -> DryRun:
        """Return the expected outcome of the submission, by `Queries.dry_run` and preflight. Raises as `submit`."""
        view = self._ledger.view()
        submission, of_priority = settle_priority(view.limits, self._in_own_time(submission), caller)
        submission = with_whole_node(submission, view.nodes.values())
        answer = self.queries.dry_run(submission, caller.user)
        settled, _ = self._asking.settle(submission, caller.user, view.nodes.values())
        preflight = self._inspection.notes(view, first_of(settled), caller, files, all_told=True)
        nodes = node_notes(view, settled.request)
        return replace(answer, notes=(*answer.notes, *of_priority, *nodes, *preflight))

    def _in_own_time(self, submission: Submission) -> Submission:
        if submission.begin_at is None:
            return submission
        return replace(submission, begin_at=self._clock.taken(submission.begin_at))

    def _check_possible(self, view: View, submission: Submission, user: str) -> None:
        """Raise Refused if no node here could ever serve the submission. Answers are cached while nodes and pools
        stay the same.
        """
        known, possible = self._possible
        if known is None or known[0] is not view.nodes or known[1] is not view.pools or len(possible) >= MAX_WISHES:
            _, possible = self._possible = (view.nodes, view.pools), set()
        shut = closed_pools_of(view, user, submission.project)
        wish = submission.request, submission.speeds, shut
        if wish not in possible:
            try:
                refuse_impossible(view, submission, shut)
            except Refused as refused:
                never = self._asking.explained(str(refused), submission, view)
                raise Refused(never, field=refused.field) from None
            possible.add(wish)

    def _owner(self, submission: Submission, caller: Caller) -> ProcessIdentity | None:
        if submission.kind is JobKind.RUN or submission.owner_pid is None:
            return None
        found = find_process(self._ledger.view(), self._nodes, submission.owner_pid)
        if not found:
            raise Refused(no_process(self._nodes, submission.owner_pid), field="owner_pid")
        # Several nodes may have a process with this pid. One of the caller is preferred, then one on the named node.
        node = submission.request.node
        meant = max(found, key=lambda process: (is_of(process, caller), process.identity.node == node))
        return meant.identity

    def logs(self, job_id: str, caller: Caller) -> tuple[MemberLog, ...]:
        """Return the logs of a job's members, by rank. Raises NotFound, and Forbidden for another user's job."""
        job = self.queries.find(job_id)
        may_read_log(caller, job)
        return self._logs.of(job)
