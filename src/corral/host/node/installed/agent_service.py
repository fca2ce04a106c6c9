"""What keeps an agent running on its host: a unit of systemd, a unit of a lingering user, or nothing but itself."""

import json
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from corral.host.node.connect import START_FILE, start_agent
from corral.host.node.installed.agent_places import AgentPlaces, CannotInstall, in_words, replace

UNIT = "corral-agent.service"

BY_SYSTEM, BY_USER, DETACHED = "a unit of systemd", "a unit of the lingering user", "a process of its own"
"""The kinds of services, as a person reads them."""

_BOOTED = Path("/run/systemd/system")
"""Systemd runs a host where this directory exists (sd_booted(3))."""

_LINGERING = Path("/var/lib/systemd/linger")
"""Has a file for each user whose units run without a login."""

_TOOL_S = 60.0
_START_S = 30.0
_END_S = 20.0
_LOOK_AGAIN_S = 0.05
_TAIL_BYTES = 4096

_TEXT = """# Made by a Corral server, which runs jobs on this host: `corral hosts upgrade` replaces it.

[Unit]
Description=Agent of Corral, a queue for GPUs
After={after}
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}

# The end of the agent ends no job: the next agent takes them on.
KillMode=process
TimeoutStopSec=30
Restart=always
RestartSec=1
# A job that runs out of memory is that job's failure, not the agent's.
OOMPolicy=continue

# Each job gets a cgroup of its own. The agent is in another beside them (systemd 254 or newer).
Delegate=yes
DelegateSubgroup=agent
{limits}
[Install]
WantedBy={wanted_by}
"""

_LIMITS = """
TasksMax=80%
LimitNOFILE=1048576
LimitMEMLOCK=infinity
"""


