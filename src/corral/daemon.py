"""The composition root: one server, put together from its rooms. Run as `python -m corral.daemon`."""

import argparse
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import corral
from corral.api.app import create_app
from corral.api.auth import Authenticator, ensure_token, find_account, user_name
from corral.api.listening import Listening, TcpListener
from corral.api.server import ApiServer, unix_socket
from corral.api.tls import TlsAcceptor
from corral.api.waiting import EndSignal
from corral.clock import SystemClock
from corral.config import Settings, load_settings
from corral.control.core import ControlCore
from corral.control.device_setup import DeviceSetup
from corral.control.site.reloading import SiteSettings
from corral.control.token_issuer import TokenIssuer
from corral.control.watching.draining import DrainWatch
from corral.control.watching.guards import DaemonWatch, MemoryGuard, Patrol, Stopper
from corral.control.watching.idle_gpus import IdleWatch
from corral.event_log import log_to_stderr
from corral.ledger.store import SqlLedger, open_ledger
from corral.model.device import Node
from corral.model.errors import BackendFailed, CorralError, Refused
from corral.model.fact import Observation
from corral.model.home import Home, find_home
from corral.model.job import JobKind
from corral.model.launch import Lineage, Origin
from corral.model.means import Level, Means
from corral.model.rows import ServerInfo
from corral.model.view import View
from corral.node.file_inspector import HostFileInspector
from corral.node.news import NewsBuffer
from corral.pid_file import only_process_of
from corral.plugins.queue_orders import load_policies
from corral.ports.ledger import Decided
from corral.ports.node import NodeAgent, ServiceLost
from corral.ports.runtime import Runtime
from corral.runtimes.disk import Disks, explained, is_full
from corral.runtimes.process.joblog import append_note
from corral.runtimes.process.launch import LaunchError
from corral.runtimes.process.launches import ProcessLaunches
from corral.runtimes.process.runtime import ProcessRuntime
from corral.runtimes.watch import WatchRuntime
from corral.scheduling.evicting.idle_reclaim import IdlePolicy
from corral.scheduling.policy import placed_by
from corral.sharing.arrange import Arrangement
from corral.sharing.drivers import make_drivers, make_mps, mps_warning, process_mode_warning
from corral.sharing.guard import GuardPolicy
from corral.sharing.mps import Mps
from corral.telemetry.attribution import SERVICE, Attribution
from corral.telemetry.discover import discover
from corral.telemetry.host import host_node
from corral.telemetry.hub import Hub
from corral.telemetry.processes import HostProcesses
from corral.telemetry.sampler import Sampler

log = logging.getLogger("corral")


MPS_INTERVAL_S = 2.0
"""The MPS daemons of shared devices are looked at so often."""

TOKEN_USES_INTERVAL_S = 60.0
"""When tokens were used last is brought to disk so often."""

DRAIN_INTERVAL_S = 1.0
"""How often it is looked whether the deadline of a node that is drained has passed."""

IDLE_INTERVAL_S = 5.0
"""How often it is looked whether held GPUs are used: often enough that none is missed that works now and then."""

BROKEN = 70
"""Exit status after a broken invariant: EX_SOFTWARE of sysexits.h."""


