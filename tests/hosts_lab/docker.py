"""Docker on a host of a lab: a real dockerd below the host's own first process, with one image."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.docker.image import IMAGE, write_image
from tests.hosts_lab.host import Host

START_S = 60.0
_SCRIPT = Path(__file__).parents[1] / "docker" / "dockerd.sh"
_DIRECTORY = "/var/lib/docker-here"


class HostDocker:
    """A dockerd that runs on a host, from the start; `shared` is a directory that host and tests have.

    Attributes:
        environ: what is in the environment of its clients there.
    """

    environ = (f"DOCKER_HOST=unix://{_DIRECTORY}/docker.sock",)

    def __init__(self, host: Host, shared: Path) -> None:
        self._host = host
        found = (shutil.which(name) for name in ("dockerd", "docker", "containerd", "runc"))
        places = dict.fromkeys(str(Path(one).parent) for one in found if one is not None)
        self._path = ":".join([*places, "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"])
        host.ok("mkdir", "-p", _DIRECTORY)
        host.start("/var/log/dockerd-here", *self._with_path("unshare", "--mount"), str(_SCRIPT), _DIRECTORY, "/here")
        self._await_answer()
        image = shared / "image.tar"
        write_image(image)
        self.docker("import", str(image), IMAGE)

    def docker(self, *words: str) -> str:
        """What `docker` says there to a command that must succeed."""
        return self._host.ok(*self._with_path("docker"), *words)

    def stop(self) -> None:
        """Docker stays installed and does not run."""
        self._host.path(f"{_DIRECTORY}/down").touch()
        self._host.ok("sh", "-c", f"kill $(cat {_DIRECTORY}/docker.pid)")
        self._until(lambda: not self._host.processes("dockerd --host"))

    def start(self) -> None:
        """Have it run again."""
        self._host.path(f"{_DIRECTORY}/down").unlink()
        self._await_answer()

    def _with_path(self, *words: str) -> tuple[str, ...]:
        return ("env", f"PATH={self._path}", *self.environ, *words)

    def _await_answer(self) -> None:
        self._until(lambda: self._host.run(*self._with_path("docker", "version")).returncode == 0)

    def _until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + START_S
        while not holds():
            log = self._host.path("/var/log/dockerd-here").read_text()
            assert time.monotonic() < until, f"dockerd on {self._host.name}:\n{log[-3000:]}"
            time.sleep(0.05)
