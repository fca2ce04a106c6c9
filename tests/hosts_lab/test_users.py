"""Users of a pool of hosts: a job runs as its user by name on its host, or says why it cannot run there."""

import os
import pwd
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import corral
from corral.client import Client
from tests.e2e.box import Box
from tests.e2e.test_users import as_user
from tests.hosts_lab.host import Host
from tests.hosts_lab.lab import Lab, lab, why_no_lab

pytestmark = pytest.mark.skipif(why_no_lab() is not None, reason=str(why_no_lab()))

PATIENCE_S = 120.0
USER = pwd.getpwnam("daemon")
HOSTS = ("same", "other", "shared", "none", "later")
Ask = Callable[[Callable[[Client], Any]], Any]
CORRAL = Path(sys.executable).with_name("corral")
_MOCK = '[[devices]]\nmother_uuid = "GPU-{}"\nmodel_name = "Mock A100"\nmemory_size = "80G"\n'


def account(host: Host, *, uid: int | None = None, home: str = "") -> None:
    """Give the user another account there, or none."""
    file = host.path("/etc/passwd")
    lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{USER.pw_name}:")]
    if uid is not None:
        lines.append(f"{USER.pw_name}:x:{uid}:{uid}::{home}:/bin/sh")
    file.write_text("\n".join([*lines, ""]))


def home_there(host: Host, path: str, uid: int) -> None:
    host.ok("mkdir", "-p", path)
    host.ok("chown", str(uid), path)


def started(made: Lab, home: Path, settings: str) -> dict[str, str]:
    """Start a server on the head, without GPUs of its own. Return its environment."""
    home.chmod(0o755)
    (home / "config.yaml").write_text(f"sample_interval: 0.2s\n{settings}")
    (home / "mock.toml").write_text("devices = []\n")
    environ = {**os.environ, "CORRAL_HOME": str(home)}
    made.head.ok(str(CORRAL), "up", "--detach", "--mock", str(home / "mock.toml"), env=environ)
    return environ


@pytest.fixture(scope="module")
def pool() -> Iterator[tuple[Lab, Path]]:
    """Five hosts with agents of root's: with the account of the server's host, another one, another one whose home is
    shared, none, and none until a test makes it; and the home of their server.
    """
    with lab() as made, tempfile.TemporaryDirectory(prefix="pool-") as directory:
        for name in HOSTS:
            host = made.add_host(name)
            host.path("/usr/local/bin/corral").symlink_to(CORRAL)
            host.path("/etc/mock.toml").write_text(_MOCK.format(name))
            host.start("/var/log/agent.log", "corral", "agent", "--mock", "/etc/mock.toml")
        same, other, shared, none, later = made.hosts.values()
        account(same, uid=USER.pw_uid, home="/home/daemon")
        home_there(same, "/home/daemon", USER.pw_uid)
        account(other, uid=7001, home="/home/daemon")
        home_there(other, "/home/daemon", 7001)
        account(shared, uid=7001, home="/home/daemon")
        home_there(shared, "/home/daemon", USER.pw_uid)
        account(none)
        account(later)
        home = Path(directory)
        environ = started(made, home, f"hosts: [{', '.join(HOSTS)}]\n")
        try:
            yield made, home
        finally:
            made.head.run(str(CORRAL), "down", env=environ)


@pytest.fixture
def ask(pool: tuple[Lab, Path]) -> Ask:
    """Ask the server as the user."""
    return partial(as_user, USER, cast(Box, SimpleNamespace(home=pool[1])))


def ready(home: Path, *names: str) -> None:
    """Wait until these nodes take jobs."""
    until = time.monotonic() + PATIENCE_S
    with Client(home) as client:
        while not {*names} <= {row.name for row in client.nodes.list() if row.state == "ready"}:
            assert time.monotonic() < until, client.nodes.list()
            time.sleep(0.1)


def ran(client: Client, script: str, **options: Any) -> dict[str, Any]:
    """What became of a job: its end, its node, its log."""
    job = client.submit(["/bin/sh", "-c", script], workdir="/", **options)
    (row,) = job.wait(timeout_s=PATIENCE_S)
    return {"phase": row.phase, "notes": job.notes, "log": "".join(job.logs()).splitlines(), "reason": row.reason}


def waits(client: Client, node: str) -> dict[str, Any]:
    """Why a job waits that names this node."""
    job = client.submit(["/bin/true"], workdir="/", gpus=0, node=node)
    until = time.monotonic() + PATIENCE_S
    while "cannot run jobs" not in (why := str(job.why())) and time.monotonic() < until:
        time.sleep(0.1)
    phase = job.row().phase
    job.cancel()
    return {"why": why, "phase": phase, "notes": " ".join(job.notes)}


