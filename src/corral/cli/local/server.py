"""`corral up` and `down`: start and stop the server."""

import os
import pwd
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from corral.cli.commands import serving
from corral.cli.jobs.kubeconfig_variable import kubeconfig_from_anywhere
from corral.cli.screen import say, typed, write_lines
from corral.cli.server_part import require_server_part
from corral.client import Client, ServerInfo, own_home
from corral.core.model.errors import BackendFailed, Conflict, CorralError, Forbidden, Refused
from corral.core.model.home import Home
from corral.device_claims import warning_of_others
from corral.pid_file import read_pid

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

DAEMON = "corral.daemon"
REMARK = "remark: "


def up(given: serving.UpCommand) -> None:
    """Run `corral up`."""
    require_server_part("up")
    home = _local_home()
    refuse_home_of_another(home)
    command = daemon_command(home, given.mock, given.listen)
    for option, file in (
        ("--tls-cert", given.tls_cert),
        ("--tls-key", given.tls_key),
        ("--tls-client-ca", given.tls_client_ca),
        ("--kubeconfig", given.kubeconfig),
    ):
        command += [] if file is None else [option, str(file.absolute())]
    for option, name in (("--engine", given.engine), ("--context", given.context), ("--namespace", given.namespace)):
        command += [] if name is None else [option, name]
    command += ["--insecure"] if given.insecure else []
    command += ["--anew"] if given.anew else []
    os.environ.update(kubeconfig_from_anywhere(os.environ))
    if not given.detach:
        os.execv(command[0], command)
    pid = start_detached(home, command)
    write_lines(f"server {pid} is running in {home.root}")
    with Client(home.root) as client:
        devices = client.devices.list()
        gpus = {row.uuid: row.index for row in devices if row.index is not None and not row.parent}
        if not client.server().mock and (warning := warning_of_others(gpus, pid)) is not None:
            say(warning)
        if not devices and given.engine == "kubernetes":
            say(
                f"no node of the cluster has a GPU (allocatable nvidia.com/gpu), so only jobs with --gpus 0 can run; "
                f"`{typed()} doctor --engine kubernetes` shows why"
            )
        elif not devices:
            say(
                f"it has found no GPU, so only jobs with --gpus 0 can run; `{typed()} doctor` shows why. "
                f"GPUs of other hosts: {typed()} hosts add HOST --install. "
                f"To try it with mock GPUs: {typed()} down; {typed()} up --detach --mock"
            )


def down(given: serving.DownCommand) -> None:
    """Run `corral down`."""
    home = _local_home()
    pid = server_pid(home)
    if pid is None:
        if (owner := another_owner(home)) is not None:
            raise Forbidden(
                f"{home.root} belongs to {owner}, and no server there answers you; run `corral down` "
                f"as {owner} to be sure that none runs"
            )
        write_lines(f"no server is running in {home.root}")
        return
    stop_server(home, pid)
    write_lines(f"server {pid} has stopped; jobs run on, and `corral up` takes them over again")


def described_box(name: str = "8gpu") -> Path:
    """A file of mock devices that comes with Corral: `8gpu`, or `cluster` with four nodes."""
    return Path(serving.MOCK_BOXES, f"mock-{name}.toml")


def daemon_command(home: Home, mock: Path | None, listen: str | None) -> list[str]:
    """The command that starts the server. Raises Refused if the home or the file cannot be used."""
    if mock is not None and str(mock) == "cluster":
        mock = described_box("cluster")
    if mock is not None and not mock.is_file():
        raise Refused(
            f"--mock: there is no file {mock}; give a file with mock devices (`corral help docs mock-devices`), "
            "`cluster` for four nodes, or nothing for eight GPUs",
            field="--mock",
        )
    _ = home.socket
    command = [*own_python(), "-m", DAEMON, "--home", str(home.root)]
    command += [] if mock is None else ["--mock", str(mock.absolute())]
    command += [] if listen is None else ["--listen", listen]
    return command


def own_python() -> list[str]:
    """This interpreter for another process of Corral. It imports no module from the current directory.

    It also ignores the user's PYTHONPATH if this process does. An installation by `make install` ignores it.
    """
    return [sys.executable, "-I" if sys.flags.isolated else "-P"]


def make_home(home: Home) -> None:
    """Make the home's directory if it does not exist. Raises BackendFailed."""
    try:
        # Other users must reach the socket of root's server. All other files there are private to their owner.
        home.root.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(home, error) from error


def _unusable(home: Home, error: OSError) -> BackendFailed:
    where = error.filename or home.root
    return BackendFailed(f"cannot use {where}: {error.strerror}; set CORRAL_HOME to another directory")


