"""`corral up --anew`: begin with an empty ledger, unless something that the previous server has started still runs."""

import logging
import os
import pwd
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from corral.clock import SystemClock
from corral.config import HOST, Settings
from corral.core.model.errors import Conflict, CorralError
from corral.core.model.home import Home
from corral.host.runtimes.docker.presence import socket_there
from corral.host.runtimes.process.records.still_running import still_running, tag_of
from corral.host.runtimes.process.runtime import CONTAINER
from corral.host.traces.earlier import move_aside
from corral.host.traces.homes import homes
from corral.plugins.engines import load_engine

log = logging.getLogger("corral")

_MOST_NAMED = 10


def begin_anew(home: Home, settings: Settings) -> None:
    """Move the files of an earlier ledger aside. The calling process must hold the lock of the home.

    Raises Conflict if something of the earlier ledger runs, or if that cannot be determined. Raises OSError.
    """
    there = [*_users_of_the_ledger(home), *_processes(home), *_containers(home), *_pods(home, settings)]
    there += _on_hosts(home, settings)
    if there:
        more = f" and {len(there) - _MOST_NAMED} more" if len(there) > _MOST_NAMED else ""
        raise Conflict(
            f"--anew: the earlier ledger is still in use: {', '.join(there[:_MOST_NAMED])}{more}. End that first: "
            "`corral up` without --anew, then `corral cancel`, if its ledger still exists; otherwise by hand"
        )
    aside = move_aside(home)
    if aside is None:
        log.info("%s had no earlier ledger", home.root)
    else:
        log.warning("the files of the earlier ledger are in %s now; job ids begin with 1", aside)


def _users_of_the_ledger(home: Home) -> Iterator[str]:
    """The processes that have the ledger open: a server whose lock was removed, or a program that reads the ledger."""
    try:
        ledger = (home.root / "ledger.db").stat()
    except OSError:
        return
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if pid != os.getpid() and _has_open(pid, ledger):
            yield f"process {pid} ({_name_of(pid)}), which has ledger.db open"


def _has_open(pid: int, file: os.stat_result) -> bool:
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), file):
                    return True
    return False


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "gone"


def _user_of(pid: int) -> str:
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        return f" of {pwd.getpwuid(uid).pw_name}"
    except (OSError, KeyError):
        return ""


def _processes(home: Home) -> Iterator[str]:
    for one in homes(home):
        for launch, pid in still_running(one.root).items():
            # Any process can carry such a mark. Without the records, nothing shows whose launch it was.
            yield f"job {launch} (process {pid}{_user_of(pid)})"


def _containers(home: Home) -> Iterator[str]:
    places = homes(home)
    used = any(name.startswith(CONTAINER) for one in places for name in _launches(one))
    if not socket_there():
        if used:
            raise Conflict(
                "--anew: jobs ran in containers here, and Docker has no socket: start Docker, then try again"
            )
        return
    # The Docker library is large, so it is imported here.
    from corral.host.runtimes.docker.daemon_calls import LOOK_TIMEOUT_S, Daemon, DaemonRefused, DaemonUnreachable

    try:
        with closing(Daemon(LOOK_TIMEOUT_S)) as daemon:
            for one in places:
                for name in daemon.running(tag_of(one.root)):
                    yield f"container {name}"
    except (DaemonUnreachable, DaemonRefused) as error:
        if used:
            raise Conflict(
                f"--anew: jobs ran in containers here, and Docker does not tell which run: {error}"
            ) from error


def _launches(home: Home) -> list[str]:
    try:
        return os.listdir(home.launches)
    except OSError:
        return []


def _on_hosts(home: Home, settings: Settings) -> list[str]:
    """The jobs that run on joined hosts, as their agents say."""
    if settings.engine != HOST or not home.hosts_file.exists():
        return []
    # Most servers have no hosts.
    from corral.engines.hosts.host_pool import HostPool

    hosts = HostPool(home, settings, SystemClock(home.clock_file, anew=False))
    try:
        hosts.start(())
        return list(hosts.at_work())
    except CorralError as error:
        raise Conflict(
            f"--anew: it is unknown whether jobs of the earlier ledger still run on joined hosts: {error}. Have it "
            f"answer; or take it out of the settings or, with all others, remove {home.hosts_file}"
        ) from error
    finally:
        hosts.close()


def _pods(home: Home, settings: Settings) -> Iterator[str]:
    if not home.cluster_tag_file.exists():
        return
    if settings.engine == HOST:
        raise Conflict(
            "--anew: the earlier ledger had pods in a Kubernetes cluster, which may still run: give --engine "
            "kubernetes and the options that name the cluster, too"
        )
    engine = load_engine(settings.engine)(home, settings, SystemClock(home.clock_file, anew=False))
    try:
        engine.start()
        yield from engine.at_work()
    except CorralError as error:
        raise Conflict(f"--anew: it is unknown whether pods of the earlier ledger still run: {error}") from error
    finally:
        engine.close()
