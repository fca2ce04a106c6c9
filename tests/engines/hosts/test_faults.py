"""What goes wrong with hosts and with the way to them is told, costs other hosts nothing, and ends with its cause."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.hosts.ssh_pool import SshPool
from tests.engines.pool_contract import SEE, running_pid
from tests.hosts_lab.agents import HOME, agent_pid, describe, devices_of, start_agent
from tests.hosts_lab.lab import why_no_lab
from tests.hosts_lab.sshd import known_host

pytestmark = [pytest.mark.long, pytest.mark.skipif(why_no_lab() is not None, reason=str(why_no_lab()))]


@pytest.fixture(scope="module")
def _shared() -> Iterator[SshPool]:
    pool = SshPool()
    try:
        pool.up()
        pool.all_ready()
        yield pool
    finally:
        pool.discard()


@pytest.fixture
def two(_shared: SshPool) -> Iterator[SshPool]:
    yield _shared
    _shared.restore()


def row(pool: SshPool, name: str) -> dict[str, Any]:
    """What is said of a host."""
    (found,) = [one for one in pool.json("hosts", "--json")["hosts"] if one["name"] == name]
    return dict(found)


def cut_connection(pool: SshPool, name: str) -> None:
    """End the connection to a host, so that the server makes another."""
    for pid in pool.host(name).processes("sshd: root"):
        pool.host(name).run("kill", str(pid))


def refused(pool: SshPool, name: str, why: str) -> str:
    """Wait until a host is refused for this reason; the whole of it."""
    pool.until(lambda: row(pool, name)["state"] == "refused" and why in row(pool, name)["reason"])
    assert "on GPU-b-" in pool.ok("run", "--node", "b", "--", "sh", "-c", SEE)
    reason: str = row(pool, name)["reason"]
    return reason


@pytest.mark.parametrize("how", ["cut", "cut_to", "cut_from"])
def test_a_host_that_is_cut_off_is_silent_and_its_jobs_run_on_until_it_is_back(two: SshPool, how: str) -> None:
    job, pid = running_pid(two, "stays", "--node", "a")
    getattr(two.host("a").link, how)()
    two.until(lambda: two.states() == {"a": "silent", "b": "ready"})
    began = time.monotonic()
    assert "on GPU-b-" in two.ok("run", "--gpus", "1", "--", "sh", "-c", SEE)
    assert time.monotonic() - began < 20, "nothing waits for the host that is cut off"
    if how == "cut":
        # OpenSSH notices a dead connection after a quarter of a minute.
        two.until(lambda: row(two, "a")["state"] == "unreachable")
    two.mend()
    two.all_ready()
    assert (two.job(job)["phase"], two.job(job)["attempts"]) == ("RUNNING", 1)
    assert two.runs("a", pid)


def test_a_slow_link_that_loses_packets_carries_jobs_logs_and_input(two: SshPool) -> None:
    two.host("a").link.slow(0.2, 0.01)
    count = 200_000
    said = two.ok("run", "--node", "a", "--", "sh", "-c", f"seq {count}")
    assert said.splitlines()[-1] == str(count)
    assert two.states() == {"a": "ready", "b": "ready"}


def test_a_host_key_that_changed_is_told_and_not_trusted(two: SshPool) -> None:
    job, pid = running_pid(two, "stays", "--node", "a")
    two.host("a").change_host_key()
    cut_connection(two, "a")
    reason = refused(two, "a", "the host key of a has changed")
    assert "known_hosts" not in reason, "all users see it"
    assert "known_hosts:" in (two.home / "server.log").read_text()
    (two.lab.ssh_directory / "known_hosts").write_text(
        "".join(known_host(host.name, host.public_key) for host in two.lab.hosts.values())
    )
    two.mend()
    two.all_ready()
    assert two.job(job)["phase"] == "RUNNING"
    assert two.runs("a", pid)


def test_an_unknown_host_key_is_told_with_its_fingerprint_and_accepted_by_a_persons_word(two: SshPool) -> None:
    known = two.lab.ssh_directory / "known_hosts"
    known.write_text(known_host("b", two.host("b").public_key))
    fingerprint = two.host("a").ok("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    cut_connection(two, "a")
    said = refused(two, "a", "is unknown")
    assert fingerprint in said
    assert said.endswith("corral hosts add a --accept-new")
    two.ok("hosts", "add", "a", "--accept-new")
    two.all_ready()
    assert two.host("a").public_key.split()[1] in known.read_text()


def test_a_host_that_asks_for_a_password_or_has_no_corral_says_so_and_nothing_hangs(two: SshPool) -> None:
    host = two.host("a")
    keys = host.path("/root/.ssh/authorized_keys")
    before = keys.read_text()
    keys.write_text("")
    cut_connection(two, "a")
    assert "passwords are never asked for" in refused(two, "a", "does not accept the keys")
    keys.write_text(before)
    command = host.path("/usr/local/bin/corral")
    command.rename(command.with_name("elsewhere"))
    two.run("hosts", "check", "a")
    refused(two, "a", "Corral is not installed on a; to install it: corral hosts add a --install")
    command.with_name("elsewhere").rename(command)
    two.mend()
    two.all_ready()


def test_a_login_shell_may_print_a_banner_but_not_without_end(two: SshPool) -> None:
    shell = two.host("a").path("/root/.bashrc")
    two.host("a").say_at_login("Welcome to a\nPlease behave")
    two.host("a").set_shell("/bin/rbash")
    cut_connection(two, "a")
    two.mend()
    two.all_ready()
    assert "on GPU-a-" in two.ok("run", "--node", "a", "--", "sh", "-c", SEE)
    shell.write_text("yes\n")
    cut_connection(two, "a")
    refused(two, "a", "writes without end")
    shell.write_text("")
    two.host("a").set_shell("/bin/bash")
    two.mend()
    two.all_ready()


def test_a_full_disk_there_keeps_jobs_waiting_and_costs_other_hosts_nothing(two: SshPool) -> None:
    filler = two.host("a").fill_disk()
    try:
        waits = two.submit("--node", "a", "--", "true")
        assert "on GPU-b-" in two.ok("run", "--node", "b", "--", "sh", "-c", SEE)
        two.until(lambda: "disk" in two.ok("why", waits) or "space" in two.ok("why", waits))
        assert two.job(waits)["phase"] == "PENDING"
    finally:
        filler.unlink()
        two.host("a").path("/var/rest").unlink()
    two.until_phase(waits, "SUCCEEDED")


def test_a_host_that_returns_with_other_gpus_is_used_by_them(two: SshPool) -> None:
    host = two.host("a")
    lost, _ = running_pid(two, "lost", "--node", "a", "--gpus", "2")
    host.kill()
    two.until(lambda: two.states()["a"] == "silent")
    host.boot()
    describe(host, devices_of("new", 1))
    two.mend()
    two.all_ready()
    two.until(lambda: two.job(lost)["ended_at"] is not None)
    assert two.job(lost)["phase"] == "LOST"
    assert "on GPU-new-0" in two.ok("run", "--node", "a", "--gpus", "1", "--", "sh", "-c", SEE)
    describe(host, devices_of("a", 2))
    two.until(lambda: {"GPU-a-0", "GPU-a-1"} <= {one["uuid"] for one in two.json("devices", "--json")})


def test_times_of_a_job_are_the_servers_though_the_clock_there_is_an_hour_ahead() -> None:
    pool = SshPool(nodes=())
    try:
        host = pool.lab.add_host("late", booted_for_s=86_400)
        pool.put_agent_there(host, ahead_s=3600)
        pool.up()
        pool.ok("hosts", "add", "late")
        began = time.time()
        job = pool.submit("--node", "late", "--time", "1m", "--", "sleep", "1")
        ended = pool.ended(job)
        assert began - 1 <= ended["started_at"] <= ended["ended_at"] <= time.time() + 1
        assert 0.9 < ended["ended_at"] - ended["started_at"] < 20
        # The head has no GPU, and an index alone would be taken for one of the head's.
        assert "GPU late:" in pool.ok("ps", "--all")
        assert "libfaketime" in host.path(f"/proc/{agent_pid(host)}/maps").read_text()
    finally:
        pool.discard()


def test_a_connection_that_ends_again_and_again_carries_jobs_to_their_end_and_costs_other_hosts_nothing(
    two: SshPool,
) -> None:
    long, pid = running_pid(two, "stays", "--node", "a")
    short = [two.submit("--node", "a", "--gpus", "1", "--", "sleep", "0.5") for _ in range(4)]
    ends = "while :; do sleep 2; pkill -f '[s]shd: root'; echo cut; done"
    two.host("a").start("/var/log/cuts", "sh", "-c", ends)
    (cutter,) = two.host("a").processes("while :;")
    try:
        for job in short:
            ended = two.ended(job)
            assert (ended["phase"], ended["attempts"]) == ("SUCCEEDED", 1)
        assert "on GPU-b-" in two.ok("run", "--node", "b", "--", "sh", "-c", SEE)
        two.until(lambda: two.host("a").path("/var/log/cuts").read_text().count("cut") >= 3)
        assert (two.job(long)["phase"], two.job(long)["attempts"]) == ("RUNNING", 1)
        assert two.runs("a", pid)
    finally:
        two.host("a").signal(cutter)


def test_a_full_run_directory_there_keeps_neither_jobs_nor_a_new_agent_from_starting(two: SshPool) -> None:
    two.host("a").run("dd", "if=/dev/zero", "of=/run/filler", "bs=1M", "status=none")
    two.host("a").run("dd", "if=/dev/zero", "of=/run/rest", "bs=1k", "status=none")
    try:
        assert "on GPU-a-" in two.ok("run", "--node", "a", "--", "sh", "-c", SEE)
        two.kill_agent("a")
        cut_connection(two, "a")
        two.all_ready()
        assert "on GPU-a-" in two.ok("run", "--node", "a", "--", "sh", "-c", SEE)
    finally:
        two.host("a").ok("rm", "-f", "/run/filler", "/run/rest")


def test_an_agent_whose_socket_is_elsewhere_is_joined_and_not_released_while_its_server_is_connected(
    two: SshPool,
) -> None:
    host = two.host("a")
    two.signal_agent("a", signal.SIGKILL)
    start_agent(host, words=("--socket", "/run/elsewhere/agent.sock"))
    two.until(host.path("/run/elsewhere/agent.sock").exists)
    two.mend()
    two.all_ready()
    assert "on GPU-a-" in two.ok("run", "--node", "a", "--", "sh", "-c", SEE)
    released = host.run("corral", "agent", "release")
    assert (released.returncode, "is connected to this agent" in released.stderr) == (1, True), released.stderr
    two.kill_agent("a")
    two.until(lambda: host.path(f"{HOME}/agent.sock").is_socket() and not host.path(f"{HOME}/agent.sock").is_symlink())


def test_one_host_under_two_names_is_one_node_and_the_other_name_says_so(two: SshPool) -> None:
    two.lab.know("twin", two.host("b"))
    job, pid = running_pid(two, "stays", "--node", "b")
    two.run("hosts", "add", "twin")
    refused(two, "twin", "is node b of this server already")
    assert two.states() == {"a": "ready", "b": "ready"}
    two.ok("hosts", "remove", "twin")
    assert (two.job(job)["phase"], two.job(job)["attempts"]) == ("RUNNING", 1)
    assert two.runs("b", pid)
