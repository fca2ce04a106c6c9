"""`corral hosts add --install`, `upgrade` and `remove`, with a real sshd on a host that has nothing of Corral."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.box import CORRAL, PATIENCE_S
from tests.host.node.conftest import MOCK, until
from tests.hosts_lab.host import Host
from tests.hosts_lab.lab import Lab, why_no_lab
from tests.hosts_lab.machine import Finished

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_no_lab() is not None, reason=str(why_no_lab()))]

LIBRARY = "/usr/local/lib/corral-agent"
SETTINGS = "kill_grace: 1s\nsample_interval: 0.2s\nchannels: {}\n"


class Site:
    """A server on the head of a lab, without GPUs, and a host that it knows by SSH."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="site-"))
        (self.home / "config.yaml").write_text(SETTINGS)
        (self.home / "mock.toml").write_text("devices = []\n")
        self.lab = Lab()
        self.lab.start()
        self.host: Host = self.lab.add_host("gpu-05")
        self.host.path("/etc/mock.toml").write_text(MOCK)
        self.ok("up", "--detach", "--mock", str(self.home / "mock.toml"))

    @property
    def env(self) -> Mapping[str, str]:
        path = self.lab.head.run("sh", "-c", "echo $PATH").stdout.strip()
        return {"CORRAL_HOME": str(self.home), "PATH": path, "HOME": str(Path("~root").expanduser())}

    def run(self, *words: str) -> Finished:
        return self.lab.head.run(CORRAL, *words, env=self.env)

    def ok(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}{done.stdout}"
        return done.stdout

    def row(self) -> Mapping[str, object]:
        (found,) = json.loads(self.ok("hosts", "list", "--json"))["hosts"]
        return dict(found)

    def close(self) -> None:
        self.run("down")
        self.lab.close()
        shutil.rmtree(self.home)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def add(site: Site) -> str:
    return site.ok("hosts", "add", "gpu-05", "--install", "--mock", "/etc/mock.toml")


def test_a_host_joins_with_what_the_server_brings(site: Site) -> None:
    told = add(site)
    assert re.search(r"sends \d\.\d MB", told)
    assert told.endswith("gpu-05: ready\n")
    states = {row["name"]: row["state"] for row in json.loads(site.ok("nodes", "--json"))}
    assert states["gpu-05"] == "ready", "whoever looks next sees it ready"
    assert f"{LIBRARY}/versions/" in site.host.ok("ps", "-eo", "args")
    assert "kill_grace" in site.host.path("/var/lib/corral-agent/config.yaml").read_text()
    assert "channels" not in site.host.path("/var/lib/corral-agent/config.yaml").read_text()
    assert "hello from gpu-05" in site.ok("run", "--gpus", "1", "--", "sh", "-c", "echo hello from $(hostname)")


def test_the_servers_key_reaches_the_agent_and_nothing_else(site: Site) -> None:
    add(site)
    keys = site.host.path("/root/.ssh/authorized_keys").read_text()
    assert keys.count(f'restrict,command="{LIBRARY}/current/bin/corral agent connect" ssh-ed25519 ') == 1
    key = ("-i", str(site.home / "ssh/id_ed25519"), "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none")
    # Without the account's own keys, as if these had been taken away again.
    (site.lab.ssh_directory / "id_ed25519").rename(site.lab.ssh_directory / "away")
    tried = site.lab.head.run("ssh", *key, "-o", "BatchMode=yes", "gpu-05", "cat /etc/shadow")
    assert tried.stdout.startswith("corral-agent-connection ")
    assert "root:" not in tried.stdout
    assert site.row()["state"] == "ready"
    site.ok("hosts", "upgrade", "gpu-05")
    site.ok("run", "--gpus", "1", "--", "true")
    site.ok("down")
    site.ok("up", "--detach", "--mock", str(site.home / "mock.toml"))
    until(lambda: site.row()["state"] == "ready", "the next server reaches it with its own key, too")


@pytest.mark.parametrize("who", ["server", "installer"])
def test_an_installation_that_is_killed_halfway_is_made_whole_by_the_next(site: Site, who: str) -> None:
    halfway = f'until ls {LIBRARY}/versions/.new-*; do :; done; pkill -STOP -f "[i]mport json, sys, types"'
    site.host.start("/dev/null", "sh", "-c", halfway)
    words = ("hosts", "add", "gpu-05", "--install", "--mock", "/etc/mock.toml")
    command = [*site.lab.head.entered(), CORRAL, *words]
    with subprocess.Popen(command, env=site.env, stdout=subprocess.DEVNULL) as adding:
        until(lambda: bool(stopped(site.host)), "it is halfway")
        (installer,) = stopped(site.host)
        assert not site.host.path(f"{LIBRARY}/current").exists()
        if who == "server":
            os.kill(int((site.home / "corral.pid").read_text()), signal.SIGKILL)
            site.host.signal(installer, signal.SIGCONT)
        else:
            site.host.signal(installer)
        assert adding.wait(PATIENCE_S) != 0
    if who == "server":
        site.ok("up", "--detach", "--mock", str(site.home / "mock.toml"))
    add(site)
    site.ok("run", "--gpus", "1", "--", "true")
    assert len(list(site.host.path(f"{LIBRARY}/versions").iterdir())) == 1