def start_detached(home: Home, command: list[str]) -> int:
    """Start a server in its own session, say its remarks, and return its pid once it answers.

    Its later messages go to the home's server.log. Raises BackendFailed with the server's own message if it cannot
    start.
    """
    make_home(home)
    try:
        # O_NONBLOCK: a job of an ordinary user's server may have left a fifo there, which nobody ever reads.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
        log = os.fdopen(os.open(home.server_log, flags, 0o600), "ab")
    except OSError as error:
        raise _unusable(home, error) from error
    log_start = log.tell()
    read_fd, write_fd = os.pipe()
    with log, os.fdopen(read_fd, "rb", buffering=0) as ready:
        process = subprocess.Popen(
            [*command, "--ready-fd", str(write_fd)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[write_fd],
            cwd="/",
            start_new_session=True,
        )
        os.close(write_fd)
        *remarks, said = _remarks_and_outcome(ready.fileno(), READY_TIMEOUT_S)
    if said == "ready":
        for remark in remarks:
            say(remark.removeprefix(REMARK))
        return process.pid
    if process.poll() is None:
        process.terminate()
    last_words = said.removeprefix("error: ") or _last_line(home.server_log, log_start) or "it wrote no message"
    raise BackendFailed(f"the server did not start: {last_words} (see also {home.server_log})")


def server_pid(home: Home) -> int | None:
    """The pid of the server that runs in `home`; None if there is none. The pid file of a dead server does not count.

    If the pid file is unreadable or gone, the server itself is asked.
    """
    pid = read_pid(home.pid_file)
    if pid is not None and _serves(pid, home):
        return pid
    server = answering(home)
    pid = None if server is None else server.pid
    return pid if pid is not None and _serves(pid, home) else None


def _serves(pid: int, home: Home) -> bool:
    """Whether the process is a server, and not that of another home."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    if DAEMON.encode() not in command:
        return False
    root = os.fsdecode(command[command.index(b"--home") + 1]) if b"--home" in command[:-1] else ""
    return not os.path.isabs(root) or Path(root).resolve() == home.root.resolve()


def answering(home: Home) -> ServerInfo | None:
    """The description of the server that answers in this home; None if none does."""
    with suppress(CorralError), Client(home.root) as client:
        return client.server()
    return None


def another_owner(home: Home) -> str | None:
    """The name of the home's owner, if that is another user and this user may not write there.

    If this user may not enter the home's directory, the owner of the closed directory.
    """
    owner = _owner_id(home.root)
    if owner is None or owner == os.geteuid() or os.access(home.root, os.W_OK | os.X_OK):
        return None
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}"


def _owner_id(root: Path) -> int | None:
    for path in (root, *root.parents):
        try:
            return path.stat().st_uid
        except PermissionError:
            continue
        except OSError:
            return None
    return None


def refuse_home_of_another(home: Home) -> None:
    """Raises Conflict if this user cannot start a server there because the home is another user's."""
    owner = another_owner(home)
    if owner is None:
        return
    server = answering(home)
    there = (
        "no server there answers you" if server is None else f"its server (pid {server.pid}) is running: use that one"
    )
    raise Conflict(
        f"{home.root} belongs to {owner}, and {there}; "
        "to run a server of your own, set CORRAL_HOME to a directory of yours"
    )


def stop_server(home: Home, pid: int) -> None:
    """Ask the server to stop and wait until it is gone. Raises BackendFailed if it does not stop."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        gone = bool(select.select([handle], [], [], STOP_TIMEOUT_S)[0])
    except PermissionError as error:
        owner = another_owner(home) or "another user"
        raise Forbidden(f"server {pid} in {home.root} belongs to {owner}; only {owner} can stop it") from error
    finally:
        os.close(handle)
    if not gone:
        raise BackendFailed(f"server {pid} did not stop within {STOP_TIMEOUT_S:g} s; see {home.server_log}")


def _local_home() -> Home:
    if os.environ.get("CORRAL_URL"):
        say("ignoring CORRAL_URL: this command is about the server in CORRAL_HOME on this machine")
    return own_home()


def _last_line(path: Path, start: int) -> str:
    """The last line that was added to a file after it was `start` bytes long."""
    with path.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _remarks_and_outcome(fd: int, timeout_s: float) -> list[str]:
    """The lines from `fd`; the last one is not a remark. It is "" if `fd` is closed early or the time is up."""
    received, deadline = b"", time.monotonic() + timeout_s
    while True:
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return [""]
        block = os.read(fd, 4096)
        received += block
        lines = received.decode(errors="replace").splitlines() or [""]
        if not block or (received.endswith(b"\n") and not lines[-1].startswith(REMARK)):
            return lines