def test_a_job_runs_as_the_account_of_its_users_name(pool: tuple[Lab, Path], ask: Ask) -> None:
    ready(pool[1], "same", "other")
    script = 'id -u; id -g; id -un; echo $HOME; touch "$CORRAL_SCRATCH/mine" && stat -c %u "$CORRAL_SCRATCH/mine"'
    for name, uid in (("same", USER.pw_uid), ("other", 7001)):
        found = ask(partial(ran, script=script, node=name))
        assert found["phase"] == "SUCCEEDED", found
        assert found["log"] == [str(uid), str(uid), "daemon", "/home/daemon", str(uid)]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("none", "there is no account daemon"),
        (
            "shared",
            f"daemon is user id 7001 there and {USER.pw_uid} at the server, and the home /home/daemon belongs to",
        ),
    ],
)
def test_a_node_that_a_user_cannot_use_is_told_at_submission_and_by_why_and_takes_the_jobs_of_others(
    pool: tuple[Lab, Path], ask: Ask, node: str, reason: str
) -> None:
    ready(pool[1], node)
    found = ask(partial(waits, node=node))
    assert found["phase"] == "PENDING"
    assert reason in found["why"]
    assert f"{node} cannot run jobs of this user: {reason}" in found["notes"]
    with Client(pool[1]) as client:
        assert ran(client, "id -u", node=node)["log"] == ["0"]


def test_a_job_that_names_no_node_goes_where_its_user_has_an_account(pool: tuple[Lab, Path], ask: Ask) -> None:
    ready(pool[1], *HOSTS)
    found = [ask(partial(ran, script="echo $CORRAL_NODE", gpus=1)) for _ in range(4)]
    assert {name for one in found for name in one["log"]} <= {"same", "other", "later"}
    assert all(not one["notes"] for one in found)


def test_a_job_starts_once_the_missing_account_is_made(pool: tuple[Lab, Path], ask: Ask) -> None:
    made, home = pool
    ready(home, "later")

    def submit(client: Client) -> str:
        return client.submit(["/bin/sh", "-c", "id -u"], workdir="/", gpus=0, node="later").id

    job_id = ask(submit)
    host = made.hosts["later"]
    account(host, uid=7002, home="/home/daemon")
    home_there(host, "/home/daemon", 7002)
    with Client(home) as client:
        (row,) = client.wait(job_id, PATIENCE_S)
        assert row.phase == "SUCCEEDED"
        assert "".join(client.jobs.logs(job_id)).split()[-1] == "7002"


def test_a_second_server_is_refused_with_whose_the_host_is(pool: tuple[Lab, Path]) -> None:
    made, home = pool
    ready(home, "same")
    with tempfile.TemporaryDirectory(prefix="pool-") as directory:
        second = started(made, Path(directory), "hosts: [same, {name: again, ssh: same}]\n")
        try:
            with Client(Path(directory)) as client:
                reasons = told(client, "same", "again")
        finally:
            made.head.run(str(CORRAL), "down", env=second)
    assert all(f"serves another server, root@head:{home}, as node same" in reason for reason in reasons), reasons


def test_a_host_under_two_names_is_one_node_and_the_other_name_says_so(pool: tuple[Lab, Path]) -> None:
    _, home = pool
    ready(home, "same")
    with Client(home) as client:
        client.hosts.add("twin", ssh="same")
        (reason,) = told(client, "twin")
        client.hosts.remove("twin", force=True)
    assert "that host is node same of this server already" in reason


def test_a_host_of_the_settings_is_joined_anew_by_its_name_alone(pool: tuple[Lab, Path]) -> None:
    made, home = pool
    ready(home, "same")
    with tempfile.TemporaryDirectory(prefix="pool-") as directory:
        second = started(made, Path(directory), "hosts: [{name: again, ssh: same}]\n")
        try:
            with Client(Path(directory)) as client:
                told(client, "again")
                assert client.hosts.add("again").ssh == "same"
                with pytest.raises(corral.CorralError, match="is in the settings"):
                    client.hosts.add("again", address="198.18.0.9")
        finally:
            made.head.run(str(CORRAL), "down", env=second)


def told(client: Client, *names: str) -> list[str]:
    """The reasons of hosts that are refused."""
    until = time.monotonic() + PATIENCE_S
    while True:
        rows = {row.name: row for row in client.hosts.list().hosts if row.name in names and row.reason is not None}
        if len(rows) == len(names):
            return [rows[name].reason or "" for name in names]
        assert time.monotonic() < until, rows
        time.sleep(0.1)
