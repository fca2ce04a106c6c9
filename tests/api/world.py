"""A real service over a real ledger, served on real sockets; only the devices and the deciding loop are still."""

import http.client
import json
import os
import pwd
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corral.api.answers.waiting import EndSignal
from corral.api.connections.tls import Certificate, TlsAcceptor
from corral.api.events.event_feed import event_feed
from corral.api.offers import Offers
from corral.api.requests.auth import Authenticator, find_account
from corral.api.requests.submitting import Submitter
from corral.api.routing import AppState
from corral.api.server import ApiServer, tcp_socket, unix_socket
from corral.app.http_api import http_api
from corral.clock import ManualClock, SystemClock
from corral.config import Settings, load_settings
from corral.core.control.core import ControlCore
from corral.core.control.metrics.job_counts import JobCounts
from corral.core.control.metrics.request_counts import RequestCounts
from corral.core.control.metrics.scrape import Metrics
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.site.reloading import SiteSettings
from corral.core.control.submitting.device_request import RequestRules
from corral.core.control.token_issuer import TokenIssuer
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.answers.site import ServerInfo
from corral.core.model.devices.device import Device, DeviceCondition, DeviceSample, Node
from corral.core.model.devices.price import Price
from corral.core.model.fact import ConditionObserved, JobChanged, NodeObserved
from corral.core.model.home import Home
from corral.core.model.jobs.job import ProcessIdentity
from corral.core.ports.ledger import Decided
from corral.core.ports.node import ProcessFound
from corral.core.scheduling.policy import POLICIES
from corral.features.alerts.alert_access import AlertAccess
from corral.features.building import BuiltFeatures, CoreDoors
from corral.features.channels.delivery import Delivery
from corral.features.dashboard.dashboard import Dashboard
from corral.features.dashboard.listener import LoopbackListener
from corral.features.dashboard.page_files import PageFiles
from corral.features.feature_list import features, slices
from corral.features.history.server_history import ServerHistory
from corral.host.node.files.job_logs import JobLogs
from corral.host.node.mock.simulated_node import SimulatedHost, SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.live_server import QuietHub

PATIENCE_S = 60.0
"""What has not come about after so long hangs: no machine is that slow."""

BUILT_PAGES = "built-pages"
"""Below the home of a world; it need not exist."""
SAMPLE_INTERVAL_S = 0.1
TOKEN = "a-token-of-sufficient-length"
UUIDS = ("GPU-00000000-0000-0000-0000-000000000000", "GPU-11111111-1111-1111-1111-111111111111")


async def _nowhere(listener: socket.socket) -> None:
    """No server answers on another socket before one is made."""


class ProcessesOfThisHost(SimulatedHost):
    def process(self, pid: int) -> ProcessFound | None:
        if not Path(f"/proc/{pid}").exists():
            return None
        return ProcessFound(ProcessIdentity(pid, 1, "boot"), os.stat(f"/proc/{pid}").st_uid, (pid,))


class NodeOfThisHost(SimulatedNode):
    """Runs nothing, and has the processes and the job logs of this host, as far as routes ask about them."""

    def __init__(self, home: Home) -> None:
        super().__init__(SimulatedRuntime(SystemClock()), SystemClock())
        self.parts |= {"logs": JobLogs(home.logs), "host": ProcessesOfThisHost(self)}


