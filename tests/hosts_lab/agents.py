"""Agents on the hosts of a lab, started as a service manager there would, from the checkout that all hosts see."""

import signal
import sys
import time
from pathlib import Path

from tests.hosts_lab.host import Host

HOME = "/var/lib/corral-agent"
MOCK = "/etc/corral-mock.toml"
LOG = "/var/log/corral-agent.log"
START_S = 60.0
_CORRAL = Path(sys.executable).with_name("corral")


def describe(host: Host, devices: str) -> None:
    """Give a host mock devices, in one step."""
    draft = host.path(f"{MOCK}.draft")
    draft.write_text(devices)
    draft.rename(host.path(MOCK))


def devices_of(name: str, count: int) -> str:
    """Mock devices that no other host has."""
    return "".join(
        f'[[devices]]\nmother_uuid = "GPU-{name}-{index}"\nmodel_name = "Mock A100"\nmemory_size = "80G"\n'
        for index in range(count)
    )


def put_corral_there(host: Host, settings: str = "") -> None:
    """Have the command on the host's PATH, and the settings of its agent in place."""
    command = host.path("/usr/local/bin/corral")
    command.unlink(missing_ok=True)
    command.symlink_to(_CORRAL)
    host.ok("mkdir", "--parents", "--mode", "755", HOME)
    host.path(f"{HOME}/config.yaml").write_text(settings)


def start_agent(host: Host, *, environ: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> None:
    """Start its agent; `environ` are words such as NAME=value, `words` further flags. It may not answer yet."""
    host.start(LOG, "env", *environ, "corral", "agent", "--mock", MOCK, *words)


def clock_ahead(seconds: int) -> tuple[str, ...]:
    """What is in the environment of processes that read another time of day."""
    library = "/usr/$LIB/faketime/libfaketime.so.1"
    return (f"LD_PRELOAD={library}", f"FAKETIME=+{seconds}", "FAKETIME_DONT_FAKE_MONOTONIC=1") if seconds else ()


def await_agent(host: Host) -> int:
    """The PID there of its agent, once it answers."""
    until = time.monotonic() + START_S
    while (pid := agent_pid(host)) is None or not host.path(f"{HOME}/agent.sock").exists():
        assert time.monotonic() < until, f"the agent of {host.name} does not start:\n{host.path(LOG).read_text()}"
        time.sleep(0.05)
    return pid


def agent_pid(host: Host) -> int | None:
    """The PID there of its agent; None if none runs."""
    try:
        pid = int(host.path(f"{HOME}/corral.pid").read_text())
    except (OSError, ValueError):
        return None
    return pid if host.path(f"/proc/{pid}").exists() else None


def signal_agent(host: Host, number: signal.Signals) -> None:
    pid = agent_pid(host)
    assert pid is not None, f"no agent runs on {host.name}"
    host.signal(pid, number)
