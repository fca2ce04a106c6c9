"""The core of one server: scheduling, actions and use cases, connected to a ledger and the agents of its nodes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from corral.clock import Clock
from corral.config import Settings
from corral.core.control.changing.job_changes import JobChanges
from corral.core.control.changing.job_updates import JobUpdates
from corral.core.control.deciding.controller import Controller, Planners
from corral.core.control.launching.dispatcher import Dispatcher
from corral.core.control.launching.environment import launches_of
from corral.core.control.launching.kept_scratch import KeptScratch
from corral.core.control.nodes.cordoning import DeviceCordons, NodeCordons
from corral.core.control.nodes.gone_and_returned_nodes import Recovery
from corral.core.control.nodes.node_events import LostServices, NodeEvents
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.nodes.node_workers import TaskQueue
from corral.core.control.nodes.slice_changes import SliceChanges
from corral.core.control.nodes.user_accounts import UserAccounts
from corral.core.control.querying.allocation_map import AllocationMap
from corral.core.control.querying.explanations import Explanations
from corral.core.control.querying.job_details import JobDetails, LogPath
from corral.core.control.querying.left_files import FilesLeft
from corral.core.control.querying.member_logs import MemberLogs
from corral.core.control.querying.outlooks import Outlooks
from corral.core.control.querying.predictions import Predictions
from corral.core.control.querying.queries import Queries
from corral.core.control.querying.queue_rows import QueueListing
from corral.core.control.running.adopted_processes import Adoption
from corral.core.control.running.executions import Executions
from corral.core.control.running.interaction import Interaction
from corral.core.control.running.job_devices import LedgerJobDevices
from corral.core.control.running.pod_jobs import LedgerPodJobs
from corral.core.control.running.reserved_commands import ReservedCommands
from corral.core.control.service import Service
from corral.core.control.submitting.candidate_nodes import CandidateNodes, EligibleNodes
from corral.core.control.submitting.device_request import RequestRules
from corral.core.control.submitting.file_findings import FileFindingsCache
from corral.core.control.submitting.image_findings import ImageFindings
from corral.core.control.submitting.node_files import NodeFiles
from corral.core.control.submitting.preflight import SubmissionPreflight
from corral.core.control.submitting.uploads import UserUploads
from corral.core.control.telling.attempt_notes import begins
from corral.core.control.telling.job_notes import JobNotes
from corral.core.control.telling.stop_notes import StopNotes
from corral.core.control.watching.failure_notes import FailureNotes
from corral.core.control.watching.memory_guard import Stopper
from corral.core.lifecycle.device_faults import stays_on
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.answers.site import ServerInfo
from corral.core.model.jobs.job import Job, ProcessIdentity
from corral.core.model.placing.allocation import Allocation
from corral.core.model.runs.launch import Launch
from corral.core.model.view import View
from corral.core.ports.images import ImageRegistry
from corral.core.ports.ledger import Ledger
from corral.core.ports.monitoring import JobMonitoring, PredictUse, UseOfAlike, UseOfJob
from corral.core.ports.telemetry import NodeTelemetry
from corral.core.ports.uploads import Uploads
from corral.core.scheduling.forecast import expected_starts
from corral.core.scheduling.policy import POLICIES, Policy

RECONCILED_WITHIN_S = 30.0
"""The longest wait at the start of a server for connected nodes to be reconciled."""

CLOSE_S = 5.0
"""The longest wait at the end of a server for a note on a failure that is being written."""


class ControlCore:
    """The parts of a server that use only its ports.

    Attributes:
        dispatcher: carries out decisions on nodes.
        controller: decides which jobs start.
        recovery: reconciles nodes with the ledger.
        listener: receives events on nodes from the hub.
        notes: writes lines into the logs of jobs.
        nodes: the agents of the nodes.
        stopper: ends jobs that broke a rule.
        service: the use cases.
        pod_jobs: pods that others created as jobs, for the engine that binds them.
    """

    def __init__(
        self,
        ledger: Ledger,
        nodes: Nodes,
        telemetry: NodeTelemetry,
        clock: Clock,
        *,
        settings: Settings,
        rules: RequestRules,
        about: Callable[[], ServerInfo],
        policies: Mapping[str, Policy] = POLICIES,
        server: ProcessIdentity | None = None,
        log_path: LogPath = lambda node, job_id, rank: None,
        via: Callable[[str], str | None] = lambda node: None,
        monitoring: JobMonitoring = lambda job, allocation, devices: None,
        job_use: UseOfJob = lambda job_id: None,
        predict_use: PredictUse = lambda spec: UseOfAlike(),
        uploads: Uploads | None = None,
        registry: ImageRegistry | None = None,
    ) -> None:
        """`server` is this server's own process, if processes can be adopted. `log_path` returns the path of a log.

        `via` tells how a node is reached, None for this machine. `uploads` are the directories that users send for
        their jobs; None if the nodes get none. `registry` reads images in the registries that the site lists.
        """
        self._ledger, self.nodes, self._telemetry, self._clock, self._via = ledger, nodes, telemetry, clock, via
        self._planners = planners = Planners(ledger, policies)
        self._outlooks = Outlooks(ledger, clock, planners.alike)
        self._predictions = Predictions(predict_use, planners.alike)
        backoff = Backoff(settings.retry_backoff_s, settings.retry_backoff_max_s)
        self._noting = TaskQueue("job-notes")
        forecast = partial(expected_starts, planner=planners.alike)
        stop_notes = StopNotes(ledger, nodes, clock, forecast=forecast, later=self._noting.put)
        self.dispatcher = dispatcher = Dispatcher(
            ledger,
            nodes,
            clock,
            partial(_launches_of, ledger),
            backoff,
            kill_grace_s=settings.kill_grace_s,
            tell=stop_notes.tell,
            uploads=uploads,
        )
        self.controller = Controller(
            ledger,
            planners.deciding,
            nodes,
            telemetry,
            clock,
            launch=dispatcher.launch,
            stop=dispatcher.stop,
        )
        self.accounts = UserAccounts(ledger, nodes, clock)
        self.recovery = Recovery(ledger, nodes, dispatcher, telemetry)
        self.notes = JobNotes(dispatcher.attempts, nodes)
        self.stopper = Stopper(ledger, clock, dispatcher.stop)
        lost_services = LostServices(dispatcher.attempts, self.notes.tell, self.stopper)
        self.listener = NodeEvents(nodes, dispatcher, self.recovery, lost_services)
        self._logs = logs = MemberLogs(ledger, nodes, clock)
        self._failures = FailureNotes(ledger, logs.agent_of, later=self._noting.put, on_node=logs.on_node)
        queries = self._make_queries(planners, rules, about)
        details = self._make_details(queries, log_path, monitoring, job_use)
        self.service = self._make_service(
            queries, details, settings, rules, server=server, uploads=uploads, registry=registry
        )
        devices = LedgerJobDevices(ledger, clock, self.stopper, dispatcher.attempts.renew)
        self.pod_jobs = LedgerPodJobs(ledger, self.service, clock, dispatcher.stop, devices)

    def _make_queries(self, planners: Planners, rules: RequestRules, about: Callable[[], ServerInfo]) -> Queries:
        return Queries(
            self._ledger,
            self.controller,
            self._telemetry,
            self._clock,
            asking=rules,
            outlooks=self._outlooks,
            predictions=self._predictions,
            planner=planners.alike,
            about=about,
            trouble=self._trouble,
            failed_as=self._failures.word,
            via=self._via,
        )

    def _trouble(self, allocation_id: str) -> str | None:
        return self.dispatcher.trouble(allocation_id) or stays_on(self._ledger.view(), allocation_id)

    def _make_explanations(self, queries: Queries) -> Explanations:
        return Explanations(
            self._ledger,
            self.controller,
            self._clock,
            queries,
            outlooks=self._outlooks,
            predictions=self._predictions,
            log_ends=self._failures,
            planner=self._planners.alike,
            trouble=self._trouble,
            may_still_run=self.recovery.left_behind.warning,
        )

    def _make_details(
        self, queries: Queries, log_path: LogPath, monitoring: JobMonitoring, job_use: UseOfJob
    ) -> JobDetails:
        return JobDetails(
            self._ledger,
            self._clock,
            find=queries.find,
            row=queries.row,
            waited=self.controller.waited,
            live=self.dispatcher.attempts.of,
            log_path=log_path,
            monitoring=monitoring,
            use=job_use,
        )

    def _make_service(
        self,
        queries: Queries,
        details: JobDetails,
        settings: Settings,
        rules: RequestRules,
        *,
        server: ProcessIdentity | None,
        uploads: Uploads | None,
        registry: ImageRegistry | None,
    ) -> Service:
        ledger, nodes, clock, dispatcher = self._ledger, self.nodes, self._clock, self.dispatcher
        ledger.subscribe(self._failures.on_change)
        ledger.subscribe(KeptScratch(ledger, nodes, later=self._noting.put).on_change)
        eligible = EligibleNodes()
        images = ImageFindings(nodes, registry, clock)
        interaction = Interaction(ledger, queries, nodes, dispatcher.attempts, clock)
        return Service(
            ledger,
            queries,
            nodes,
            clock,
            details=details,
            logs=self._logs,
            explanations=self._make_explanations(queries),
            holdings=AllocationMap(ledger, nodes, dispatcher.attempts),
            slicing=SliceChanges(ledger, nodes, queries),
            node_cordons=NodeCordons(ledger, clock, self._telemetry.contacts, self._via),
            device_cordons=DeviceCordons(ledger, clock, queries),
            adopting=Adoption(ledger, nodes, self._telemetry, clock, server=server, watch=dispatcher.launch),
            interaction=interaction,
            reserved=ReservedCommands(ledger, queries, nodes, server),
            executions=Executions(ledger, queries, dispatcher.attempts, clock, interaction.agent_of),
            queues=QueueListing(ledger, clock, self._outlooks),
            updating=JobUpdates(
                ledger,
                clock,
                tell=self.notes.tell,
                time_limit_changed=dispatcher.time_limits.changed,
            ),
            asking=rules,
            inspection=SubmissionPreflight(eligible, strict=settings.strict_cuda),
            images=images,
            file_findings=FileFindingsCache(
                NodeFiles(nodes),
                CandidateNodes(ledger, nodes, rules, eligible),
                clock,
                know=self.accounts.know,
                images=images,
                on_hosts=rules.containers is None or not rules.containers.every_job,
                default_image=settings.kubernetes.image,
            ),
            changes=JobChanges(ledger, clock, dispatcher.stop),
            uploads=UserUploads(uploads),
            files_left=FilesLeft(queries.find, self._logs.agent_of),
        )

    def start(self) -> None:
        """Start scheduling, once the nodes that have connected so far are reconciled with the ledger."""
        self.recovery.give_up_absent_nodes()
        self.recovery.wait(RECONCILED_WITHIN_S)
        self.dispatcher.start()
        self.controller.start()
        self._failures.look_back()

    def close(self) -> None:
        """Finish current work and stop; the jobs run on."""
        self.controller.close()
        self.dispatcher.close()
        self._noting.drop()
        self.nodes.close()
        self._noting.join(CLOSE_S)


def _launches_of(ledger: Ledger, job: Job, allocation: Allocation, view: View) -> tuple[Launch, ...]:
    """Return the launches of a job. Work that Corral did not start is watched on its own node, whatever devices it
    holds.
    """
    owner = job.spec.owner
    launches = launches_of(job, allocation, view, begins(ledger, job))
    if owner is None or not owner.node:
        return launches
    return tuple(one if one.node == owner.node else replace(one, node=owner.node, uses=()) for one in launches)
