"""The composition root: it builds one server from all rooms."""

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import corral
from corral.api.answers.waiting import EndSignal
from corral.api.connections.listening import Listening, TcpListener
from corral.api.connections.server_socket import ServerSocket
from corral.api.events.event_feed import EventFeed, event_feed
from corral.api.offers import Offers
from corral.api.requests.auth import Authenticator, ensure_token, find_account
from corral.api.requests.submitting import Submitter
from corral.api.routing import AppState
from corral.api.server import ApiServer
from corral.app.http_api import http_api
from corral.as_login import keyring_shared
from corral.clock import SystemClock
from corral.config import HOST, Settings
from corral.core.control.core import ControlCore
from corral.core.control.metrics.job_counts import JobCounts
from corral.core.control.metrics.request_counts import RequestCounts
from corral.core.control.metrics.scrape import Metrics
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.site.from_settings import first_view
from corral.core.control.site.reloading import SiteSettings
from corral.core.control.submitting.device_request import request_rules
from corral.core.control.token_issuer import TokenIssuer
from corral.core.control.watching.job_patrols import job_patrols
from corral.core.control.watching.patrol import Patrol
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.answers.site import ServerInfo
from corral.core.model.errors import LedgerFailed
from corral.core.model.home import Home
from corral.core.model.runs.launch import job_number
from corral.core.model.units import MW_PER_W
from corral.core.model.view import View
from corral.core.ports.engine import NodeEngine
from corral.core.ports.ledger import Decided
from corral.core.ports.node import NodeAgent
from corral.core.scheduling.policy import Policy, placed_by
from corral.core.scheduling.queueing.power_budget import counted_power_mw
from corral.core.sharing.definitions import NamesInForce
from corral.engines.hosts.engine import HostsEngine
from corral.features.building import BuiltFeatures, CoreDoors
from corral.features.feature_list import features, slices
from corral.host.contents.uploads import StoredUploads
from corral.host.image_registry import ListedRegistries
from corral.host.node.host_engines import find_host_engine
from corral.host.telemetry.hub import Hub
from corral.host.telemetry.processes import HostProcesses
from corral.host.traces.earlier import refuse_without_ledger
from corral.host.traces.numbers import highest_number
from corral.plugins.engines import load_engine
from corral.plugins.queue_orders import load_policies
from corral.unix_peer import user_name

log = logging.getLogger("corral")

SITE_REMARKS_INTERVAL_S = 5.0
"""The interval between checks whether nodes have come or gone, and what follows for the settings."""

LEDGER_INTERVAL_S = 1.0
"""The interval at which an idle server checks whether its ledger is still there."""

SOCKET_INTERVAL_S = 1.0
"""The interval between checks whether the Unix socket is still there."""

TOKEN_USES_INTERVAL_S = 60.0
"""The interval at which the times of the tokens' last uses are written to disk."""


