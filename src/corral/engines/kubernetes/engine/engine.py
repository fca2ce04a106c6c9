"""The nodes of a Kubernetes cluster as a server's nodes, on which jobs run as pods."""

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.control.submitting.device_request import site_catalogue
from corral.core.control.watching.patrol import Patrol
from corral.core.model.errors import CorralError
from corral.core.model.home import Home
from corral.core.model.runs.launch import LaunchPhase
from corral.core.ports.engine import EngineTraits, Joined, Left, PodScheduler
from corral.core.ports.node import NodeAgent
from corral.core.ports.pod_jobs import PodJobs
from corral.engines.kubernetes.admission.pod_admission import PodAdmission
from corral.engines.kubernetes.agent.agent_report import REPORT_EVERY_S
from corral.engines.kubernetes.agent_reports.agent_pods import agent_pods_of
from corral.engines.kubernetes.agent_reports.report_box import ReportBox
from corral.engines.kubernetes.agent_reports.report_taker import ReportTaker
from corral.engines.kubernetes.agent_reports.token_reviews import TokenReviews
from corral.engines.kubernetes.binding.pod_binding import PodBinding
from corral.engines.kubernetes.binding.serving_lease import candidate
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.cluster_uid import cluster_uid
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.cluster.rights import require_namespace, require_rights
from corral.engines.kubernetes.engine.cluster_feed import ClusterFeed
from corral.engines.kubernetes.engine.cluster_launches import ClusterLaunches
from corral.engines.kubernetes.engine.gpu_readings import LEAST_INTERVAL_S, GpuReadings
from corral.engines.kubernetes.engine.launches_on_node import DEFAULT_RUNTIME, LaunchesOnNode
from corral.engines.kubernetes.engine.node_agent import ClusterNodeAgent
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.engine.other_schedulers import OtherSchedulers
from corral.engines.kubernetes.engine.reported_nodes import LOOK_S, ReportedNodes
from corral.engines.kubernetes.engine.runtimes import ClusterRuntime
from corral.engines.kubernetes.extender.placed_pods import PlacedPods
from corral.engines.kubernetes.inventory.occupants import keep_occupant
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources
from corral.engines.kubernetes.pods.names import names_of_server
from corral.engines.kubernetes.pods.pod_patrol import INTERVAL_S, PodPatrol
from corral.engines.kubernetes.pods.runtime import PodRuntime
from corral.engines.kubernetes.pods.site import PodSite, absence
from corral.engines.kubernetes.resource_names.cluster_names import ClusterNames
from corral.engines.kubernetes.shares.pod_shares import PodShares

_ASK_S = 3.0
"""The silence of the watches after which the API server is asked for its version."""

_ANSWER_S = 5.0
"""The time within which the API server must answer a question for its version."""


class _ClusterHealth:
    """Finds out when the known state of a cluster may be old.

    A watch that ended reports its failure at once. A watch on an API server that hangs notices it only late, so the API
    server is also asked. For one thread alone.
    """

    def __init__(self, cluster: Cluster, *watches: ObjectWatch) -> None:
        self._cluster = cluster
        self._watches = watches
        self._asked_s = 0.0

    def trouble(self) -> CorralError | None:
        """Return why the known state may be old, or None. Waits for an answer of the API server if a check is due."""
        for watch in self._watches:
            if watch.failure is not None:
                return watch.failure
        quiet_s = min(watch.silent_s() for watch in self._watches)
        if min(quiet_s, time.monotonic() - self._asked_s) < _ASK_S:
            return None
        try:
            self._cluster.version(_ANSWER_S)
        except CorralError as error:
            return error
        self._asked_s = time.monotonic()
        return None


log = logging.getLogger(__name__)

BINDING_RUNTIME = "binding"
"""The runtime of launches that bind pods of others."""

THREADS = 16
"""The number of parallel calls to the API server for work on nodes, and the same number for questions to nodes."""

REPORTS_UNTIL_SILENT = 3
"""A node with an agent is not silent before so many reports are missing, whatever the settings say."""

SYNC_S = 60.0
"""The server does not start if no page of nodes or pods comes for this long before the first listing is complete."""


def make_engine(home: Home, settings: Settings, clock: SystemClock) -> "KubernetesEngine":
    """Return the engine of the cluster that the settings name. It sends no request yet. Raises Refused for an invalid
    kubeconfig.
    """
    named = settings.kubernetes
    cluster = Cluster.connect(named.kubeconfig, named.context, named.namespace)
    return KubernetesEngine(cluster, home, settings, clock, ReportBox())


