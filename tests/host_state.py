"""What tests could change of the machine that they run on. A run looks before and after, and fails if that has changed.

Others use the machine meanwhile. So only this is looked at: what is of this run (processes and cgroups that bear its
mark, mounts below its directory), and what the daemons that tests start would change outside namespaces of their own.
"""

import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

MARK = "RUN_OF_CORRAL_TESTS"
RUN = os.environ.setdefault(MARK, uuid.uuid4().hex[:8])
"""This run of tests, in the environment of all that it starts."""

PATIENCE_S = 30.0
"""What a run has started may take so long to end after it."""

State = Mapping[str, frozenset[str]]

_LINKS = frozenset({"docker0", "docker_gwbridge", "cni0", "cbr0", "kube-bridge", "kube-ipvs0"})
_CHAINS = ("DOCKER", "KUBE-")
_FIREWALLS = (("iptables-save",), ("ip6tables-save",), ("nft", "list", "ruleset"))
_MOUNT_POINTS = frozenset({"/", "/run", "/var/log", "/sys/fs/cgroup"})
_SYSCTLS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
    *("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/ipv6/conf/all/forwarding"),
    *("net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"),
)

_BEFORE = pytest.StashKey[State]()
_CHANGED = pytest.StashKey[list[str]]()


def host_state(directory: Path) -> State:
    """All that is compared, by kind; `directory` is where this run has its files."""
    return {
        "link": _LINKS & {name for _, name in socket.if_nameindex()},
        "firewall": frozenset(_firewall()),
        "sysctl": frozenset(_sysctls()),
        "mount": frozenset(_mounts(directory)),
        "cgroup": frozenset(_cgroups()),
        "process": frozenset(_processes(directory)),
    }


def _cgroups() -> Iterator[str]:
    # Others' cgroups vanish while they are walked through, which `glob` would end at.
    for parent, names, _ in os.walk("/sys/fs/cgroup"):
        yield from (f"{parent}/{name}" for name in names if name.startswith(f"corral-test-{RUN}-"))


def changes(before: State, after: State) -> list[str]:
    """What is gone and what is new, a line for each."""
    return [
        line
        for kind in before
        for line in (
            *(f"{kind} is gone: {what}" for what in sorted(before[kind] - after[kind])),
            *(f"{kind} is new: {what}" for what in sorted(after[kind] - before[kind])),
        )
    ]


def _firewall() -> Iterator[str]:
    """Chains of these daemons, by name, and what is done by default: their rules change with containers of others."""
    for words in _FIREWALLS:
        if shutil.which(words[0]) is None:
            continue
        said = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
        for line in map(str.strip, said.splitlines()):
            name = line.removeprefix("chain ").removeprefix(":")
            if name != line and name.startswith(_CHAINS):
                yield f"{words[0]}: chain {name.split()[0]}"
            elif line.startswith(":FORWARD") or "hook forward" in line:
                # Without the counters of packets.
                yield f"{words[0]}: {line.partition(' [')[0]}"


def _sysctls() -> Iterator[str]:
    for name in _SYSCTLS:
        with suppress(OSError):
            yield f"{name} = {Path('/proc/sys', name).read_text().strip()}"


def _mounts(directory: Path) -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, source = line.partition(" - ")
        _, _, _, root, where, _, *shared = fields.split(" ")
        if where in _MOUNT_POINTS or where.startswith(("/proc/sys", str(directory))):
            kind = source.split(" ")[0]
            is_shared = any(word.startswith("shared:") for word in shared)
            yield f"{where} ({kind} {root}{', shared' if is_shared else ''})"


def _processes(directory: Path) -> Iterator[str]:
    """Those that have the mark of this run, or work on its files, but for this one."""
    mark, files = f"{MARK}={RUN}".encode(), os.fsencode(directory)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            environment = (entry / "environ").read_bytes().split(b"\0")
            if mark in environment or files in words or os.fsencode(os.readlink(entry / "cwd")).startswith(files):
                yield f"{entry.name} {words.replace(bytes(1), b' ').decode(errors='replace')[:200]}"


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.stash[_BEFORE] = host_state(_directory(session.config))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After the workers have ended."""
    config = session.config
    if _BEFORE not in config.stash:
        return
    until = time.monotonic() + PATIENCE_S
    while (found := changes(config.stash[_BEFORE], host_state(_directory(config)))) and time.monotonic() < until:
        time.sleep(0.2)
    config.stash[_CHANGED] = found
    if found:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if found := config.stash.get(_CHANGED, []):
        terminalreporter.section("these tests have changed this machine", red=True)
        for line in found:
            terminalreporter.write_line(line)


def _directory(config: pytest.Config) -> Path:
    return Path(config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]
