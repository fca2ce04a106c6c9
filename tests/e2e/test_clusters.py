"""Clusters of mock nodes with real agents and real jobs: placing, silence, loss and return, drains."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.box import COMMAND_S, CORRAL, PATIENCE_S, Box, line_of, until_there
from tests.e2e.terminal import corral

SETTINGS = """kill_grace: 1s
sample_interval: 0.5s
node_silent_after: 2s
node_gone_after: {gone_after}
retry_backoff: 0.1s
"""
REPOSITORY = Path(__file__).parent.parent.parent


def cluster(**faults: str) -> str:
    """Nodes of two devices each, by name, each with its fault or ""."""
    return "".join(
        f'[[nodes]]\nname = "{name}"\ncpus = 8\nmemory = "32G"\ndisk = "100G"\n'
        f'labels = {{ zone = "{name}" }}\n{fault}\n'
        + "".join(
            f'[[nodes.devices]]\nmother_uuid = "GPU-{name}-{i}"\nmodel_name = "Mock A100"\nmemory_size = "80G"\n'
            for i in range(2)
        )
        for name, fault in faults.items()
    )


@contextmanager
def two_nodes(gone_after: str) -> Iterator[Box]:
    """A server with the nodes a and b."""
    box = Box(cluster(a="", b=""), SETTINGS.format(gone_after=gone_after))
    box.up()
    box.until(lambda: set(states(box).values()) == {"ready"})
    yield box
    box.discard()


def restored(box: Box) -> None:
    """All nodes there again, and no job on them."""
    box.describe(cluster(a="", b=""))
    box.until(lambda: set(states(box).values()) == {"ready"})
    box.clear()
    for left in (*box.home.glob("*.pid"), box.home / "gate"):
        if left.name != "corral.pid":
            left.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def _shared_two() -> Iterator[Box]:
    with two_nodes("10m") as box:
        yield box


@pytest.fixture
def two(_shared_two: Box) -> Iterator[Box]:
    """Two nodes that are not soon given up, with no job on them."""
    yield _shared_two
    restored(_shared_two)


@pytest.fixture(scope="module")
def _shared_hasty() -> Iterator[Box]:
    with two_nodes("5s") as box:
        yield box


@pytest.fixture
def hasty(_shared_hasty: Box) -> Iterator[Box]:
    """Two nodes that are given up after a few seconds."""
    yield _shared_hasty
    restored(_shared_hasty)


def states(box: Box) -> dict[str, str]:
    return {row["name"]: row["state"] for row in box.json("nodes", "--json")}


def agent_pid(box: Box, node: str) -> int:
    return int((box.home / "nodes" / node / "corral.pid").read_text())


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def running_pid(box: Box, name: str, *words: str) -> tuple[str, int]:
    """A job that runs until it is ended, as its server knows, and a process of it; `words` are its flags."""
    pid_file = box.home / f"{name}.pid"
    script = f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000"
    job = box.submit("--name", name, *words, "--", "sh", "-c", script)
    box.until(lambda: pid_file.exists() and box.job(job)["phase"] == "RUNNING")
    return job, int(pid_file.read_text())


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_jobs_run_where_they_name_want_or_prefer_and_the_rest_is_said(two: Box) -> None:
    see = "echo on $CUDA_VISIBLE_DEVICES"
    assert "on GPU-b-0,GPU-b-1" in two.ok("run", "--node", "b", "--gpus", "2", "--", "sh", "-c", see)
    assert "on GPU-a-" in two.ok("run", "--label", "zone=a", "--", "sh", "-c", see)
    assert "on GPU-b-" in two.ok("run", "--prefer", "zone=b", "--", "sh", "-c", see)
    refused = two.run("submit", "--node", "c", "--", "true")
    assert (refused.returncode != 0, "there is no node c here" in refused.stderr) == (True, True)
    rows = two.json("nodes", "--json")
    assert [(row["name"], row["state"], row["devices"], row["cpus"], row["memory_mib"]) for row in rows] == [
        (name, "ready", 2, 8.0, 32768) for name in ("a", "b")
    ]
    assert set(rows[0]) == {
        "name",
        "state",
        "reason",
        "last_seen_at",
        "devices",
        "cpus",
        "memory_mib",
        "labels",
        "boot_id",
    }
    status = two.ok("status").splitlines()
    assert [line for line in status if re.match(r"[ab]  ", line)] == ["a  2 of 2 GPUs free", "b  2 of 2 GPUs free"]
    assert all(len(line) <= 80 for line in [*status, *two.ok("nodes").splitlines(), *two.ok("devices").splitlines()])


def test_gpus_of_a_node_that_joins_while_jobs_wait_are_kept_for_those_they_are_set_apart_for() -> None:
    pools = "pools:\n- {name: lab, gpus: ['late:*'], users: [daemon]}\ncluster: {total_gpus: 2}\n"
    box = Box(cluster(a=""), SETTINGS.format(gone_after="10m") + pools)
    box.up()
    try:
        box.until(lambda: states(box) == {"a": "ready"})
        jobs = [box.submit("--name", f"j{i}", "--", "sleep", "600") for i in range(4)]
        box.until(lambda: [box.job(job)["phase"] for job in jobs] == ["RUNNING"] * 2 + ["PENDING"] * 2)
        box.describe(cluster(a="", late=""))
        box.until(lambda: states(box) == {"a": "ready", "late": "ready"})
        box.until(lambda: "2 in pool lab, which is not for this job" in box.ok("why", jobs[2]))
        log = box.home / "server.log"
        box.until(lambda: "cluster.total_gpus expects 2 GPUs, but there are 4" in log.read_text())
        box.ok("cancel", jobs[0])
        box.until_phase(jobs[2], "RUNNING")
        assert box.job(jobs[2])["devices"] == box.job(jobs[0])["devices"]
        assert box.job(jobs[3])["phase"] == "PENDING"
        by_index = box.home / "by-index.yaml"
        by_index.write_text("pools:\n- {name: lab, gpus: [1], users: [daemon]}\n")
        refused = box.run("config", "check", str(by_index))
        assert refused.returncode == 2
        assert "GPU 1 may be of any of the 2 nodes; write the node too, such as gpus: [a:1]" in refused.stderr
    finally:
        box.discard()


def refusing_nodes(box: Box, *words: str) -> list[str]:
    """The nodes that are named where a job's working directory is on none that could run it."""
    refused = box.run("submit", *words, "--workdir", "/no/such", "--", "true")
    assert refused.returncode != 0
    named = re.search(r"can use on (.*), where", refused.stderr)
    return sorted(named[1].split(", ")) if named else []


