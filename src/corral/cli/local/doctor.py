"""`corral doctor`: check this machine and this home. It needs no server and changes nothing."""

import ctypes
import logging
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import corral
from corral.as_login import keyring_shared
from corral.cli.commands import serving
from corral.cli.declaring import load
from corral.cli.local.served_nodes import served_nodes
from corral.cli.local.server import another_owner, answering
from corral.cli.screen import painted, print_json, width, wrapped, write_painted
from corral.cli.server_part import install_command, missing_packages
from corral.client import Client, DeviceRow, NoServer, own_home
from corral.client.connecting.machine_server import how_to_restart, how_to_start
from corral.client.connecting.server_home import SYSTEM_HOME, find_server_home
from corral.config import Settings, load_settings
from corral.core.model.devices.device import FIRST_VENDOR, DeviceSample, Node
from corral.core.model.errors import Conflict, CorralError, Refused
from corral.core.model.home import Home
from corral.core.model.printable import printable
from corral.core.model.units import count_of, format_memory
from corral.files import read_start
from corral.formatting.check_result import FAILURE, OK, WARNING, CheckResult
from corral.host.traces.earlier import refuse_without_ledger

if TYPE_CHECKING:
    from corral.engines.kubernetes.doctor import ServerHere

_STYLES = {OK: "green", WARNING: "yellow", FAILURE: "red"}

LEAST_FREE_MIB = 1024
"""With less free space than this in the home, logs and the ledger are at risk."""

_INDENT = 20
"""The columns before the finding."""

DRIVER_PATIENCE_S = 10.0
"""A driver that takes longer counts as hanging."""

_TIMEX_BYTES = 208
_CLOCK_UNSYNCHRONISED = 5


Check = Callable[[Home], CheckResult]


def doctor(given: serving.DoctorCommand) -> int:
    """Run `corral doctor`."""
    if given.engine is None:
        findings = _findings(_home())
    elif given.engine == "kubernetes":
        findings = _cluster_findings(given.kubeconfig, given.context, given.namespace, given.prometheus)
    else:
        raise Refused(
            f"--engine {given.engine!r} is not known; `corral doctor` checks kubernetes, or this machine",
            field="engine",
        )
    if given.json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            write_painted(*lines_of(finding))
    return int(any(finding.state == FAILURE for finding in findings))


def _cluster_findings(
    kubeconfig: str | None, context: str | None, namespace: str | None, prometheus_url: str | None
) -> list[CheckResult]:
    from corral.engines.kubernetes.cluster.client import Cluster
    from corral.engines.kubernetes.doctor import examine
    from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingSources
    from corral.features.feature_list import features

    try:
        cluster = Cluster.connect(kubeconfig, context, namespace)
    except Refused as refused:
        return [CheckResult("cluster", FAILURE, str(refused))]
    more = {about: load(where) for feature in features() for about, where in feature.cluster_checks}
    return list(examine(cluster, ReadingSources(prometheus_url), _server_here(own_home()), more))


def _server_here(home: Home) -> "ServerHere":
    """The facts in this home about its server in a cluster, as far as this user may read them."""
    from corral.core.control.submitting.device_request import site_catalogue
    from corral.engines.kubernetes.doctor import ServerHere

    here = ServerHere()
    with suppress(CorralError):
        settings = load_settings(home.config_file)
        named, names = settings.kubernetes, site_catalogue(settings, home)
        here = replace(here, scheduler=named.scheduler_name, agent_account=named.agent_account, names=names)
    with suppress(OSError):
        here = replace(here, tag=read_start(home.cluster_tag_file, 64).decode(errors="replace").strip() or None)
    return here


def _findings(home: Home) -> list[CheckResult]:
    from corral.cli.local.doctor_client import client_findings, is_client_elsewhere

    if is_client_elsewhere(home):
        return [check_packages(home), *client_findings()]
    return [*(check(home) for check in CHECKS), *_host_findings(home), *gpu_findings(home, node_here()[0])]


def _home() -> Home:
    """The home of the server that other commands use, so that no two findings are about different servers."""
    with suppress(Refused):
        return find_server_home(os.environ)
    return own_home()


