"""One server as a process: its options, its lock, its log and its signals. Run as `python -m corral.daemon`."""

import argparse
import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from corral.config import HOST, Settings, load_settings
from corral.core.model.errors import CorralError, Refused
from corral.core.model.home import Home, find_home
from corral.device_claims import claimed, warning_of_others
from corral.event_log import log_to_stderr
from corral.host.runtimes.disk import explained, is_full
from corral.pid_file import make_job_directories, only_process_of

if TYPE_CHECKING:
    from corral.api.connections.listening import Listening

log = logging.getLogger("corral")

BROKEN = 70
"""The exit status after a broken invariant: EX_SOFTWARE of sysexits.h."""


_M_ARENA_MAX = -8
"""The number of the option M_ARENA_MAX of mallopt(3) in glibc's malloc.h."""

KUBERNETES = "kubernetes"
"""The engine for which the options that name a cluster are valid."""

_ARENAS = 2
"""The number of memory arenas of the C library. By default each thread has its own arena, which keeps the most memory
that the thread ever needed. After ten minutes under load, this was 90 of a server's 200 MiB. Python allocates its own
small objects elsewhere.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Return 0 after an orderly stop, 1 if the server could not start."""
    options = parse_options(argv)
    limit_arenas()
    log_to_stderr()
    os.umask(0o077)
    try:
        home = Home(options.home.absolute()) if options.home else find_home(os.environ, Path.cwd())
        load = partial(settings_with, home, options)
        settings = load()
        # The socket paths are checked first: a path that is too long for a socket must not cost a ledger.
        _ = home.socket, home.notify_socket
        with only_process_of(home):
            if options.anew:
                from corral.app.anew import begin_anew

                begin_anew(home, settings)
                make_job_directories(home)
            _serve(home, settings, load, options)
    except (CorralError, OSError) as error:
        reason = explained(home.root, error) if isinstance(error, OSError) and is_full(error) else str(error)
        _tell(options.ready_fd, f"error: {reason}")
        log.error("%s", reason)
        return 1
    return 0


def limit_arenas() -> bool:
    """Let threads share the C library's memory. Return whether it has this limit: musl has none, and needs none."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_ARENA_MAX, _ARENAS) == 1


def _serve(home: Home, settings: Settings, load: Callable[[], Settings], options: argparse.Namespace) -> None:
    # Objects that a server loads at its start stay alive. The garbage collector, which would check them repeatedly,
    # took nearly half of a start over a large cluster, and an eighth of the smallest start.
    gc.disable()
    from corral.app.server import Server

    def on_ready(running: Server) -> None:
        # The objects that are alive now live until the end, so no collection needs to check them again.
        gc.collect()
        gc.freeze()
        gc.enable()
        log.info("serving on %s", " and ".join(running.addresses))
        marks.enter_context(claimed(running.gpus_here))
        if (warning := warning_of_others(running.gpus_here, os.getpid())) is not None:
            log.warning("%s", warning)
        _tell(options.ready_fd, *(f"remark: {one}" for one in running.remarks), "ready")

    listen = _listening(options)
    server = Server(home, settings, load, mock=options.mock, listen=listen, on_ready=on_ready)
    threading.excepthook = _crash
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    signal.signal(signal.SIGHUP, lambda *_: server.reload())
    with contextlib.ExitStack() as marks:
        server.run()


def _crash(failure: threading.ExceptHookArgs) -> None:
    """End the process: a thread had an unforeseen error. A half-working server would mislead; the next one recovers."""
    thread = failure.thread.name if failure.thread is not None else "unknown"
    cause = failure.exc_value
    log.critical("the %s thread failed; the server ends, its jobs run on", thread, exc_info=cause)
    os._exit(BROKEN)


def settings_with(home: Home, options: argparse.Namespace) -> Settings:
    """The settings of the home. The options override their engine and cluster. Raises Refused."""
    settings = load_settings(home.config_file)
    if options.mock is not None:
        if options.engine is not None:
            raise Refused(f"--mock describes devices in place of those of --engine {options.engine}; leave one out")
        return replace(settings, engine=HOST)
    engine = options.engine or settings.engine
    named = [name for name in ("kubeconfig", "context", "namespace") if getattr(options, name) is not None]
    if named and engine != KUBERNETES:
        raise Refused(f"--{named[0]} names a Kubernetes cluster; give --engine {KUBERNETES}, too")
    cluster = settings.kubernetes
    cluster = replace(
        cluster,
        kubeconfig=cluster.kubeconfig if options.kubeconfig is None else str(options.kubeconfig),
        context=options.context or cluster.context,
        namespace=options.namespace or cluster.namespace,
    )
    return replace(settings, engine=engine, kubernetes=cluster)


def _tell(fd: int | None, *lines: str) -> None:
    if fd is not None:
        with contextlib.suppress(OSError):
            os.write(fd, "".join(f"{line}\n" for line in lines).encode())
            os.close(fd)


def _listening(options: argparse.Namespace) -> "Listening | None":
    from corral.api.connections.listening import Listening

    if options.listen is None:
        if options.tls_cert or options.tls_key or options.tls_client_ca or options.insecure:
            raise Refused(
                "--tls-cert, --tls-key, --tls-client-ca and --insecure say how --listen HOST:PORT is answered; give "
                "it, too"
            )
        return None
    return Listening(options.listen, options.tls_cert, options.tls_key, options.insecure, options.tls_client_ca)


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of a server's process. None stands for the arguments of this process."""
    parser = argparse.ArgumentParser(
        prog="python -m corral.daemon", description="The Corral server, in the foreground."
    )
    parser.add_argument("--home", type=Path, help="the server's directory; default $CORRAL_HOME or ~/.corral")
    parser.add_argument(
        "--mock", type=Path, help="describe devices in this mock-accelerator.toml instead of finding them"
    )
    parser.add_argument("--engine", metavar="NAME", help=f"where nodes come from; default {HOST}: this machine")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig file; default as for kubectl")
    parser.add_argument("--context", metavar="NAME", help="the context in the kubeconfig")
    parser.add_argument(
        "--namespace", metavar="NAME", help="namespace of the pods of jobs; default that of the context"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="answer on TCP too, to holders of tokens")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="encrypt TCP with this certificate (PEM)")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key (PEM)")
    parser.add_argument(
        "--tls-client-ca", type=Path, metavar="FILE", help="clients may show certificates signed by these (PEM)"
    )
    parser.add_argument("--insecure", action="store_true", help="listen beyond this machine without encryption")
    parser.add_argument(
        "--anew", action="store_true", help="move the files of an earlier ledger aside, and begin with an empty one"
    )
    parser.add_argument("--ready-fd", type=int, help="write 'remark: ...', 'ready', 'error: ...' to this descriptor")
    return parser.parse_args(argv)


def leave(status: int) -> NoReturn:
    """End the process, after everything was closed. Other threads may still compute answers for which nobody waits."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(status)