def test_files_are_looked_at_on_the_nodes_that_could_run_the_job_and_answer(two: Box) -> None:
    body = {"command": ["true"], "env": {"PATH": "/usr/bin:/bin"}, "held": True}
    # A node that is slow to answer is not named, and what another job has yet to free on a node changes their order.
    two.until(lambda: refusing_nodes(two) == ["a", "b"])
    two.until(lambda: refusing_nodes(two, "--node", "b") == ["b"])
    with stopped(agent_pid(two, "a")):
        assert "notes" not in two.api("/api/v1/jobs", {**body, "workdir": "/", "request": {"node": "b"}})
        two.until(lambda: states(two)["a"] == "silent")
        assert "notes" not in two.api("/api/v1/jobs", {**body, "workdir": "/tmp"})
        (note,) = two.api("/api/v1/jobs", {**body, "workdir": "/", "request": {"node": "a"}})["notes"]
        assert "no node that could run the job answers now" in note


def test_a_gang_runs_on_both_nodes(two: Box) -> None:
    out = two.home / "ranks"
    out.mkdir()
    script = f"echo $WORLD_SIZE $CUDA_VISIBLE_DEVICES >{out}/$RANK"
    two.ok("run", "--gpus", "2", "--gang", "2", "--spread", "--", "sh", "-c", script)
    assert sorted(path.name for path in out.iterdir()) == ["0", "1"]
    held = {path.read_text().split()[1] for path in out.iterdir()}
    assert held == {"GPU-a-0,GPU-a-1", "GPU-b-0,GPU-b-1"}


def test_the_first_of_a_gang_has_the_terminal_and_another_member_none(two: Box) -> None:
    script = "tty; read answer; echo $CORRAL_NODE got $answer"
    with corral(two, "run", "--gpus", "1", "--gang", "2", "--spread", "--pty", "--", "sh", "-c", script) as screen:
        screen.after(b"/dev/pts/")
        screen.press(b"it\r")
        screen.until(b"a got it\r\n")
        assert screen.to_the_end() == 0
    newest = max((row for row in two.json("ps", "--all", "--json")), key=lambda row: row["sequence"])
    assert two.ok("logs", "--rank", "1", newest["id"]) == "not a tty\nb got\n"