def _host_findings(home: Home) -> list[CheckResult]:
    """The findings about joined hosts, which only a running server knows."""
    from corral.cli.local.doctor_hosts import hosts_findings

    with suppress(CorralError), Client(home.root) as client:
        return hosts_findings(client)
    return []


def check_packages(_home: Home) -> CheckResult:
    """The parts of Corral that are installed here, and their location."""
    if missing_packages():
        return CheckResult("packages", OK, f"a client's, in {sys.prefix}", f"to run a server here: {install_command()}")
    return CheckResult("packages", OK, f"a client's and a server's, in {sys.prefix}")


def check_home(home: Home) -> CheckResult:
    """Check that the directory can be used and that its socket's path is short enough."""
    _ = home.socket
    if (owner := another_owner(home)) is not None:
        if answering(home) is not None:
            return CheckResult("home", OK, f"{home.root} belongs to {owner}; you may use its server")
        advice = f"ask {owner} for access, or set CORRAL_HOME to a directory of yours"
        return CheckResult("home", FAILURE, f"{home.root} belongs to {owner}, and no server there answers you", advice)
    nearest = next(path for path in (home.root, *home.root.parents) if path.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        return CheckResult("home", FAILURE, f"you cannot write to {nearest}", "set CORRAL_HOME to a directory of yours")
    made = "" if nearest == home.root else ", created by the first `corral up`"
    return CheckResult("home", OK, f"{home.root}{made}")


def check_settings(home: Home) -> CheckResult:
    """Check that a server would accept the settings file."""
    if not home.config_file.exists():
        return CheckResult("settings", OK, "no config.yaml, so every setting has its default value")
    if not os.access(home.config_file, os.R_OK):
        return _not_yours_to_read("settings", home.config_file)
    from corral.core.control.site.from_settings import site_setup
    from corral.features.feature_list import features
    from corral.plugins.queue_orders import load_policies

    try:
        settings = load_settings(home.config_file)
        for feature in features():
            feature.check(settings)
        asked = settings.expected_gpus is not None or settings.pools or settings.sharing
        nodes = _nodes_served(home) if asked else None
        arrange = [feature.arranged for feature in features()]
        remarks = site_setup(settings, nodes, load_policies(), arrange=arrange).remarks
    except Refused as refused:
        return CheckResult("settings", FAILURE, str(refused), "correct that line; the server does not start with it")
    if remarks:
        words = f"{home.config_file}: {'; '.join(remarks)}"
        return CheckResult("settings", WARNING, words, "check: corral config check")
    return CheckResult("settings", OK, str(home.config_file))


def _server_of(home: Home) -> tuple[bool, bool]:
    """Whether devices are mock devices, and the server is root's: the running server, or one this user would start."""
    with suppress(CorralError), Client(home.root) as client:
        server = client.server()
        return server.mock, server.user == "root"
    return False, os.geteuid() == 0


def _nodes_served(home: Home) -> list[Node] | None:
    """The nodes of the server; this machine if no server runs. None if they cannot be determined."""
    with suppress(CorralError), Client(home.root) as client:
        return served_nodes(client)
    node = node_here()[0]
    return None if node is None else [node]


def check_server(home: Home) -> CheckResult:
    """Check that a server answers, and that its version is that of this command."""
    try:
        with Client() as client:
            server, at = client.server(), client.address
    except NoServer:
        owner = another_owner(home)
        mine = owner is None or str(home) == str(SYSTEM_HOME)
        advice = how_to_start(home) if mine else f"only {owner} can start one there"
        return CheckResult("server", WARNING, f"no server is running in {home.root}", advice)
    if server.version != corral.__version__:
        found = f"the server (pid {server.pid}) runs {server.version}, this command is {corral.__version__}"
        return CheckResult("server", WARNING, found, how_to_restart(at.home))
    where = "" if at.home == home and not at.url else f" at {at.url or at.home.root}"
    found = f"pid {server.pid} of {server.user} answers{where}, version {server.version}, devices from {server.source}"
    return CheckResult("server", OK, found)


def check_nodes(home: Home) -> CheckResult:
    """Check that jobs may start on every node of the server."""
    from corral.cli.local.doctor_devices import nodes_finding

    with suppress(CorralError), Client(home.root) as client:
        return nodes_finding(client.nodes.list())
    return CheckResult("nodes", OK, "only a running server knows them")


def check_ledger(home: Home) -> CheckResult:
    """Check that the database can be opened, and that this version supports its format."""
    path = home.root / "ledger.db"
    if not path.exists() or not path.stat().st_size:
        try:
            refuse_without_ledger(home)
        except Conflict as error:
            what, _, advice = str(error).partition(". ")
            return CheckResult("ledger", FAILURE, what, advice)
        return CheckResult("ledger", OK, "none yet; the first `corral up` creates it")
    if not os.access(path, os.R_OK):
        return _not_yours_to_read("ledger", path)
    try:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=1.0)
        try:
            tables = database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
            formats = database.execute("SELECT version_num FROM alembic_version").fetchall() if tables else []
        finally:
            database.close()
    except sqlite3.Error as error:
        advice = "stop the server and restore a backup (docs/install.md), or begin anew: corral up --anew"
        return CheckResult("ledger", FAILURE, f"{path} cannot be read: {error}", advice)
    if missing_packages():
        return CheckResult("ledger", OK, f"{path} can be read; its format is checked where a server is installed")
    from corral.core.ledger.schema import unknown_format

    for (found,) in formats:
        if (unknown := unknown_format(path, str(found))) is not None:
            what, _, advice = unknown.partition("; ")
            return CheckResult("ledger", FAILURE, what, advice)
    return CheckResult(
        "ledger", OK, f"{path}, {format_memory(-(-path.stat().st_size // 1048576))}, {count_of(tables, 'table')}"
    )