class Server:
    """Every part of a running server, wired. `run` serves until `stop`; the jobs outlive it."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        *,
        mock: Path | None,
        listen: Listening | None,
        on_ready: Callable[["Server"], None],
    ) -> None:
        self._home = home
        self._settings = settings
        policies = placed_by(settings.placement, load_policies())
        self._ledger: SqlLedger = open_ledger(home.ledger_url, _first_view(settings))
        # Where there are no jobs nothing is measured, and a wall clock that was set since the boot can be believed.
        self._clock = SystemClock(home.clock_file, anew=not self._ledger.view().jobs)
        self._started_at = self._clock.now()
        self._source = discover(self._clock, mock=mock, held=self._held_milli, labels=dict(settings.labels))
        self._described = self._source.name == "mock"
        self._processes = HostProcesses()
        self._inspector = HostFileInspector()
        self._runtimes = self._make_runtimes()
        self._mps = mps = make_mps(home.root, settings)
        self._arrangement = Arrangement(settings.sharing, settings.vgpu, one_user=mps.one_user, unfit=mps.unfit)
        self._news = NewsBuffer(self._clock)
        self._sampler = Sampler(
            self._source,
            self._clock,
            settings,
            listener=self._news.sampled,
            attribution=Attribution(self._clock, origins=self._origins, home=str(home.root)),
            arrange=self._arrange,
        )
        self._hub = _HubOfThisHost(self._news, self._sampler, self._ledger, self._clock, settings)
        self._core = ControlCore(
            self._ledger,
            self._runtimes,
            self._hub,
            self._processes,
            self._clock,
            inspector=self._inspector,
            home=home,
            settings=settings,
            device_setup=DeviceSetup(
                make_drivers(settings, mps, described=self._described, by_root=_by_root()),
                home.scratch,
                self._host_means,
            ),
            tell=self._tell,
            about=self._about,
            disk_trouble=Disks((home.root, home.root / "launches", home.logs, home.scratch)).trouble,
            policies=policies,
        )
        self._site = SiteSettings(self._ledger, settings, lambda: load_settings(home.config_file), policies)
        self._patrols = self._make_patrols(mps)
        self._ends = EndSignal()
        self._ledger.subscribe(self._ends.on_change)
        self._unix = unix_socket(home.socket, for_everyone=_by_root())
        self._tcp = None if listen is None else TcpListener(listen)
        self._api = self._make_api(on_ready)

    def run(self) -> None:
        """Bring ledger and machine together, then decide, act and answer until `stop` is called."""
        try:
            mode_warning = process_mode_warning(self._settings, described=self._described, by_root=_by_root())
            for warning in (mps_warning(self._settings), mode_warning):
                if warning is not None:
                    log.warning("%s", warning)
            self._sampler.start()
            self._hub.start(self._hub)
            # Behind the first observations in the ledger's queue: nobody is answered before the devices are known.
            self._ledger.commit(lambda _: Decided((), None)).result()
            self._site.begin()
            self._core.start()
            for patrol in self._patrols:
                patrol.start()
            self._inspector.start()
            self._api.run()
        finally:
            self._close()

    def stop(self) -> None:
        """Answer no more and let `run` return. Safe from a signal handler, and before `run`."""
        self._api.stop()

    def reload(self) -> None:
        """Read settings and certificate again, as far as a running server takes them on. Safe from a signal handler."""
        self._site.reload_soon()
        if self._tcp is not None:
            threading.Thread(target=self._tcp.renew_certificate, name="renew-certificate", daemon=True).start()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the server answers, for a person."""
        return (str(self._home.socket), *([] if self._tcp is None else [self._tcp.url]))

    def _close(self) -> None:
        for patrol in self._patrols:
            patrol.close()
        self._core.close()
        self._inspector.close()
        for runtime in dict.fromkeys(self._runtimes.values()):
            runtime.close()
        self._hub.stop()
        self._sampler.stop()
        self._source.close()
        self._ledger.close()
        self._home.socket.unlink(missing_ok=True)

    def _make_runtimes(self) -> dict[JobKind, Runtime]:
        home, settings = self._home, self._settings
        processes = ProcessLaunches(
            home.root,
            log_max_bytes=settings.log_max_mib * 1024 * 1024,
            kill_grace_s=settings.kill_grace_s,
            on_event=self._look,
            boot_at=self._clock.boot_at,
        )
        try:
            processes.start()
        except LaunchError as error:
            raise BackendFailed(str(error)) from error
        self._host_means = processes.host_means
        for what, level in (("--cpus", self._host_means.cpus), ("--host-memory", self._host_means.memory)):
            if level is Level.ADVISORY:
                log.info("no cgroup here holds jobs to their %s: it is counted, and advisory", what)
        _allow_many_files()
        watch = WatchRuntime(self._processes, self._clock, self._look, kill_grace_s=settings.kill_grace_s)
        local = ProcessRuntime(processes, home)
        return {JobKind.RUN: local, JobKind.RESERVE: watch, JobKind.ADOPT: watch}

    def _make_api(self, on_ready: Callable[["Server"], None]) -> ApiServer:
        token = ensure_token(self._home.token_file)
        authenticator = Authenticator(token=token, tokens=self._ledger.tokens, clock=self._clock)
        token_issuer = TokenIssuer(
            self._ledger.tokens,
            self._clock,
            account=find_account,
            is_admin=authenticator.is_admin,
            only_user=None if _by_root() else user_name(os.geteuid()),
        )
        app = create_app(self._core.service, authenticator, token_issuer, self._ends)
        plain, tls = [self._unix], None
        if self._tcp is not None and self._tcp.certificate is not None:
            tls = TlsAcceptor(self._tcp.socket, self._tcp.certificate)
        elif self._tcp is not None:
            plain.append(self._tcp.socket)
        return ApiServer(app, plain, self._ends, on_ready=lambda: on_ready(self), tls=tls)

    def _make_patrols(self, mps: Mps) -> tuple[Patrol, ...]:
        settings, ledger = self._settings, self._ledger
        stopper = Stopper(ledger, self._clock, self._core.dispatcher.stop)
        policy = GuardPolicy(settings.guard_grace_s, settings.guard_reserve_mib)
        guard = MemoryGuard(ledger, self._hub, self._clock, policy=policy, tell=self._tell, stopper=stopper)
        # Twice as often as samples are taken, so that none waits for long to be judged.
        patrols = [
            Patrol("memory-guard", guard.look, settings.sample_interval_s / 2),
            Patrol("node-drain", DrainWatch(ledger, self._clock, self._core.dispatcher.stop).look, DRAIN_INTERVAL_S),
            Patrol("token-uses", ledger.tokens.write_uses, TOKEN_USES_INTERVAL_S),
        ]
        if any(means is Means.MPS for _, means in settings.sharing):
            patrols.append(Patrol("mps-watch", DaemonWatch(ledger, mps, self._tell, stopper).look, MPS_INTERVAL_S))
        if settings.reclaim_idle_after_s is not None:
            idle = IdlePolicy(settings.reclaim_idle_after_s, settings.reclaim_idle_grace_s)
            watch = IdleWatch(ledger, self._hub, self._clock, policy=idle, tell=self._tell, stopper=stopper)
            patrols.append(Patrol("idle-watch", watch.look, IDLE_INTERVAL_S))
        return tuple(patrols)

    def _tell(self, job_id: str, line: str) -> None:
        try:
            append_note(str(self._home.log_of(job_id)), line)
        except OSError as error:
            log.warning("job %s could not be told in its log: %s", job_id, error.strerror)

    def _look(self, allocation_id: str) -> None:
        # A runtime may have news before the core stands; recovery reads every report anyway.
        core = getattr(self, "_core", None)
        if core is not None:
            core.dispatcher.look(allocation_id)

    def _origins(self) -> tuple[Origin, ...]:
        daemons = (self._processes.identify(pid) for pid in self._mps.daemons())
        services = (Origin(SERVICE, Lineage(daemon)) for daemon in daemons if daemon is not None)
        return (*self._core.dispatcher.origins(), *services)

    def _arrange(self, node: Node) -> Node:
        for why in self._arrangement.refusals(node):
            log.warning("%s", why)
        return self._arrangement.node(node)

    def _held_milli(self) -> dict[str, int]:
        view = self._ledger.view()
        return {uuid: view.allocated_milli(uuid) for uuid in view.holders}

    def _about(self) -> ServerInfo:
        nodes = tuple(self._ledger.view().nodes.values())
        cuda = nodes[0].cuda_version if nodes else None
        return ServerInfo(
            version=corral.__version__,
            pid=os.getpid(),
            home=str(self._home.root),
            user=user_name(os.geteuid()),
            node=nodes[0].name if nodes else None,
            source=self._source.name,
            driver_version=nodes[0].driver_version if nodes else None,
            cuda_version=f"{cuda[0]}.{cuda[1]}" if cuda else None,
            started_at=self._clock.shown(self._started_at),
            mock=self._described,
            uptime_s=self._clock.now() - self._started_at,
        )


