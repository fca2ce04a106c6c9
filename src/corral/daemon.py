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
from collections.abc import Sequence
from pathlib import Path

from corral.api.listening import Listening
from corral.config import Settings, load_settings
from corral.device_claims import claimed, warning_of_others
from corral.event_log import log_to_stderr
from corral.model.errors import CorralError, Refused
from corral.model.home import Home, find_home
from corral.pid_file import only_process_of
from corral.runtimes.disk import explained, is_full
from corral.server import Server

log = logging.getLogger("corral")

BROKEN = 70
"""Exit status after a broken invariant: EX_SOFTWARE of sysexits.h."""


_M_ARENA_MAX = -8
"""The number of this option of mallopt(3) in glibc's malloc.h."""

_ARENAS = 2
"""Of the C library's memory. It gives each thread one of its own otherwise, which keeps the most that the thread ever
needed: after ten minutes under load, 90 of a server's 200 MiB. Python's own small objects are in none of them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. 0 after an orderly stop, 1 when the server could not start."""
    options = _options(argv)
    limit_arenas()
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


def limit_arenas() -> bool:
    """Have threads share the C library's memory. Whether it has such a limit: musl has none, and needs none."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_ARENA_MAX, _ARENAS) == 1


def _serve(home: Home, settings: Settings, options: argparse.Namespace) -> None:
    def on_ready(running: Server) -> None:
        # What is alive now lives until the end: no collection need look at it again.
        gc.freeze()
        log.info("serving on %s", " and ".join(running.addresses))
        marks.enter_context(claimed(running.gpus_here))
        if (warning := warning_of_others(running.gpus_here, os.getpid())) is not None:
            log.warning("%s", warning)
        _tell(options.ready_fd, "ready")

    server = Server(home, settings, mock=options.mock, listen=_listening(options), on_ready=on_ready)
    threading.excepthook = _crash
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    signal.signal(signal.SIGHUP, lambda *_: server.reload())
    with contextlib.ExitStack() as marks:
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