def _not_yours_to_read(about: str, path: Path) -> CheckResult:
    """The finding for a file that only the server's owner may read. It is no problem, but the file is not checked."""
    return CheckResult(
        about, OK, f"only the server's owner may read {path}; run `corral doctor` as that user to check it"
    )


def devices_here() -> tuple[int, str]:
    """The number of GPUs that this machine's driver reports, and the source; 0 and the reason if there are none."""
    node, source = node_here()
    return 0 if node is None else len(node.devices), source


def node_here() -> tuple[Node | None, str]:
    """This machine as its driver reports it, and the source. None and the reason if it reports nothing or hangs."""
    here = driver_here()
    return here.node, here.source


class DriverHere(NamedTuple):
    """A driver's report of this machine. `source` names the library, or the reason if there is no node."""

    node: Node | None
    source: str
    samples: tuple[DeviceSample, ...] = ()
    unopened: tuple[str, ...] = ()


def driver_here() -> DriverHere:
    """The driver's report, within DRIVER_PATIENCE_S."""
    answers: list[DriverHere] = []
    asking = threading.Thread(target=lambda: answers.append(_ask_driver()), name="driver", daemon=True)
    asking.start()
    asking.join(DRIVER_PATIENCE_S)
    return answers[0] if answers else DriverHere(None, f"the driver has not answered within {DRIVER_PATIENCE_S:g} s")


def _ask_driver() -> DriverHere:
    from corral.clock import SystemClock
    from corral.host.telemetry.discover import discover

    logging.disable(logging.WARNING)  # its warnings are in the report already
    try:
        source = discover(SystemClock())
        node = source.node()
        samples = source.sample()
        source.close()
    except CorralError as error:
        return DriverHere(None, str(error))
    finally:
        logging.disable(logging.NOTSET)
    unopened: tuple[str, ...] = getattr(source, "unopened", ())
    if not node.devices:
        return DriverHere(None, getattr(source, "reason", None) or "; ".join(unopened) or "the driver reports no GPU")
    return DriverHere(node, f"through {source.name}, driver {node.driver_version}", samples, unopened)


def check_devices(home: Home) -> CheckResult:
    """Check that a driver has GPUs, or that the server has mock devices, and that all of them are healthy."""
    from corral.cli.local.doctor_devices import devices_finding

    rows: Sequence[DeviceRow] | None = None
    with suppress(CorralError), Client(home.root) as client:
        rows = client.devices.list()
        if client.server().mock:
            return devices_finding(rows, ", mock devices (--mock)", described=True)
    here = driver_here()
    if here.node is None:
        return CheckResult("GPUs", WARNING, here.source, "make nvidia-smi work; without a GPU, try `corral demo`")
    return devices_finding(rows or _judged(home, here.node, here.samples), f" {here.source}", unopened=here.unopened)


