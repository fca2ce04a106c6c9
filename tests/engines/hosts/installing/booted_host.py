"""A host with a systemd of its own, which knows the few units that an agent's needs."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from corral.engines.hosts.installing.installer import ShellOutput
from tests.docker.cgroups import cgroup_name, remove_cgroups
from tests.host.node.conftest import until
from tests.hosts_lab.machine import COMMAND_S, Machine, lacking, make_groups

SYSTEMD = Path("/lib/systemd/systemd")
_NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")
_UNITS = (
    *("basic.target", "sysinit.target", "multi-user.target", "shutdown.target", "umount.target", "sockets.target"),
    *("dbus.service", "dbus.socket", "systemd-logind.service", "user@.service", "user-runtime-dir@.service"),
    *("user.slice", "slices.target", "paths.target", "timers.target", "local-fs.target", "final.target"),
)
_BOOT = """
layers=$1; shift
mount -t tmpfs tmpfs $layers
for path in /etc /root /usr/local /var; do
    layer=$layers/$(echo $path | tr / _)
    mkdir -p $layer/upper $layer/work
    mount -t overlay -o lowerdir=$path,upperdir=$layer/upper,workdir=$layer/work overlay $path
done
rm -rf /etc/systemd/system/* /var/lib/corral-agent /usr/local/lib/corral-agent
mkdir $layers/units
for unit; do cp -L /lib/systemd/system/$unit $layers/units/ 2>/dev/null || true; done
mount --bind $layers/units /lib/systemd/system
mount -t tmpfs -o mode=755 tmpfs /run
mount -t proc proc /proc
groups=$(awk '$3 ~ /^cgroup2?$/ && ($3 == "cgroup2" || $4 ~ /name=systemd/) { print $2 " " $3 }' /proc/self/mounts)
umount -l /sys/fs/cgroup/* 2>/dev/null || true
[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
echo "$groups" | while read -r where kind; do
    mkdir -p $where
    [ $kind = cgroup2 ] || mount -t cgroup -o none,name=systemd cgroup $where
    [ $kind = cgroup ] || mount -t cgroup2 cgroup2 $where
done
echo dweller:x:4321:4321::/var/dweller:/bin/sh >> /etc/passwd
echo dweller:x:4321: >> /etc/group
mkdir -m 700 /var/dweller && chown 4321:4321 /var/dweller
# What Debian's libpam-systemd would do for users' own systemds.
printf 'account required pam_permit.so\\nsession required pam_permit.so\\n' > /etc/pam.d/systemd-user
mkdir /etc/systemd/system/user@.service.d
printf '[Service]\\nEnvironment=XDG_RUNTIME_DIR=/run/user/%%i\\n' > /etc/systemd/system/user@.service.d/runtime.conf
hostname booted
echo ready
exec env container=test /lib/systemd/systemd --system --unit=multi-user.target --log-target=console >&2
"""


def why_not() -> str | None:
    if missing := lacking("unshare", "nsenter", "systemctl"):
        return f"no {', no '.join(missing)}"
    return None if SYSTEMD.exists() else "no systemd"


class BootedHost:
    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="booted-"))
        self._directory.chmod(0o755)
        self._group = cgroup_name()
        make_groups(self._group)
        layers = self._directory / "layers"
        layers.mkdir()
        self._machine = Machine(
            ("unshare", *_NAMESPACES, "--fork", "--kill-child", "sh", "-ec", _BOOT, "sh", str(layers), *_UNITS),
            self._directory / "log",
            group=self._group,
            forks=True,
        )
        self._machine.await_ready()
        until(self.path("/run/systemd/private").exists, "its systemd answers")

    def path(self, path: str) -> Path:
        return self._machine.path(path)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self._machine.run(*words, env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"})

    def ok(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}{done.stdout}\n{(self._directory / 'log').read_text()}"
        return done.stdout

    def ssh(self, script: bytes, timeout_s: float) -> ShellOutput:
        """Implements RunThere, as root."""
        return self._shell((), script, timeout_s)

    def ssh_as_user(self, script: bytes, timeout_s: float) -> ShellOutput:
        """Implements RunThere, as the user `dweller`."""
        return self._shell(
            ("setpriv", "--reuid", "4321", "--regid", "4321", "--init-groups", "env", "HOME=/var/dweller"),
            script,
            timeout_s,
        )

    def close(self) -> None:
        self._machine.kill()
        remove_cgroups(self._group)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _shell(self, become: tuple[str, ...], script: bytes, timeout_s: float) -> ShellOutput:
        done = subprocess.run(
            [*self._machine.entered(), *become, "sh", "-s"],
            input=script,
            capture_output=True,
            env={"PATH": "/usr/bin:/bin", "HOME": "/root"},
            timeout=min(timeout_s, 2 * COMMAND_S),
        )
        return ShellOutput(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