def stopped(host: Host) -> list[int]:
    """The PIDs there of installations that stand still."""
    rows = [line.split(maxsplit=2) for line in host.ok("ps", "-eo", "pid=,stat=,args=").splitlines()]
    return [int(pid) for pid, state, words in rows if state.startswith("T") and "import json, sys, types" in words]


def test_an_upgrade_brings_new_settings_and_a_job_runs_on(site: Site) -> None:
    add(site)
    job = site.ok("submit", "--gpus", "1", "--", "sh", "-c", "sleep 8; echo lived").split()[-1]
    until(lambda: "RUNNING" in site.ok("show", job, "--json"), "the job runs")
    (site.home / "config.yaml").write_text(SETTINGS.replace("1s", "2s", 1))
    told = site.ok("hosts", "upgrade", "gpu-05")
    assert "starts the new agent" in told
    assert told.endswith("gpu-05: ready\n")
    assert "kill_grace: 2s" in site.host.path("/var/lib/corral-agent/config.yaml").read_text()
    site.ok("wait", job)
    assert "lived" in site.ok("logs", job)


def test_an_agent_that_was_set_up_by_hand_is_replaced_by_an_installed_one(site: Site) -> None:
    site.host.ok("mkdir", "-p", "/var/lib/corral-agent")
    site.host.path("/usr/local/bin/corral").symlink_to(CORRAL)
    site.host.start("/var/log/agent", "corral", "agent", "--mock", "/etc/mock.toml")
    until(site.host.path("/var/lib/corral-agent/agent.sock").exists, "the agent listens")
    site.ok("hosts", "add", "gpu-05", "--mock", "/etc/mock.toml")
    failed = site.run("hosts", "upgrade", "gpu-05")
    assert failed.returncode == 1
    assert "was not installed by a server" in failed.stdout
    assert re.search(r"sends \d\.\d MB", add(site))
    (words,) = [line for line in site.host.ok("ps", "-eo", "args").splitlines() if "corral.host.node.agent" in line]
    assert words.startswith(LIBRARY)
    site.ok("run", "--gpus", "1", "--", "true")


def test_a_killed_agent_is_started_by_the_next_connection(site: Site) -> None:
    add(site)
    (agent,) = site.host.processes("corral.host.node.agent")
    site.host.signal(agent)
    until(lambda: bool(site.host.processes("corral.host.node.agent")), "another agent runs")
    site.ok("run", "--gpus", "1", "--", "true")


def test_a_new_ledger_is_not_begun_while_a_job_of_the_earlier_one_runs_there_or_that_is_unknown(site: Site) -> None:
    add(site)
    job = site.ok("submit", "--gpus", "1", "--", "sleep", "1000").split()[-1]
    until(lambda: "RUNNING" in site.ok("show", job, "--json"), "the job runs")
    up = ("up", "--detach", "--anew", "--mock", str(site.home / "mock.toml"))
    site.ok("down")
    refused = " ".join(site.run(*up).stderr.split())
    assert f"the earlier ledger is still in use: job {job}.1 on gpu-05" in refused
    site.host.kill()
    refused = " ".join(site.run(*up).stderr.split())
    assert "it is unknown whether jobs of the earlier ledger still run on joined hosts" in refused
    assert "gpu-05 cannot be reached" in refused
    assert not list(site.home.glob("earlier-*"))


def test_removing_a_host_removes_what_was_installed(site: Site) -> None:
    add(site)
    site.ok("run", "--gpus", "1", "--", "true")
    site.ok("hosts", "remove", "gpu-05")
    until(lambda: not site.host.path(LIBRARY).exists(), "the program is removed")
    assert "corral-server-" not in site.host.path("/root/.ssh/authorized_keys").read_text()
    assert not site.host.processes("corral.host.node.agent")
    assert site.host.path("/var/lib/corral-agent/logs").is_dir()
    add(site)


def test_a_host_without_python_says_so_and_is_joined_once_it_has_one(site: Site) -> None:
    site.host.ok("sh", "-c", "mkdir /away; mv /usr/bin/python3* /away")
    refused = site.run("hosts", "add", "gpu-05", "--install", "--mock", "/etc/mock.toml")
    assert refused.returncode == 1
    assert "it has no Python, and an agent needs 3.11 or newer" in refused.stdout
    site.host.ok("sh", "-c", "mv /away/* /usr/bin/")
    add(site)


def test_a_full_disk_a_banner_and_a_restricted_shell_are_told(site: Site) -> None:
    site.host.say_at_login("Welcome to gpu-05. Use it well.")
    filler = site.host.fill_disk()
    refused = site.run("hosts", "add", "gpu-05", "--install", "--mock", "/etc/mock.toml")
    assert "is full" in refused.stdout
    filler.unlink()
    site.host.set_shell("/usr/sbin/nologin")
    refused = site.run("hosts", "add", "gpu-05", "--install", "--mock", "/etc/mock.toml")
    assert "it said `This account is currently not available`" in refused.stdout
    site.host.set_shell("/bin/bash")
    add(site)