class _HubOfThisHost(Hub):
    """The hub of a server that has its own host alone, and samples it itself."""

    def __init__(
        self, news: NewsBuffer, sampler: Sampler, ledger: SqlLedger, clock: SystemClock, settings: Settings
    ) -> None:
        agent = cast(NodeAgent, _NewsOfThisHost(news))
        super().__init__({host_node().name: agent}, clock, settings, view=ledger.view, observe=ledger.observe)
        self._sampler, self._ledger = sampler, ledger

    def refresh(self, uuids: Sequence[str], timeout_s: float) -> tuple[Observation, ...]:
        before = self._ledger.view()
        return self.judged(self._sampler.refresh(uuids, timeout_s), before)

    def on_return(self, node: str, visit: int) -> None:
        self.readmit(node, visit)

    def on_launches(self, node: str, launch_ids: tuple[str, ...]) -> None: ...

    def on_services_lost(self, node: str, lost: tuple[ServiceLost, ...]) -> None: ...

    def on_gone(self, node: str) -> None: ...


class _NewsOfThisHost:
    def __init__(self, buffer: NewsBuffer) -> None:
        self.news = buffer.since


def _first_view(settings: Settings) -> View:
    """An empty cluster, with what the site says of how it is counted."""
    return View(
        usage_half_life_s=settings.fair_share_half_life_s,
        availability_memory_weight=settings.availability_memory_weight,
    )