class World:
    """One home with its ledger and service; nothing decides, so jobs wait until they are cancelled."""

    def __init__(self, root: Path, node: SimulatedNode | None = None) -> None:
        self.home = Home(root)
        self.home.logs.mkdir(exist_ok=True)
        self.home.scratch.mkdir(exist_ok=True)
        self.node = NodeOfThisHost(self.home) if node is None else node
        self.ends = EndSignal()
        self.ledger: SqlLedger = open_ledger(self.home.ledger_url, slices=slices())
        self.ledger.subscribe(self.ends.on_change)
        self.samples: dict[str, DeviceSample] = {}
        devices = tuple(Device(uuid, index, "Mock GPU", 16384) for index, uuid in enumerate(UUIDS))
        self.ledger.observe(
            [NodeObserved(Node("here", devices, 8000, 32768)), *(ConditionObserved(DeviceCondition(u)) for u in UUIDS)]
        )
        # Operations are published in order: after this one the devices are there.
        self.ledger.commit(lambda _: Decided((), None)).result()
        self.site_settings = SiteSettings(
            self.ledger, Settings(), lambda: load_settings(self.home.config_file), POLICIES
        )
        nodes = {"here": self.node}
        hub, clock = QuietHub(nodes), SystemClock()
        self.requests = RequestCounts()
        self.features = BuiltFeatures(
            features(),
            CoreDoors(
                home=self.home,
                settings=Settings(sample_interval_s=1.0, prices=(Price(2_000_000),), currency="EUR"),
                clock=clock,
                ledger=self.ledger,
                database=self.ledger.database,
                nodes=Nodes(nodes),
                telemetry=hub,
                policies=POLICIES,
                obstacles=dict,
                readings=lambda: self.samples,
                requests=self.requests,
                failures=Counter(),
                hosts=None,
                of_engine=Offers(),
                loopback_url=None,
                serve=_nowhere,
            ),
        )
        self.features.applied(Settings())
        self.history = self.features.offers.of(ServerHistory)
        core = ControlCore(
            self.ledger,
            Nodes(nodes),
            hub,
            clock,
            settings=Settings(),
            rules=RequestRules(),
            about=self._about,
            monitoring=self.features.monitoring,
            job_use=self.features.job_use,
            predict_use=self.features.predict_use,
        )
        self.service = core.service
        self.delivery = self.features.offers.of(Delivery)
        alerts = AlertAccess(self.ledger, clock, lambda: {"hot": 3})
        self.offered = (*self.features.offers, alerts)
        self.cluster_name: str | None = None
        self.metrics = Metrics(
            snapshot=self.ledger.snapshot,
            telemetry=hub,
            clock=clock,
            stale_after_s=10.0,
            hostname_label="hostname",
            jobs=JobCounts(self.ledger.view()),
            requests=self.requests,
            commits=self.ledger.commits,
            cycles=core.controller.planning_seconds,
            obstacles=dict,
            watch_failures={"alerts": 2},
            version="1",
            cluster=lambda: self.cluster_name,
            started_at=clock.now(),
            of_features=self.features.metrics,
        )

        topics = {topic: rows for feature in features() for topic, rows in feature.topics().items()}
        self.events = event_feed(self.ledger, self, clock, SAMPLE_INTERVAL_S, topics)

    def latest(self) -> dict[str, DeviceSample]:
        """As `corral.core.ports.telemetry.Samples` has it."""
        return dict(self.samples)

    def app_state(
        self, authenticator: Authenticator, token_issuer: TokenIssuer, dashboard: Dashboard | None = None
    ) -> AppState:
        return AppState(
            service=self.service,
            submitter=Submitter(self.service),
            authenticator=authenticator,
            token_issuer=token_issuer,
            ends=self.ends,
            site_settings=self.site_settings,
            metrics=self.metrics,
            events=self.events,
            offers=Offers((*self.offered, *([] if dashboard is None else [dashboard]))),
            notes=self.features.notes,
        )

    def _about(self) -> ServerInfo:
        return ServerInfo(version="1", pid=os.getpid(), home=str(self.home.root), **self.features.about())

    def log_of(self, job_id: str, rank: int = 0) -> Path:
        """Where a member of a job writes, which is launched once for that: a job that never was has no log."""
        if not self.ledger.view().jobs[job_id].launches:
            launched = JobChanged(job_id, {"launches": 1}, at=time.time(), by="test")
            self.ledger.commit(lambda _: Decided((launched,), None)).result()
        return self.home.log_of(job_id, rank)

    def close(self) -> None:
        self.features.close()
        self.ledger.close()


class Served:
    """A world that answers on a Unix socket and over TCP, encrypted where it is given a certificate."""

    def __init__(
        self,
        world: World,
        *,
        server_uid: int | None = None,
        certificate: Certificate | None = None,
        proxied_host: str | None = None,
    ) -> None:
        self.world = world
        self.path = world.home.socket
        uid = os.geteuid() if server_uid is None else server_uid
        self.clock = ManualClock(time.time())
        tokens = world.ledger.tokens
        self.dashboard = Dashboard(
            LoopbackListener(world.home.page_port_file, None, self._serve_also),
            SystemClock(),
            PageFiles(world.home.root / BUILT_PAGES),
            proxied_host=proxied_host,
        )
        authenticator = Authenticator(
            token=TOKEN, tokens=tokens, clock=self.clock, server_uid=uid, sessions=self.dashboard
        )
        only_user = pwd.getpwuid(uid).pw_name if uid else None
        token_issuer = TokenIssuer(
            tokens, self.clock, account=find_account, is_admin=authenticator.is_admin, only_user=only_user
        )
        tcp = tcp_socket("127.0.0.1:0")
        self.port: int = tcp.getsockname()[1]
        sockets = [unix_socket(self.path, for_everyone=True), *([] if certificate else [tcp])]
        tls = None if certificate is None else TlsAcceptor(tcp, certificate)
        self.ready = threading.Event()
        self.app_state = world.app_state(authenticator, token_issuer, self.dashboard)
        self.server = ApiServer(http_api(self.app_state), sockets, world.ends, on_ready=self.ready.set, tls=tls)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        assert self.ready.wait(PATIENCE_S)

    async def _serve_also(self, listener: socket.socket) -> None:
        await self.server.serve_also(listener)

    def stop(self) -> None:
        self.server.stop()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()

    def call(self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None) -> "Answer":
        """One request over the Unix socket."""
        with self.connection() as connection:
            return exchange(connection, method, path, body, headers or {})

    def call_tcp(self, method: str, path: str, body: Any = None, *, token: str | None = TOKEN) -> "Answer":
        """One request over TCP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            return exchange(connection, method, path, body, {"Authorization": f"Bearer {token}"} if token else {})
        finally:
            connection.close()

    @contextmanager
    def connection(self) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        connection.sock = self.raw_connection()
        try:
            yield connection
        finally:
            connection.close()

    def raw_connection(self) -> socket.socket:
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        raw.settimeout(PATIENCE_S)
        raw.connect(os.fspath(self.path))
        return raw

    def submit(self, **fields: Any) -> str:
        answer = self.call("POST", "/jobs", {"command": ["true"], **fields})
        assert answer.status == 201, answer.data
        return str(answer.data["id"])


class Answer:
    """Status, headers and body of one answer; `data` is the body as JSON."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.data["error"]


def exchange(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any, headers: Mapping[str, str]
) -> Answer:
    """Send a request, below /api/v1 unless it says where; a body that is not bytes is sent as JSON."""
    target = path if path.startswith("/api/") else f"/api/v1{path}"
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, target, raw, dict(headers))
    return Answer(connection.getresponse())