def test_input_reaches_a_job_on_another_node_and_outlasts_its_agent(two: Box) -> None:
    words = ["run", "--node", "b", "--", "sh", "-c", "echo up; cat; echo done"]
    with two.start(*words, stdin=subprocess.PIPE) as command:
        assert line_of(command.stdout) == "up\n"
        assert command.stdin is not None
        command.stdin.write("one\n")
        command.stdin.flush()
        assert line_of(command.stdout) == "one\n"
        os.kill(agent_pid(two, "b"), signal.SIGKILL)
        command.stdin.write("two\n")
        command.stdin.close()
        assert line_of(command.stdout, "two") == "two\n"
        assert line_of(command.stdout) == "done\n"
        assert command.wait(PATIENCE_S) == 0


def test_an_agent_that_hangs_makes_its_node_silent_while_others_start_and_comes_back(two: Box) -> None:
    job, pid = running_pid(two, "stays", "--node", "a")
    with stopped(agent_pid(two, "a")):
        two.until(lambda: states(two) == {"a": "silent", "b": "ready"})
        assert "on GPU-b-" in two.ok("run", "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES")
        waits = two.submit("--node", "a", "--gpus", "0", "--", "true")
        two.until(lambda: "a (silent)" in two.ok("why", waits))
        reasons = {row["state_reason"] for row in two.json("devices", "--json") if row["node"] == "a"}
        assert len(reasons) == 1
        assert "node a has not answered since" in str(reasons)
        assert two.job(job)["phase"] == "RUNNING"
        assert runs(pid)
    two.until(lambda: states(two) == {"a": "ready", "b": "ready"})
    two.until(lambda: two.job(waits)["phase"] == "SUCCEEDED")
    assert two.job(job)["phase"] == "RUNNING"
    assert runs(pid)


def test_an_agent_that_dies_is_started_again_and_its_job_ends_as_if_nothing_had_been(two: Box) -> None:
    gate = two.home / "gate"
    job = two.submit("--node", "a", "--", "sh", "-c", f"{until_there(gate)}; exit 7")
    two.until(lambda: two.job(job)["phase"] == "RUNNING")
    before = agent_pid(two, "a")
    os.kill(before, signal.SIGKILL)
    two.until(lambda: agent_pid(two, "a") != before and states(two)["a"] == "ready")
    gate.touch()
    two.until(lambda: two.job(job)["phase"] == "FAILED")
    assert (two.job(job)["exit_code"], two.job(job)["attempts"]) == (7, 1)


def test_a_job_of_a_node_that_is_gone_runs_elsewhere_and_its_old_attempt_ends_before_anything_starts_there(
    hasty: Box,
) -> None:
    job, old = running_pid(hasty, "moves", "--prefer", "zone=a", "--retries", "1")
    lost, _ = running_pid(hasty, "lost", "--node", "a")
    hasty.describe(cluster(a="silent = true", b=""))
    hasty.until(lambda: states(hasty)["a"] == "gone")
    hasty.until(lambda: hasty.job(job)["phase"] == "RUNNING" and hasty.job(job)["devices"][0].startswith("GPU-b"))
    hasty.until_phase(lost, "LOST")
    assert "may still run" in hasty.ok("why", lost)
    assert runs(old), "nobody could reach it"
    waits = hasty.submit("--node", "a", "--", "sh", "-c", f"if kill -0 {old}; then echo beside it; else echo alone; fi")
    hasty.describe(cluster(a="", b=""))
    hasty.until(lambda: hasty.job(waits)["phase"] == "SUCCEEDED")
    assert "alone" in hasty.ok("logs", waits)
    assert not runs(old)
    assert (hasty.job(job)["phase"], hasty.job(job)["attempts"]) == ("RUNNING", 2)


def test_a_node_that_is_switched_off_loses_its_jobs_and_takes_new_ones_when_it_is_back(hasty: Box) -> None:
    job, pid = running_pid(hasty, "dies", "--node", "a")
    hasty.describe(cluster(a="gone = true", b=""))
    hasty.until(lambda: not runs(pid))
    hasty.until(lambda: hasty.job(job)["phase"] == "LOST")
    hasty.describe(cluster(a="", b=""))
    hasty.until(lambda: states(hasty)["a"] == "ready")
    assert "on GPU-a-" in hasty.ok("run", "--node", "a", "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES")