def _by_root() -> bool:
    """Whether this server is root's, and runs jobs as whoever submits them."""
    return os.geteuid() == 0


def _allow_many_files() -> None:
    """A running job takes a descriptor. After the zygote stands, so that its jobs keep the limit that was set."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. 0 after an orderly stop, 1 when the server could not start."""
    options = _options(argv)
    log_to_stderr()
    os.umask(0o077)
    try:
        home = Home(options.home.absolute()) if options.home else find_home(os.environ, Path.cwd())
        settings = load_settings(home.config_file)
        # Asked for first, because a path that is too long for a socket should cost nobody a ledger.
        _ = home.socket, home.notify_socket
        with only_process_of(home):
            _serve(home, settings, options)
    except (CorralError, OSError) as error:
        reason = explained(home.root, error) if isinstance(error, OSError) and is_full(error) else str(error)
        _tell(options.ready_fd, f"error: {reason}")
        log.error("%s", reason)
        return 1
    return 0


def _serve(home: Home, settings: Settings, options: argparse.Namespace) -> None:
    def on_ready(running: Server) -> None:
        # What is alive now lives until the end: no collection need look at it again.
        gc.freeze()
        log.info("serving on %s", " and ".join(running.addresses))
        _tell(options.ready_fd, "ready")

    server = Server(home, settings, mock=options.mock, listen=_listening(options), on_ready=on_ready)
    threading.excepthook = _crash
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    signal.signal(signal.SIGHUP, lambda *_: server.reload())
    server.run()


def _crash(failure: threading.ExceptHookArgs) -> None:
    """A thread broke on something nobody foresaw. Half a server would lie: end, and let the next one recover."""
    thread = failure.thread.name if failure.thread is not None else "unknown"
    cause = failure.exc_value
    log.critical("the %s thread broke; the server ends, its jobs run on", thread, exc_info=cause)
    os._exit(BROKEN)


def _tell(fd: int | None, line: str) -> None:
    if fd is not None:
        with contextlib.suppress(OSError):
            os.write(fd, f"{line}\n".encode())
            os.close(fd)


def _listening(options: argparse.Namespace) -> Listening | None:
    if options.listen is None:
        if options.tls_cert or options.tls_key or options.insecure:
            raise Refused("--tls-cert, --tls-key and --insecure say how --listen HOST:PORT is answered; give it, too")
        return None
    return Listening(options.listen, options.tls_cert, options.tls_key, options.insecure)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m corral.daemon", description="The Corral server, in the foreground."
    )
    parser.add_argument("--home", type=Path, help="the server's directory; default $CORRAL_HOME or ~/.corral")
    parser.add_argument(
        "--mock", type=Path, help="describe devices in this mock-accelerator.toml instead of finding them"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="answer on TCP too, to holders of tokens")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="encrypt TCP with this certificate (PEM)")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key (PEM)")
    parser.add_argument("--insecure", action="store_true", help="listen beyond this machine without encryption")
    parser.add_argument("--ready-fd", type=int, help="write 'ready' or 'error: ...' to this descriptor")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
