"""Hosts made by the tests: each with a network, a name, files and processes of its own, and a real sshd.

A lab has a bridge, a machine for the server, called `head`, and hosts that it reaches by SSH, as its `~/.ssh/config`
has them. All is in namespaces below one that ends with the test, however that ends: labs know nothing of each other,
and nothing of the machine changes.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.docker.cgroups import cgroup_name, remove_cgroups
from tests.hosts_lab.host import NAMESPACES, Host
from tests.hosts_lab.link import Link
from tests.hosts_lab.machine import Machine, lacking, program
from tests.hosts_lab.sshd import config_entry, known_host, make_key

_HERE = Path(__file__).parent
_PROGRAMS = ("sshd", "ssh", "ssh-keygen", "unshare", "nsenter", "ip", "mount", "pivot_root", "setsid", "awk")
_HOME = str(Path("~root").expanduser())


def why_no_lab() -> str | None:
    """What this machine lacks to make hosts; None where it lacks nothing."""
    if os.geteuid() != 0:
        return "only root can make hosts for tests"
    if missing := lacking(*_PROGRAMS):
        return f"no {', no '.join(missing)}"
    with tempfile.TemporaryDirectory() as directory:
        tried = subprocess.run(
            ["unshare", *NAMESPACES, "--fork", "sh", "-ec", _TRIAL, "sh", directory],
            capture_output=True,
            text=True,
        )
    return None if tried.returncode == 0 else f"hosts cannot be made here ({tried.stderr.strip()})"


_TRIAL = """
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" trial "$1/root"
ip link add wire type bridge
ip link add one type veth peer name other
"""


class Lab:
    """A lab that runs, from `start` to `close`.

    Attributes:
        head: the machine of the server; its processes are seen by the tests.
        hosts: by name.
        shared: a directory that all of its machines have, at this path, like a file system over the network.
    """

    def __init__(self) -> None:
        # All users of hosts reach what is shared, and a path of a socket is short.
        self._directory = Path(tempfile.mkdtemp(prefix="lab-"))
        self._directory.chmod(0o755)
        self.shared = self._directory / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        self._disks = f"{self._directory}/disks"
        Path(self._disks).mkdir()
        self.hosts: dict[str, Host] = {}
        self._cgroup = cgroup_name()
        self._machines: list[Machine] = []

    def start(self) -> None:
        """Make the bridge and the head. Raises RuntimeError where that fails."""
        packages = program("sshd").resolve().parents[2]
        within: tuple[str, ...] = ("--mount", "--net")
        keep = (str(_HERE / "keeper.sh"), str(self._directory), str(packages))
        self._keeper = self._started(("unshare", *within, *keep), within)
        within = (*within, "--uts")
        lead = (str(_HERE / "head.sh"), f"{self._disks}/head", _HOME)
        self.head = self._started((*self._keeper.entered(), "unshare", *within, *lead), within)
        Link(self._keeper, 1, self._directory / "wires.log").join(self.head, _address(1))
        self.ssh_directory.mkdir(mode=0o700, exist_ok=True)
        for name in ("config", "known_hosts"):
            (self.ssh_directory / name).write_text("")
        self.public_key = make_key(self.ssh_directory / "id_ed25519", "root@head")

    @property
    def ssh_directory(self) -> Path:
        """`~/.ssh` of the server's account."""
        return self.head.path(f"{_HOME}/.ssh")

    def add_host(self, name: str, *, disk_mib: int = 2048, booted_for_s: int = 0) -> Host:
        """Make a host and boot it; the head's account knows it by its name and its key.

        `booted_for_s` is for how long it has run before, by its own clock.
        """
        number = len(self.hosts) + 2
        host = Host(
            name,
            _address(number),
            self._keeper,
            self._directory,
            number=number,
            cgroup=f"{self._cgroup}/{name}",
            disk_mib=disk_mib,
            booted_for_s=booted_for_s,
        )
        self.hosts[name] = host
        host.boot()
        host.authorize(self.public_key)
        self.know(name, host)
        return host

    def know(self, name: str, host: Host, *, user: str = "root", more: str = "") -> None:
        """Have the head know a host by this name; `more` are lines of its entry in ~/.ssh/config."""
        with (self.ssh_directory / "config").open("a") as config:
            config.write(config_entry(name, host.address, user, more))
        with (self.ssh_directory / "known_hosts").open("a") as known:
            known.write(known_host(name, host.public_key))

    def close(self) -> None:
        """End all machines, and with them all that runs on them."""
        for host in self.hosts.values():
            host.kill()
        for machine in reversed(self._machines):
            machine.kill()
        remove_cgroups(self._cgroup)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _started(self, words: Sequence[str], namespaces: Sequence[str]) -> Machine:
        machine = Machine(words, self._directory / "lab.log", namespaces=namespaces)
        self._machines.append(machine)
        machine.await_ready()
        return machine


def _address(number: int) -> str:
    return f"198.18.0.{number}"


@contextmanager
def lab() -> Iterator[Lab]:
    """A lab without hosts, which ends with the block."""
    made = Lab()
    try:
        made.start()
        yield made
    finally:
        made.close()