class KubernetesEngine:
    """Implements `corral.core.ports.engine.NodeEngine`.

    All calls go to one API server, so its nodes share threads and a feed. `reports` are those of the agents on its
    nodes.
    """

    def __init__(
        self, cluster: Cluster, home: Home, settings: Settings, clock: SystemClock, reports: ReportBox
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        catalogue = site_catalogue(settings, home)
        names_of_parts = PodShares(catalogue)
        self._names = ClusterNames(cluster, catalogue, names_of_parts)
        self._book = NodeBook(clock, catalogue, means_label=settings.kubernetes.means_label)
        self._nodes, self._pods = ObjectWatch(cluster, NODES), ObjectWatch(cluster, PODS)
        node_facts = self._nodes.cache(read_node)
        node_facts.subscribe(self._book.nodes_changed)
        occupants = self._pods.cache(partial(keep_occupant, names=names_of_parts))
        occupants.subscribe(self._book.occupants_changed)
        agent_pods = self._pods.cache(agent_pods_of(settings.kubernetes.agent_account))
        site, names = _pod_site(cluster, settings), names_of_server(home.cluster_tag_file)
        self._own_pods = pods = PodRuntime(
            cluster,
            names,
            site,
            clock,
            self._book.launch_changed,
            pods=self._pods,
            logs=home.logs,
            kill_grace_s=settings.kill_grace_s,
            log_max_bytes=settings.log_max_mib << 20,
            placed=self._book.placed,
        )
        pod_patrol = PodPatrol(pods, kill_grace_s=settings.kill_grace_s)
        self._binding = PodBinding(
            cluster,
            self._pods,
            candidate(names.tag, home.root),
            self._book.launch_changed,
            scheduler=settings.kubernetes.scheduler_name,
            users=dict(settings.kubernetes.pod_users),
            names=names_of_parts,
            placed=self._book.placed,
        )
        users = dict(settings.kubernetes.pod_users)
        self._placed = PlacedPods(cluster, occupants, self._binding, users, names_of_parts)
        self._report_taker = ReportTaker(
            reports,
            TokenReviews(cluster, settings.kubernetes.agent_account, clock),
            agent_pods,
            self._placed.occupant,
            clock,
            silent_after_s=max(settings.node_silent_after_s, REPORTS_UNTIL_SILENT * REPORT_EVERY_S),
        )
        node_facts.subscribe(self._report_taker.nodes_changed)
        self._runtimes: Mapping[str, ClusterRuntime] = {DEFAULT_RUNTIME: pods, BINDING_RUNTIME: self._binding.runtime}
        self._records = ClusterLaunches(
            self._runtimes, lambda job_id: BINDING_RUNTIME if self._binding.has(job_id) else None
        )
        self._others = OtherSchedulers(
            cluster,
            self._pods,
            self._book,
            clock,
            scheduler=settings.kubernetes.scheduler_name,
            tag=names.tag,
            names=names_of_parts,
        )
        self._agents = ReportedNodes(
            self._book, reports, agent_pods, clock, phase=self._phase, refusal=self._report_taker.refusal
        )
        health = _ClusterHealth(cluster, self._nodes, self._pods)
        admission = PodAdmission(cluster, self._placed, settings.kubernetes.scheduler_name)
        self.traits = EngineTraits(
            "kubernetes",
            feed=ClusterFeed(self._book, clock, members=self._tell_members, trouble=health.trouble),
            max_threads=THREADS,
            least_sample_interval_s=LEAST_INTERVAL_S,
            containers=site,
            via=lambda node: "kubernetes",
            offers=(self._placed, self._report_taker, self._names.in_force, admission),
        )
        readings = _gpu_readings(cluster, self._book, settings, clock)
        self._patrols = (
            Patrol("pod-patrol", pod_patrol.look, INTERVAL_S),
            # Jobs run and start without readings.
            Patrol("gpu-readings", readings.look, readings.interval_s, vital=False, at_once=True),
        )
        self._agents_patrol = Patrol("node-agents", self._agents.look, LOOK_S)
        self._members: frozenset[str] = frozenset()
        self._uid: str | None = None
        self._watchers: tuple[Joined, Left] | None = None

    def log_path(self, node: str, job_id: str, rank: int) -> str | None:
        """Return None: logs are read from the cluster."""
        return None

    def start(self) -> Mapping[str, NodeAgent]:
        require_rights(self._cluster)
        require_namespace(self._cluster)
        self._uid = cluster_uid(self._cluster)
        for watch in (self._nodes, self._pods):
            watch.start()
        for watch in (self._nodes, self._pods):
            watch.wait_until_synced(SYNC_S)
        self._names.start()
        self._binding.open()
        self._others.warn()
        for patrol in self._patrols:
            patrol.start()
        self._members = self._book.names()
        log.info("%s has %d nodes", self._cluster, len(self._members))
        return {name: self._agent(name) for name in sorted(self._members)}

    def on_record(self) -> tuple[str, ...]:
        # The marks on pods of others do not count: their owners could write the highest number there and exhaust the
        # numbers.
        return tuple(one.launch_id for one in self._own_pods.on_record())

    def at_work(self) -> tuple[str, ...]:
        made = (f"the pod of job {launch}" for launch in self.on_record())
        bound = (f"the pod {pod}, which it has bound" for pod in self._binding.runtime.running_by_their_marks())
        return (*made, *bound)

    def departed(self, node: str) -> NodeAgent | None:
        return self._agent(node, departed=True)

    @property
    def remarks(self) -> tuple[str, ...]:
        own = (self._binding.why_not, self._others.warning(), _contested_warning(self._book.contested()))
        return tuple(one for one in own if one is not None)

    @property
    def pod_scheduler(self) -> PodScheduler | None:
        if self._uid is None or self._binding.why_not is not None:
            return None
        return PodScheduler(self._binding.scheduler, self._uid)

    def attend(self, jobs: PodJobs) -> None:
        self._binding.attend(jobs)
        self._placed.attend(jobs)
        self._agents.attend(jobs.devices)

    def watch(self, joined: Joined, left: Left) -> None:
        self._watchers = joined, left
        self._agents_patrol.start()
        self._binding.begin()

    def close(self) -> None:
        self._binding.close()
        for patrol in (*self._patrols, self._agents_patrol):
            patrol.close()
        for runtime in self._runtimes.values():
            runtime.close()
        # The feed may wait for changes, so it is woken. It reports nothing any more.
        self._book.wake()
        for watch in (self._nodes, self._pods, self._names):
            watch.stop()
        self._cluster.close()

    def _tell_members(self, now: frozenset[str]) -> None:
        """Report the nodes that came and went since the last report; for the feed's thread."""
        if self._watchers is None:
            return
        joined, left = self._watchers
        for name in sorted(self._members - now):
            left(name)
        for name in sorted(now - self._members):
            joined(name, self._agent(name))
        self._members = now

    def _phase(self, launch_id: str) -> LaunchPhase:
        return self._runtimes[self._records.runtime_of(launch_id) or DEFAULT_RUNTIME].report(launch_id).phase

    def _agent(self, name: str, *, departed: bool = False) -> ClusterNodeAgent:
        look = self._others.look
        return ClusterNodeAgent(
            LaunchesOnNode(name, self._book, self._runtimes, self._records, self._clock, look, departed)
        )


def _contested_warning(contested: Mapping[str, Sequence[str]]) -> str | None:
    """Return a warning about nodes that offer their devices in more than one way, with its remedy; None without any."""
    if not contested:
        return None
    node = min(contested)
    more = f" and {len(contested) - 1} more" if len(contested) > 1 else ""
    return (
        f"node {node}{more} offers the same GPUs by {' and '.join(contested[node])}, whose plugins do not know of each "
        "other and can give a GPU away twice; Corral gives no parts of GPUs there: leave one of the plugins on the node"
    )


def _pod_site(cluster: Cluster, settings: Settings) -> PodSite:
    named = settings.kubernetes
    return PodSite(
        named.image, named.host_paths, named.service_accounts, named.privileged_templates, partial(absence, cluster)
    )


def _gpu_readings(cluster: Cluster, book: NodeBook, settings: Settings, clock: SystemClock) -> GpuReadings:
    named = settings.kubernetes
    sources = ReadingSources(named.prometheus_url, exec_nvidia_smi=named.exec_nvidia_smi)
    return GpuReadings(cluster, book, sources, clock, max(LEAST_INTERVAL_S, settings.sample_interval_s))
