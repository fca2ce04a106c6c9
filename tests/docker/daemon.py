"""A real dockerd for tests: `python -m tests.docker.daemon DIRECTORY CGROUP` keeps it until its parent ends.

Its containers outlive a dockerd that is killed, so whoever keeps it adopts all that descends from it, and kills that.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.host.runtimes.process.ending.killing import signal_listed
from corral.host.runtimes.process.procfs import descendants
from tests.docker.cgroups import CGROUPS, cgroup_name, remove_cgroups
from tests.docker.image import IMAGE, write_image

START_S = 60.0
STOP_S = 20.0
_ROOT = Path(__file__).parents[2]
_SCRIPT = Path(__file__).with_name("dockerd.sh")
_PROGRAMS = ("dockerd", "docker", "containerd", "runc", "unshare", "mount", "ip", "sed")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CLONE_NEWNET = 0x40000000


def why_no_dockerd() -> str | None:
    """What this machine lacks to run dockerd; None where it lacks nothing."""
    if os.geteuid() != 0:
        return "only root can run dockerd"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"no {', no '.join(missing)}"
    if not (CGROUPS / "memory").is_dir():
        return "no cgroups of version 1, the only one with which dockerd was tried here"
    tried = subprocess.run(
        ["unshare", "--mount", "--net", "mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True
    )
    if tried.returncode != 0:
        return f"no namespaces of its own may be made here ({tried.stderr.decode(errors='replace').strip()})"
    return None


class DockerDaemon:
    """A dockerd with one image, `tests.docker.image.IMAGE`.

    Attributes:
        address: what DOCKER_HOST is for its clients.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.address = f"unix://{directory}/docker.sock"

    def docker(self, *words: str) -> str:
        """What `docker` says to a command. Raises CalledProcessError."""
        done = subprocess.run(
            ["docker", *words],
            env={**os.environ, "DOCKER_HOST": self.address},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    @contextmanager
    def network(self) -> Iterator[None]:
        """Meanwhile this thread is in the daemon's network, with what it starts and with the sockets that it opens.

        There a registry is found by the daemon, and a container by its address.
        """
        with Path("/proc/thread-self/ns/net").open() as before, Path(f"/proc/{self._pid()}/ns/net").open() as its_own:
            _enter_network(its_own.fileno())
            try:
                yield
            finally:
                _enter_network(before.fileno())

    def containers(self) -> list[str]:
        """The names of all there are."""
        return self.docker("ps", "--all", "--format", "{{.Names}}").split()

    def kill(self, signum: signal.Signals = signal.SIGKILL) -> None:
        """End dockerd, which is started again; its containers run on. Returns when it answers again."""
        before = self._pid()
        os.kill(before, signum)
        self.wait(lambda: self._pid() != before)

    @contextmanager
    def down(self) -> Iterator[None]:
        """Meanwhile there is no dockerd; its containers run on."""
        stays_down = self._directory / "down"
        stays_down.touch()
        os.kill(self._pid(), signal.SIGKILL)
        try:
            yield
        finally:
            stays_down.unlink()
            self.wait()

    @contextmanager
    def without_live_restore(self) -> Iterator[None]:
        """Meanwhile it ends its containers when it ends itself."""
        self._set_live_restore("false")
        try:
            yield
        finally:
            self._set_live_restore("true")

    def _set_live_restore(self, word: str) -> None:
        (self._directory / "daemon.json").write_text(f'{{"live-restore": {word}}}')
        os.kill(self._pid(), signal.SIGHUP)
        self.wait(lambda: self.docker("info", "--format", "{{.LiveRestoreEnabled}}").strip() == word)

    def wait(self, holds: Callable[[], bool] = lambda: True) -> None:
        """Wait until it answers, and this holds."""
        until = time.monotonic() + START_S
        while True:
            with contextlib.suppress(subprocess.CalledProcessError, OSError, ValueError):
                if holds() and self.docker("version"):
                    return
            assert time.monotonic() < until, f"dockerd does not start:\n{self._log()}"
            time.sleep(0.05)

    def _pid(self) -> int:
        return int((self._directory / "docker.pid").read_text())

    def _log(self) -> str:
        log = self._directory / "dockerd.log"
        return log.read_text()[-3000:] if log.exists() else ""


def _enter_network(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "the network of dockerd cannot be entered")


@contextmanager
def docker_daemon(directory: Path) -> Iterator[DockerDaemon]:
    """A dockerd of its own, all of whose containers end with it."""
    cgroup = cgroup_name()
    with (directory / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", __name__, str(directory), f"/{cgroup}"],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        daemon = DockerDaemon(directory)
        daemon.wait()
        write_image(directory / "image.tar")
        daemon.docker("import", str(directory / "image.tar"), IMAGE)
        yield daemon
    finally:
        keeper.terminate()
        keeper.wait(STOP_S)
        remove_cgroups(cgroup)


def _keep(directory: str, cgroup: str) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    command = ["unshare", "--mount", "--net", str(_SCRIPT), directory, cgroup]
    host = subprocess.Popen(command, preexec_fn=_unblock)  # noqa: PLW1509 - there is no other thread
    # The kernel reaps them: a dockerd takes a containerd that has ended, and was not reaped, for one that runs.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.sigwait({signal.SIGTERM})
    while descendants(os.getpid()):
        signal_listed(descendants(os.getpid()), lambda: descendants(os.getpid()), signal.SIGSTOP, signal.SIGKILL)
        time.sleep(0.02)
    host.returncode = 0


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


if __name__ == "__main__":
    _keep(*sys.argv[1:])