class AgentService:
    """The running agent of an installation, started by `words`."""

    def __init__(self, places: AgentPlaces, words: Sequence[str]) -> None:
        self._places = places
        self._words = [str(places.command), *words]

    def start(self, *, again: bool) -> tuple[str, list[str]]:
        """Start the agent by what this host has. Return the kind of service, and remarks.

        One that runs with the same words is started `again` only on request. Raises CannotInstall if no agent answers
        then.
        """
        remarks: list[str] = []
        if (why := self._why_no_unit()) is None:
            kind = BY_SYSTEM if self._places.by_root else BY_USER
            (self._places.home / START_FILE).unlink(missing_ok=True)
            self._end_detached()
            self._start_unit(again=again)
        else:
            kind = DETACHED
            remarks.append(f"{why}: after a restart of this host the agent starts with the server's next connection")
            if again or not self._runs():
                self._end_detached()
                self._start_detached()
        self._await()
        return kind, remarks

    def _start_detached(self) -> None:
        """Start the agent as a process of its own, which outlives the connection. Raises CannotInstall."""
        with in_words(self._places.home):
            start = {"words": self._words, "environ": self._environ()}
            replace(self._places.home / START_FILE, json.dumps(start), 0o600)
            start_agent(str(self._places.home))

    def remove(self) -> None:
        """End the agent, and let nothing start it again. Its jobs run on. Raises CannotInstall."""
        (self._places.home / START_FILE).unlink(missing_ok=True)
        if self._places.unit.exists():
            with suppress(CannotInstall):
                self._systemctl("disable", "--now", UNIT)
            with in_words(self._places.unit):
                self._places.unit.unlink(missing_ok=True)
            with suppress(CannotInstall):
                self._systemctl("daemon-reload")
        self._end_detached()

    def _end_detached(self) -> None:
        """End the agent of this home, unless systemd runs it. Raises CannotInstall."""
        pid = agent_pid(self._places)
        if pid is None or self._is_unit_running():
            return
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, number)
                deadline = time.monotonic() + _END_S
                while agent_pid(self._places) == pid and time.monotonic() < deadline:
                    time.sleep(_LOOK_AGAIN_S)
                if agent_pid(self._places) != pid:
                    return
        finally:
            os.close(handle)
        raise CannotInstall(f"process {pid}, the agent that runs now, cannot be ended")

    def _why_no_unit(self) -> str | None:
        """Return why no unit of systemd can run the agent; None if one can."""
        if not _BOOTED.is_dir() or shutil.which("systemctl") is None:
            return "no systemd runs this host"
        if self._places.by_root:
            return None
        try:
            # An administrator may have allowed it, where users may not do so themselves.
            if not (_LINGERING / pwd.getpwuid(os.geteuid()).pw_name).exists():
                _tool(["loginctl", "enable-linger"], self._environ())
            self._systemctl("show", "--property=Version")
        except CannotInstall as why:
            return f"this user can have no lingering unit ({why})"
        return None

    def _runs(self) -> bool:
        """Whether the agent runs with these words."""
        pid, words = agent_pid(self._places), self._words[2:]
        return pid is not None and _command_line(pid)[-len(words) :] == words

    def _start_unit(self, *, again: bool) -> None:
        unit = self._places.unit
        text = _TEXT.format(
            after="network.target nvidia-persistenced.service" if self._places.by_root else "default.target",
            command=shlex.join(self._words),
            limits=_LIMITS if self._places.by_root else "",
            wanted_by="multi-user.target" if self._places.by_root else "default.target",
        )
        with in_words(unit):
            unit.parent.mkdir(parents=True, exist_ok=True)
            again = again or not unit.exists() or unit.read_text() != text
            replace(unit, text)
        self._systemctl("daemon-reload")
        self._systemctl("enable", UNIT)
        self._systemctl("restart" if again else "start", UNIT)

    def _is_unit_running(self) -> bool:
        if not self._places.unit.exists():
            return False
        try:
            self._systemctl("is-active", "--quiet", UNIT)
        except CannotInstall:
            return False
        return True

    def _systemctl(self, *words: str) -> None:
        _tool(["systemctl", *([] if self._places.by_root else ["--user"]), *words], self._environ())

    def _environ(self) -> Mapping[str, str]:
        """Return the variables of the agent, of which its jobs have some: none of the connection's own."""
        kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "SHELL", "LANG") if name in os.environ}
        path = os.environ.get("PATH", "")
        runtime = {} if self._places.by_root else {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
        return {**kept, **runtime, "PATH": f"{path}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".lstrip(":")}

    def _await(self) -> None:
        deadline = time.monotonic() + _START_S
        while not _listens(self._places.socket):
            if time.monotonic() >= deadline:
                raise CannotInstall(f"the agent does not answer: {self._last_words()}")
            time.sleep(_LOOK_AGAIN_S)

    def _last_words(self) -> str:
        log = self._places.home / "agent.log"
        with suppress(OSError), log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").split("\n")
            if said := [line for line in lines if line.strip()]:
                return said[-1].strip()
        return f"see `systemctl status {UNIT}` there" if self._places.unit.exists() else "it said nothing"


def agent_pid(places: AgentPlaces) -> int | None:
    """Return the pid of the agent of this home; None if no agent runs."""
    try:
        pid = int((places.home / "corral.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    words = _command_line(pid)
    return pid if "corral.host.node.agent" in words and str(places.home) in words else None


def _command_line(pid: int) -> list[str]:
    """Return the command line of a process; [] if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _listens(path: Path) -> bool:
    """Whether an agent listens at this socket. It greets only its own server."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
        except OSError:
            return False
    return True


def _tool(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a program. Raises CannotInstall with its last words if it fails."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            text=True,
            errors="replace",
            timeout=_TOOL_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{shlex.join(words)}: {error}") from None
    if done.returncode != 0:
        said = [line for line in done.stdout.splitlines() if line.strip()]
        raise CannotInstall(f"{shlex.join(words)}: {said[-1].strip() if said else f'exit code {done.returncode}'}")