class Server:
    """All parts of a running server, wired together. `run` serves until `stop`. Jobs continue to run after it."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        load: Callable[[], Settings],
        *,
        mock: Path | None,
        listen: Listening | None,
        on_ready: Callable[["Server"], None],
    ) -> None:
        """`load` reads the settings again. The options of this server override them."""
        self._home = home
        self._settings = settings
        policies = placed_by(settings.placement, load_policies())
        self._ledger: SqlLedger = open_ledger(
            home.ledger_url, first_view(settings), partial(refuse_without_ledger, home), slices=slices()
        )
        # This must happen before any file is tidied up.
        self._skip_numbers([highest_number(home, self._ledger.last_fact_at)])
        # Without jobs no durations are measured, so a wall clock that was set after the boot can be trusted.
        self._clock = SystemClock(home.clock_file, anew=not self._ledger.view().jobs)
        self._started_at = self._clock.now()
        self._engine = self._make_engine(mock)
        self._settings = settings.sampled_at_most_each(self._engine.traits.least_sample_interval_s)
        self._nodes = Nodes(self._engine.start(), self._engine.traits.max_threads, self._engine.departed)
        self._skip_numbers(map(job_number, self._engine.on_record()))
        self._hub = self._make_hub()
        self._watch_failures = Counter[str]()
        self._requests = RequestCounts()
        self._tcp = None if listen is None else TcpListener(listen)
        self._features = BuiltFeatures(features(), self._doors(policies))
        self._core = self._make_core(policies)
        self._engine.attend(self._core.pod_jobs)
        self._site = SiteSettings(
            self._ledger,
            settings,
            lambda: _checked(load()),
            policies,
            renew=self._renew_certificate,
            applied=self._features.applied,
            arrange=[feature.arranged for feature in features()],
        )
        self._patrols = self._make_patrols()
        self._ends = EndSignal()
        self._ledger.subscribe(self._ends.on_change)
        self._unix = ServerSocket(home.socket, for_everyone=_by_root())
        self._api = self._make_api(on_ready)

    def run(self) -> None:
        """Reconcile ledger and nodes, then decide, act and answer until `stop` is called."""
        try:
            self._hub.start(self._core.listener)
            # This commit is queued after the first observations: no request is answered before the devices are known.
            self._ledger.commit(lambda _: Decided((), None)).result()
            self._features.ready()
            self._site.begin()
            self._core.start()
            self._engine.watch(self._node_joined, self._node_left)
            for patrol in self._patrols:
                patrol.start()
            self._api.run()
        finally:
            self._close()
        if (lost := self._ledger.lost) is not None:
            raise LedgerFailed(lost)

    def stop(self) -> None:
        """Answer no more requests and let `run` return. Safe from a signal handler, and before `run`."""
        self._api.stop()

    def _look_after_ledger(self) -> None:
        """Stop the server if its ledger is lost: it can neither decide nor record. The next server says why."""
        if self._ledger.lost is not None:
            self._api.stop()

    def _look_after_socket(self) -> None:
        self._unix.look()

    def reload(self) -> None:
        """Read the settings that can change at run time, and the certificate, again. Safe from a signal handler."""
        self._site.reload_soon()

    def _renew_certificate(self) -> None:
        if self._tcp is not None:
            self._tcp.renew_certificate()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses at which the server answers, for a person."""
        return (str(self._home.socket), *([] if self._tcp is None else [self._tcp.url]))

    @property
    def remarks(self) -> Sequence[str]:
        """Sentences that the person who starts the server should read."""
        return self._engine.remarks

    @property
    def gpus_here(self) -> dict[str, int]:
        """The real GPUs of this host: their indexes by UUID."""
        if not self._engine.traits.here:
            return {}
        nodes = self._ledger.view().nodes.values()
        return {device.uuid: device.index for node in nodes for device in node.devices}

    def _close(self) -> None:
        for patrol in self._patrols:
            patrol.close()
        self._features.close()
        self._core.close()
        self._hub.stop()
        self._engine.close()
        self._ledger.close()
        self._unix.remove()

    async def _serve_also(self, listener: socket.socket) -> None:
        """Answer on one more socket. Features get this before the API is made."""
        await self._api.serve_also(listener)

    def _node_joined(self, name: str, agent: NodeAgent) -> None:
        log.info("node %s has joined", name)
        self._nodes.add(name, agent)
        self._hub.add(name, agent)

    def _node_left(self, name: str) -> None:
        log.info("node %s has left", name)
        self._nodes.remove(name)
        self._hub.remove(name)

    def _skip_numbers(self, known: Iterable[int]) -> None:
        """Skip ids that anything besides the ledger knows: the ledger may have been restored from an older copy."""
        highest = max(known, default=0)
        if self._ledger.skip_ids(highest):
            log.warning("the ledger is older than job %d, which is not in it: new ids begin after it", highest)

    def _make_engine(self, mock: Path | None) -> NodeEngine:
        home, settings, clock = self._home, self._settings, self._clock
        if settings.engine == HOST:
            residents = self._ledger.view().residents
            here = find_host_engine(home, settings, clock, mock, residents, other_hosts=self._has_other_hosts)
            return HostsEngine(here, home, settings, clock)
        return load_engine(settings.engine)(home, settings, clock)

    def _has_other_hosts(self) -> bool:
        hosts = self._engine.traits.hosts
        return hosts is not None and bool(hosts.rows())

    def _make_hub(self) -> Hub:
        view, observe, feed = self._ledger.view, self._ledger.observe, self._engine.traits.feed
        return Hub(self._nodes, self._clock, self._settings, view=view, observe=observe, feed=feed)

    def _make_core(self, policies: Mapping[str, Policy]) -> ControlCore:
        traits = self._engine.traits
        names = next((one for one in traits.offers if isinstance(one, NamesInForce)), None)
        return ControlCore(
            self._ledger,
            self._nodes,
            self._hub,
            self._clock,
            settings=self._settings,
            rules=request_rules(self._settings, self._home, traits.containers, names),
            about=self._about,
            policies=policies,
            server=HostProcesses().identify(os.getpid()),
            log_path=self._engine.log_path,
            via=self._engine.traits.via,
            monitoring=self._features.monitoring,
            job_use=self._features.job_use,
            predict_use=self._features.predict_use,
            uploads=self._make_uploads(),
            registry=ListedRegistries(self._settings.image_registries) if self._settings.image_registries else None,
        )

    def _make_uploads(self) -> StoredUploads | None:
        settings = self._settings
        if settings.engine != HOST:
            return None
        return StoredUploads(
            self._home.uploads,
            most_bytes=settings.upload_max_mib << 20,
            most_bytes_of_user=settings.upload_user_max_mib << 20,
            keep_s=settings.upload_keep_s,
            in_use=lambda: _uploaded(self._ledger.view()),
        )

    def _make_api(self, on_ready: Callable[["Server"], None]) -> ApiServer:
        token = ensure_token(self._home.token_file)
        sessions = self._features.sessions
        authenticator = Authenticator(token=token, tokens=self._ledger.tokens, clock=self._clock, sessions=sessions)
        token_issuer = TokenIssuer(
            self._ledger.tokens,
            self._clock,
            account=find_account,
            is_admin=authenticator.is_admin,
            only_user=None if _by_root() else user_name(os.geteuid()),
        )
        state = AppState(
            service=self._core.service,
            submitter=Submitter(self._core.service),
            authenticator=authenticator,
            token_issuer=token_issuer,
            ends=self._ends,
            site_settings=self._site,
            metrics=self._make_metrics(),
            events=self._make_events(),
            offers=self._features.offers,
            notes=self._features.notes,
        )
        tls = None if self._tcp is None else self._tcp.acceptor()
        plain = [self._unix.socket, *self._features.sockets, *([] if self._tcp is None or tls else [self._tcp.socket])]
        served = ApiServer(http_api(state), plain, self._ends, on_ready=lambda: on_ready(self), tls=tls)
        self._unix.serve = served.serve_also_soon
        return served

    def _make_events(self) -> EventFeed:
        topics = {topic: rows for feature in features() for topic, rows in feature.topics().items()}
        return event_feed(self._ledger, self._hub, self._clock, self._settings.sample_interval_s, topics)

    def _make_metrics(self) -> Metrics:
        jobs = JobCounts(self._ledger.view())
        self._ledger.subscribe(jobs.on_change)
        return Metrics(
            snapshot=self._ledger.snapshot,
            telemetry=self._hub,
            clock=self._clock,
            stale_after_s=self._settings.stale_sample_s,
            hostname_label=self._settings.metrics_hostname_label,
            jobs=jobs,
            requests=self._requests,
            commits=self._ledger.commits,
            cycles=self._core.controller.planning_seconds,
            obstacles=lambda: self._core.controller.obstacles,
            watch_failures=self._watch_failures,
            version=corral.__version__,
            cluster=lambda: self._site.cluster_name,
            started_at=self._started_at,
            of_features=self._features.metrics,
        )

    def _doors(self, policies: Mapping[str, Policy]) -> CoreDoors:
        return CoreDoors(
            home=self._home,
            settings=self._settings,
            clock=self._clock,
            ledger=self._ledger,
            database=self._ledger.database,
            nodes=self._nodes,
            telemetry=self._hub,
            policies=policies,
            obstacles=lambda: self._core.controller.obstacles,
            readings=self._hub.readings,
            requests=self._requests,
            failures=self._watch_failures,
            loopback_url=None if self._tcp is None else self._tcp.loopback_url,
            serve=self._serve_also,
            hosts=self._engine.traits.hosts,
            of_engine=Offers(self._engine.traits.offers),
        )

    def _make_patrols(self) -> tuple[Patrol, ...]:
        onlooker = partial(Patrol, vital=False, failures=self._watch_failures)
        return (
            *job_patrols(self._core, self._ledger, self._nodes, self._hub, self._clock, settings=self._settings),
            # These patrols only record and report. Jobs run and start without them.
            *self._features.patrols,
            onlooker("site-remarks", self._site.look_at_nodes, SITE_REMARKS_INTERVAL_S),
            Patrol("ledger-files", self._look_after_ledger, LEDGER_INTERVAL_S),
            onlooker("socket", self._look_after_socket, SOCKET_INTERVAL_S),
            onlooker("token-uses", self._ledger.tokens.write_uses, TOKEN_USES_INTERVAL_S),
        )

    def _about(self) -> ServerInfo:
        view = self._ledger.view()
        nodes, budget_w = tuple(view.nodes.values()), view.limits.power_budget_w
        cuda, binds = nodes[0].cuda_version if nodes else None, self._engine.pod_scheduler
        return ServerInfo(
            version=corral.__version__,
            pid=os.getpid(),
            home=str(self._home.root),
            user=user_name(os.geteuid()),
            node=nodes[0].name if nodes else None,
            source=self._engine.traits.source,
            driver_version=nodes[0].driver_version if nodes else None,
            cuda_version=f"{cuda[0]}.{cuda[1]}" if cuda else None,
            started_at=self._clock.shown(self._started_at),
            mock=self._engine.traits.source == "mock",
            uptime_s=self._clock.now() - self._started_at,
            keyring_shared=keyring_shared(),
            cluster=self._site.cluster_name,
            pod_scheduler=None if binds is None else binds.name,
            cluster_uid=None if binds is None else binds.cluster_uid,
            power_budget_w=budget_w,
            power_counted_w=None if budget_w is None else counted_power_mw(view, budget_w) / MW_PER_W,
            **self._features.about(),
        )


def _checked(settings: Settings) -> Settings:
    """Return the settings. Raises Refused if a feature finds a mistake."""
    for feature in features():
        feature.check(settings)
    return settings


def _uploaded(view: View) -> list[tuple[str, str]]:
    """Return the users and the trees of the jobs that have files of their own."""
    specs = (job.spec for job in view.jobs.values())
    return [(spec.user, spec.upload.tree) for spec in specs if spec.upload is not None]


def _by_root() -> bool:
    """Whether this server runs as root, so that it can run each job as the user who submits it."""
    return os.geteuid() == 0
