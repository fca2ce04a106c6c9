"""A host of its own on this machine: it sees copies of /etc, /root, /usr/local and /var, and has its own processes.

Needs root. What is written there is gone with it.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from corral.engines.hosts.installing.installer import ShellOutput

OWN = ("/etc", "/root", "/usr/local", "/var", "/run")

_BOOT = """
set -e
mount -t tmpfs -o size=200m tmpfs {layers}
for path in {own}; do
    layer={layers}/$(echo $path | tr / _)
    mkdir -p $layer/upper $layer/work
    mount -t overlay -o lowerdir=$path,upperdir=$layer/upper,workdir=$layer/work overlay $path
done
rm -rf /run/systemd/system /var/lib/corral-agent /usr/local/lib/corral-agent
mount -t proc proc /proc
{more}
echo up
exec sleep infinity
"""

WHY_NOT = None if os.geteuid() == 0 and shutil.which("unshare") else "needs root, for namespaces"


class OtherHost:
    """Runs commands in namespaces of its own, as `ssh` would on another host."""

    def __init__(self, more: str = "") -> None:
        """`more` is run there at its boot."""
        self.layers = Path(tempfile.mkdtemp(prefix="host-"))
        boot = _BOOT.format(layers=self.layers, own=" ".join(OWN), more=more)
        self._init = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", boot],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._init.stdout is not None
        assert self._init.stderr is not None
        assert self._init.stdout.readline() == "up\n", self._init.stderr.read()
        (self._pid,) = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text().split()

    def words(self, *command: str, user: str = "") -> list[str]:
        """The command line that runs a command there."""
        become = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--"] if user else []
        return ["nsenter", "--target", self._pid, "--mount", "--pid", "--ipc", "--", *become, *command]

    def run(
        self, *command: str, given: bytes = b"", user: str = "", timeout_s: float = 60.0, **variables: str
    ) -> "subprocess.CompletedProcess[bytes]":
        environ = {"PATH": os.defpath, "HOME": "/root", **variables}
        return subprocess.run(
            self.words(*command, user=user), input=given, capture_output=True, env=environ, timeout=timeout_s
        )

    def sh(self, script: str, *, user: str = "") -> str:
        """What a script writes there; it must succeed."""
        done = self.run("sh", "-c", script, user=user)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def path(self, path: str) -> Path:
        """A path of this host, as it is seen from outside."""
        return Path(f"/proc/{self._pid}/root{path}")

    def ssh(self, script: bytes, timeout_s: float) -> ShellOutput:
        """Implements RunThere."""
        done = self.run("sh", "-s", given=script, timeout_s=timeout_s)
        return ShellOutput(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def close(self) -> None:
        self._init.kill()
        self._init.communicate()
        shutil.rmtree(self.layers)
