"""One server's core: what decides, what acts and what answers, wired over a ledger."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from corral.clock import Clock
from corral.config import Settings
from corral.control.adoption import Adoption
from corral.control.controller import Controller
from corral.control.cordoning import NodeCordons
from corral.control.device_setup import DeviceSetup
from corral.control.dispatcher import Dispatcher
from corral.control.environment import launch_of, stale_notes
from corral.control.mig_changes import MigChanges
from corral.control.querying.allocation_map import AllocationMap
from corral.control.querying.queries import Queries
from corral.control.service import Service
from corral.control.submitting.device_request import RequestRules
from corral.control.submitting.file_findings import FileFindingsCache
from corral.control.submitting.preflight import SubmissionPreflight
from corral.control.watching.guards import Tell
from corral.lifecycle.step import Backoff
from corral.model.home import Home
from corral.model.job import Job, JobKind
from corral.model.launch import Launch
from corral.model.rows import ServerInfo
from corral.model.view import View
from corral.ports.host import FileInspector, Processes
from corral.ports.ledger import JobQuery, Ledger
from corral.ports.runtime import Runtime
from corral.ports.telemetry import Telemetry
from corral.scheduling.explaining.eviction_notices import goes_on
from corral.scheduling.planner import Planner
from corral.scheduling.policy import DEFAULT, POLICIES, Policy
from corral.sharing.definitions import load_catalogue

if TYPE_CHECKING:
    from corral.preflight.file_facts import FileFacts

RECALLED_JOBS = 1_000
"""So many of the newest jobs tell a new server what to expect; reading them takes some 50 ms."""


class ControlCore:
    """The parts of a server that need no more of the world than its ports.

    Attributes:
        dispatcher: acts; runtimes tell it their news.
        controller: decides.
        service: what a caller can have done, and ask.
    """

    def __init__(
        self,
        ledger: Ledger,
        runtimes: Mapping[JobKind, Runtime],
        telemetry: Telemetry,
        processes: Processes,
        clock: Clock,
        *,
        inspector: "FileInspector[FileFacts]",
        home: Home,
        settings: Settings,
        device_setup: DeviceSetup,
        about: Callable[[], ServerInfo],
        disk_trouble: Callable[[], str | None] = lambda: None,
        policies: Mapping[str, Policy] = POLICIES,
        tell: Tell = lambda job_id, line: None,
    ) -> None:
        """`tell` writes lines into the logs of jobs; left out, none is written."""
        self._home = home
        self._ledger = ledger
        self._policies = policies
        self._device_setup = device_setup
        backoff = Backoff(settings.retry_backoff_s, settings.retry_backoff_max_s)
        self.dispatcher = Dispatcher(
            ledger,
            runtimes,
            clock,
            self._launch_of,
            backoff,
            device_setup=device_setup,
            tell=tell,
            kill_grace_s=settings.kill_grace_s,
        )
        self.controller = Controller(
            ledger,
            self._experienced_planner,
            telemetry,
            clock,
            enforce=device_setup.enforcement,
            launch=self.dispatcher.launch,
            stop=self.dispatcher.stop,
            disk_trouble=disk_trouble,
        )
        asking = _asking(home, settings)
        queries = Queries(
            ledger,
            self.controller,
            telemetry,
            clock,
            asking=asking,
            planner=self._planner_of,
            log_path=home.log_of,
            about=about,
            trouble=self.dispatcher.trouble,
        )
        self.service = Service(
            ledger,
            queries,
            processes,
            clock,
            holdings=AllocationMap(ledger, device_setup),
            slicing=MigChanges(ledger, queries, allowed=settings.mig_changes),
            adopting=Adoption(ledger, telemetry, processes, clock, watch=self.dispatcher.launch),
            node_cordons=NodeCordons(ledger, clock, getattr(telemetry, "contacts", tuple)),
            asking=asking,
            inspection=SubmissionPreflight(strict=settings.strict_cuda),
            file_findings=FileFindingsCache(inspector, clock),
            stop=self.dispatcher.stop,
        )

    def start(self) -> None:
        """Bring ledger and runtimes together, then decide and act."""
        self.dispatcher.recover()
        self.dispatcher.start()
        self.controller.start()

    def close(self) -> None:
        """Finish what is in hand and stop; the jobs run on."""
        self.controller.close()
        self.dispatcher.close()

    def _experienced_planner(self, view: View) -> Planner:
        """The planner that decides. It expects the like of what has come: prices are learned again from the ledger."""
        planner = self._planner_of(view)
        recent = self._ledger.jobs(JobQuery(limit=RECALLED_JOBS))
        planner.observe_requests(job.spec.request for job in reversed(recent) if job.spec.kind is JobKind.RUN)
        return planner

    def _planner_of(self, view: View) -> Planner:
        """A planner that plans as the one that decides does, by what that one has learned so far."""
        default = self._policies[DEFAULT.order.name]
        return Planner(view, policy=default, policies=self._policies, prices=self.controller.prices)

    def _launch_of(self, job: Job, view: View) -> Launch:
        allocation = view.allocations[job.allocation_id or ""]
        devices = {device.uuid: device for node in view.nodes.values() for device in node.devices}
        launch = launch_of(job, allocation, devices, str(self._home.root), str(self._home.scratch_of(job.id)))
        notes = [*launch.notes, *stale_notes(view, allocation)]
        if (eviction := job.evicted_before) is not None:
            notes.append(goes_on(eviction))
        launch = replace(launch, notes=tuple(notes))
        added = self._device_setup.environment(allocation, view)
        return replace(launch, env=tuple(sorted({**dict(launch.env), **dict(added)}.items()))) if added else launch


def _asking(home: Home, settings: Settings) -> RequestRules:
    names = settings.resource_names
    catalogue = None if names is None else load_catalogue([home.root / names])
    return RequestRules(catalogue, settings.split, settings.split_fragments, settings.min_compute)