def _judged(home: Home, node: Node, samples: Sequence[DeviceSample]) -> list[DeviceRow]:
    """The devices in the state that a server would give them now."""
    from corral.host.telemetry.device_condition import judge
    from corral.host.telemetry.signs.device_signs import signs_of
    from corral.host.telemetry.signs.reading import NOTHING_BEFORE

    settings = Settings()
    with suppress(CorralError):  # another check reports errors in the home's settings
        settings = load_settings(home.config_file)
    devices = {device.uuid: device for device in node.devices}
    rows = []
    for sample in samples:
        if (device := devices.get(sample.uuid)) is not None:
            signs, _ = signs_of(device, sample, NOTHING_BEFORE, max_temperature_c=settings.max_temperature_c)
            condition = judge(device, replace(sample, signs=signs), None, (), settings, now_s=0.0).condition
            state = condition.state()
            rows.append(
                DeviceRow(device.uuid, device.index, device.model, state.value, state_reason=condition.reason(state))
            )
    return rows


def check_killing(home: Home) -> CheckResult:
    """Check that a cgroup can be made, which ends all processes of a job with one write."""
    if (owner := another_owner(home)) is not None:
        return CheckResult("killing", OK, f"up to the server of {owner}")
    mount, own = _cgroup_place()
    if mount is None:
        found = "cgroup version 2 is not mounted"
    elif not any(os.access(f"{place}/cgroup.procs", os.W_OK) for place in (mount + own, mount)):
        found = f"you cannot write to {mount}{own}"
    else:
        return CheckResult("killing", OK, "by cgroup")
    return CheckResult(
        "killing",
        WARNING,
        f"{found}; so a job's processes are found and killed one by one",
        "run the server by the systemd unit that `sudo make install` installs: it delegates a cgroup",
    )


def check_supervisor(_home: Home) -> CheckResult:
    """Check that the supervisor of jobs is compiled. No server starts without it."""
    from corral.host.runtimes.process.native_supervisor import missing_supervisor

    missing = missing_supervisor()
    if missing is None:
        return CheckResult("supervisor", OK, "compiled")
    if missing_packages():
        return CheckResult("supervisor", OK, "needed where a server is installed")
    return CheckResult("supervisor", FAILURE, *missing)


def check_keyrings(home: Home) -> CheckResult:
    """Check that each job of root's server has its own session keyring, so that no job reads another user's keys."""
    why = keyring_shared()
    with suppress(CorralError), Client(home.root) as client:
        why = client.server().keyring_shared
    if why is None:
        return CheckResult("keyrings", OK, "jobs have none of the server's keys")
    return CheckResult(
        "keyrings",
        WARNING,
        f"keyctl is forbidden to the server ({why}): jobs of all users share its session keyring, keys and all",
        "allow keyctl in the filter of system calls that the server runs under (of its container or its systemd unit)",
    )


def check_disk(home: Home) -> CheckResult:
    """Check that there is room for logs and the ledger, on each file system that is mounted in the home."""
    with suppress(CorralError), Client(home.root) as client:
        if (obstacle := client.server().obstacle) is not None:
            return CheckResult("disk", FAILURE, f"nothing starts now: {obstacle}")
    nearest = next(path for path in (home.root, *home.root.parents) if path.exists())
    places = [nearest, *(path for path in (home.logs, home.scratch, home.launches) if path.is_dir())]
    tightest = min(places, key=lambda path: shutil.disk_usage(path).free)
    free_mib = shutil.disk_usage(tightest).free // 1048576
    found = f"{format_memory(free_mib)} free for {home.root if tightest == nearest else tightest}"
    if free_mib < LEAST_FREE_MIB:
        return CheckResult("disk", FAILURE, found, f"free some space: {format_memory(LEAST_FREE_MIB)} is needed")
    return CheckResult("disk", OK, found)