def test_a_drained_node_gives_its_jobs_to_others_at_the_deadline_and_is_then_empty(two: Box) -> None:
    job, old = running_pid(two, "moves", "--prefer", "zone=a")
    told = two.ok("drain", "a", "--deadline", "1s", "--reason", "kernel update")
    assert "node a is draining (draining, 1 job left" in told
    two.until(lambda: two.job(job)["phase"] == "RUNNING" and two.job(job)["devices"][0].startswith("GPU-b"))
    assert not runs(old)
    two.until(lambda: states(two)["a"] == "cordoned")
    assert "drained by" in two.ok("nodes")
    two.down()
    two.up()
    assert states(two)["a"] == "cordoned"
    assert "node a is ready" in two.ok("uncordon", "a")


def test_a_gpu_of_several_nodes_is_named_with_its_node(two: Box) -> None:
    refused = two.run("cordon", "1")
    assert (refused.returncode != 0, "a:1, b:1" in refused.stderr) == (True, True)
    assert "GPU b:1 is cordoned" in two.ok("cordon", "b:1")
    assert "there is no GPU or node bb; did you mean node b?" in two.run("cordon", "bb").stderr
    assert {row["uuid"]: row["state"] for row in two.json("devices", "--json")}["GPU-b-1"] == "cordoned"
    assert "on GPU-a-1" in two.ok("run", "--device", "a:1", "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES")
    assert "GPU b:1 is no longer cordoned" in two.ok("uncordon", "b:1")


def test_a_server_that_is_killed_finds_its_nodes_and_their_jobs_again(two: Box) -> None:
    job, pid = running_pid(two, "stays", "--node", "b")
    server = int((two.home / "corral.pid").read_text())
    os.kill(server, signal.SIGKILL)
    two.up()
    two.until(lambda: states(two) == {"a": "ready", "b": "ready"})
    assert (two.job(job)["phase"], two.job(job)["attempts"]) == ("RUNNING", 1)
    assert runs(pid)


def test_a_process_of_a_node_is_adopted_there_and_found_again_by_the_next_server(two: Box) -> None:
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        use = f'processes = [{{ pid = {stranger.pid}, user = "somebody", memory = "1G" }}]\n'
        try:
            two.describe(cluster(a="", b="") + use)
            two.until(lambda: "in_use" in {row["state"] for row in two.json("devices", "--json")})
            job = two.json("adopt", str(stranger.pid), "--name", "llama", "--json")["id"]
            two.until(lambda: two.job(job)["phase"] == "RUNNING")
            assert two.job(job)["devices"] == ["GPU-b-1"]
            os.kill(int((two.home / "corral.pid").read_text()), signal.SIGKILL)
            two.up()
            two.until(lambda: states(two) == {"a": "ready", "b": "ready"})
            assert (two.job(job)["phase"], two.job(job)["attempts"]) == ("RUNNING", 1)
            again = two.run("adopt", str(stranger.pid))
            assert (again.returncode, f"process {stranger.pid} is job {job} already" in again.stderr) == (1, True)
        finally:
            stranger.terminate()
    two.until(lambda: two.job(job)["ended_at"] is not None)


def test_a_server_that_starts_while_a_node_is_silent_keeps_its_jobs_until_it_is_heard(two: Box) -> None:
    job, pid = running_pid(two, "stays", "--node", "b")
    two.describe(cluster(a="", b="silent = true"))
    two.until(lambda: states(two)["b"] == "silent")
    two.down()
    two.up()
    two.until(lambda: states(two) == {"a": "ready", "b": "silent"})
    assert two.job(job)["phase"] == "RUNNING"
    assert "on GPU-a-" in two.ok("run", "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES")
    waits = two.submit("--node", "b", "--", "true")
    two.describe(cluster(a="", b=""))
    two.until(lambda: two.job(waits)["phase"] == "SUCCEEDED")
    assert (two.job(job)["phase"], two.job(job)["attempts"]) == ("RUNNING", 1)
    assert runs(pid)


def test_the_page_on_clusters_runs_as_it_is_written(new_box: Callable[[str], Box]) -> None:
    page = (REPOSITORY / "docs" / "clusters.md").read_text()
    lines = re.findall(r"^\$ (corral .*)$", page, re.MULTILINE)
    assert len(lines) > 15
    box = new_box(cluster(a=""))
    env = {**box.env, "PATH": f"{Path(CORRAL).parent}:{os.environ['PATH']}"}
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, env=env, cwd=REPOSITORY, timeout=COMMAND_S
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert [row["state"] for row in box.json("nodes", "--json")] == ["ready"] * 4
