"""A host of a lab: its files, its sshd, what can be done to it, and what can go wrong with it."""

import os
import signal
from pathlib import Path

from tests.hosts_lab.link import Link
from tests.hosts_lab.machine import Finished, Machine, make_groups
from tests.hosts_lab.sshd import SSHD_CONFIG, make_key

CHECKOUT = Path(__file__).parents[2]
_HOST = Path(__file__).with_name("host.sh")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--time")


class Host:
    """A host, which `boot` starts and `kill` ends; its disk outlasts that.

    Attributes:
        address: in the network of its lab.
        public_key: the key by which its sshd is known.
        link: its network.
    """

    def __init__(
        self,
        name: str,
        address: str,
        keeper: Machine,
        directory: Path,
        *,
        number: int,
        cgroup: str,
        disk_mib: int = 2048,
        booted_for_s: int = 0,
    ) -> None:
        self.name = name
        self.address = address
        self._keeper = keeper
        self._directory = directory
        self._disk = f"{directory}/disks/{name}"
        self._cgroup = cgroup
        self._booted_for_s = booted_for_s
        self._machine: Machine | None = None
        self.link = Link(keeper, number, directory / "wires.log")
        keeper.ok("mkdir", self._disk)
        keeper.ok("mount", "-t", "tmpfs", "-o", f"mode=755,size={disk_mib}m", "tmpfs", self._disk)
        self._written = keeper.path(f"{self._disk}/upper")
        self._prepare()

    def boot(self) -> None:
        """Start the host. Returns when its sshd listens and its network is up."""
        make_groups(self._cgroup)
        clocks = ("--boottime", str(self._booted_for_s), "--monotonic", str(self._booted_for_s))
        places = (self._disk, f"{self._directory}/disks/packages", f"{self._directory}/shared", str(CHECKOUT))
        self._machine = Machine(
            (
                *(*self._keeper.entered(), "unshare", *NAMESPACES, *clocks, "--fork", "--kill-child"),
                *("sh", str(_HOST), self.name, *places),
            ),
            self._directory / f"{self.name}.log",
            group=self._cgroup,
            forks=True,
        )
        self._machine.await_ready()
        self.link.join(self._machine, self.address)

    def kill(self) -> None:
        """End all that runs there, as if the host lost its power."""
        if self._machine is not None:
            self._machine.kill()
            self._machine = None
            self.link.leave()

    @property
    def machine(self) -> Machine:
        assert self._machine is not None, f"{self.name} is not up"
        return self._machine

    @property
    def lives(self) -> bool:
        """Whether it is up."""
        return self._machine is not None

    def path(self, path: str) -> Path:
        """Where a file of the running host lies for the tests."""
        return self.machine.path(path)

    def run(self, *words: str, given: str = "") -> Finished:
        """Run a command there, beside SSH, as root."""
        return self.machine.run(*words, env=_environment(), given=given)

    def ok(self, *words: str, given: str = "") -> str:
        """What a command says there that must succeed."""
        return self.machine.ok(*words, env=_environment(), given=given)

    def start(self, log: str, *words: str) -> None:
        """Start a command there that is nobody's child; what it says goes to the file `log` there."""
        self.ok("setsid", "--fork", "sh", "-c", 'log=$1; shift; exec "$@" >>"$log" 2>&1 </dev/null', "sh", log, *words)

    # Accounts and keys

    def add_user(self, name: str, uid: int, *, home: bool = True, shell: str = "/bin/bash") -> None:
        """Make an account there, with a home of its own or none."""
        with self.path("/etc/passwd").open("a") as accounts:
            accounts.write(f"{name}:x:{uid}:{uid}::/home/{name}:{shell}\n")
        with self.path("/etc/group").open("a") as accounts:
            accounts.write(f"{name}:x:{uid}:\n")
        if home:
            self._make_directory(f"/home/{name}", name)

    def authorize(self, public_key: str, user: str = "root") -> None:
        """Let whoever has a key in as this user."""
        directory = self.ok("sh", "-c", f"echo ~{user}/.ssh").strip()
        self._make_directory(directory, user)
        keys = f"{directory}/authorized_keys"
        self.ok("sh", "-c", f"cat >>{keys}; chown {user} {keys}", given=public_key)

    def set_shell(self, shell: str, user: str = "root") -> None:
        """Have a user log in with another shell."""
        accounts = self.path("/etc/passwd")
        rows = [line.split(":") for line in accounts.read_text().splitlines()]
        changed = [[*row[:6], shell] if row[0] == user else row for row in rows]
        accounts.write_text("".join(":".join(row) + "\n" for row in changed))

    def change_host_key(self) -> None:
        """Give sshd another key, as a host has that was set up anew. Returns when it listens again."""
        self.public_key = make_key(self.path("/etc/ssh/ssh_host_ed25519_key"), self.name)
        restart = (
            "read pid </run/sshd.pid; rm /run/sshd.pid; kill -HUP $pid; until [ -s /run/sshd.pid ]; do sleep 0.02; done"
        )
        self.ok("timeout", "20", "sh", "-c", restart)

    # Faults

    def fill_disk(self) -> Path:
        """Fill the disk; the file to remove for there to be space again."""
        self.run("dd", "if=/dev/zero", "of=/var/filler", "bs=1M", "status=none")
        self.run("dd", "if=/dev/zero", "of=/var/rest", "bs=4k", "status=none")
        return self.path("/var/filler")

    def remove_program(self, name: str) -> None:
        """Remove all programs of this name, as `python3*`, from the directories of programs."""
        self.ok("sh", "-c", f"for d in {_PATH.replace(':', ' ')}; do rm -f $d/{name}; done")

    def say_at_login(self, banner: str) -> None:
        """Have root's shell print this to whatever logs in, commands too."""
        with self.path("/root/.bashrc").open("a") as file:
            file.write(f"echo {banner!r}\n")

    def processes(self, *words: str) -> list[int]:
        """The PIDs there of all whose command lines have these words."""
        found = []
        for line in self.ok("ps", "-eo", "pid=,args=").splitlines():
            pid, _, command = line.strip().partition(" ")
            if all(word in command for word in words):
                found.append(int(pid))
        return found

    def signal(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a process there."""
        self.run("kill", f"-{number.value}", str(pid))

    def _make_directory(self, path: str, user: str) -> None:
        self.ok("install", "--directory", "--owner", user, "--group", user, "--mode", "700", path)

    def _prepare(self) -> None:
        """Write the files of its disk that differ from those of this machine."""
        etc = self._written / "etc"
        (etc / "ssh").mkdir(parents=True)
        (etc / "ssh" / "sshd_config").write_text(SSHD_CONFIG)
        self.public_key = make_key(etc / "ssh" / "ssh_host_ed25519_key", self.name)
        accounts = Path("/etc/passwd").read_text()
        if "\nsshd:" not in accounts:
            accounts += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
        (etc / "passwd").write_text(accounts)
        (etc / "hostname").write_text(f"{self.name}\n")
        (etc / "machine-id").write_text(f"{hash(self._disk) & (1 << 128) - 1:032x}\n")
        # What this machine's root has of keys and settings of shells is its own.
        home = self._written / "root"
        (home / ".ssh").mkdir(mode=0o700, parents=True)
        os.setxattr(home / ".ssh", "trusted.overlay.opaque", b"y")
        home.chmod(0o700)
        for name in (".bashrc", ".bash_profile", ".profile"):
            (home / name).write_text("")


def _environment() -> dict[str, str]:
    return {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8"}