def check_clock(home: Home) -> CheckResult:
    """Check that the kernel's clock is synchronised. Time limits and expected starts depend on it."""
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        state = -1
    if state < 0:
        return CheckResult("clock", WARNING, "the kernel does not say whether it is synchronised", "check: timedatectl")
    if state == _CLOCK_UNSYNCHRONISED:
        return CheckResult("clock", WARNING, "not synchronised", "turn on NTP: sudo timedatectl set-ntp true")
    return CheckResult("clock", OK, "synchronised")


def check_images(_home: Home) -> CheckResult:
    """Check that the host's Docker, if there is one, answers. Jobs with --image run in it."""
    if missing_packages():
        return CheckResult("images", OK, "jobs with --image run where a server is installed")
    from corral.host.runtimes.docker.daemon_calls import Daemon, DaemonRefused, DaemonUnreachable, address
    from corral.host.runtimes.docker.presence import no_docker

    if (absence := no_docker()) is not None:
        return CheckResult("images", OK, f"{absence}; so jobs with --image are refused")
    try:
        daemon = Daemon(DRIVER_PATIENCE_S)
        version = daemon.info().get("ServerVersion", "of unknown version")
        daemon.close()
    except (DaemonUnreachable, DaemonRefused) as error:
        advice = "start it: sudo systemctl start docker; who runs the server must be root or in the group docker"
        found = f"Docker does not answer you at {address()} ({error}); if not the server either, jobs with --image wait"
        return CheckResult("images", WARNING, found, advice)
    return CheckResult("images", OK, f"jobs with --image run in Docker {version}")


def guarded(check: Check) -> Check:
    """`check`, with Corral's errors turned into findings."""

    def run(home: Home) -> CheckResult:
        try:
            return check(home)
        except CorralError as error:
            return CheckResult(check.__name__.removeprefix("check_"), FAILURE, str(error))
        except PermissionError as error:
            return _not_yours_to_read(check.__name__.removeprefix("check_"), Path(error.filename))

    return run


def gpu_findings(home: Home, node: Node | None) -> list[CheckResult]:
    """The findings about this machine's GPUs. For mock devices or no GPUs, only what the site's settings lack."""
    from corral.cli.local.doctor_gpu import GPU_CHECKS, Surroundings, check_mps, check_process_mode

    with suppress(CorralError):
        settings = load_settings(home.config_file)
        described, by_root = _server_of(home)
        # These checks support only the first vendor. If all devices are from others, there is nothing to check.
        others = node is not None and bool(node.devices) and all(one.vendor != FIRST_VENDOR for one in node.devices)
        if others:
            return []
        mode = check_process_mode(asked=settings.exclusive_process_mode, described=described, by_root=by_root)
        here = Surroundings(
            node or Node("here", (), 0, 0),
            settings.sharing,
            home=home.root,
            mps_control=settings.mps_control,
            mps_multi_user=settings.mps_multi_user,
        )
        if node is None:
            return [found for found in (check_mps(here), mode) if found.state == WARNING]
        return [*(check(here) for check in GPU_CHECKS), mode]
    return []


CHECKS = tuple(
    guarded(check)
    for check in (
        check_packages,
        check_home,
        check_settings,
        check_server,
        check_ledger,
        check_nodes,
        check_devices,
        check_killing,
        check_supervisor,
        check_keyrings,
        check_disk,
        check_clock,
        check_images,
    )
)


def lines_of(finding: CheckResult) -> list[str]:
    """A finding in lines that fit the terminal."""
    advice = f"-> {finding.advice}" if finding.advice else ""
    first, *more = [line for text in (finding.found, advice) for line in wrapped(printable(text), width() - _INDENT)]
    state = painted(finding.state.ljust(7), _STYLES[finding.state])
    return [f"{state}  {finding.about:<9}  {first}", *(" " * _INDENT + line for line in more)]


def _cgroup_place() -> tuple[str | None, str]:
    """The mount point of the unified hierarchy, and this process's path in it."""
    mounts = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    mount = next((line.split()[1] for line in mounts if line.split()[2:3] == ["cgroup2"]), None)
    groups = Path("/proc/self/cgroup").read_text(errors="replace").splitlines()
    return mount, next((line[3:].rstrip("/") for line in groups if line.startswith("0::/")), "")
