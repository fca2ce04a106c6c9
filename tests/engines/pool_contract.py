"""What every engine with several nodes keeps, whatever its nodes are. An engine joins with a `Pool` and a subclass."""

import re
import subprocess
from pathlib import Path

from tests.e2e.box import PATIENCE_S, line_of, until_there
from tests.e2e.terminal import corral
from tests.engines.pool import Pool

SEE = "echo on $CUDA_VISIBLE_DEVICES"


def running_pid(pool: Pool, name: str, *words: str) -> tuple[str, int]:
    """A job that runs until it is ended, as its server knows, and its process there; `words` are its flags."""
    pid_file = pool.shared / f"{name}.pid"
    script = f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000"
    job = pool.submit("--name", name, *words, "--", "sh", "-c", script)
    pool.until(lambda: pid_file.exists() and pool.job(job)["phase"] == "RUNNING")
    return job, int(pid_file.read_text())


def refusing_nodes(pool: Pool, *words: str) -> list[str]:
    """The nodes that are named where a job's working directory is on none that could run it."""
    refused = pool.run("submit", "--gpus", "1", *words, "--workdir", "/no/such", "--", "true")
    assert refused.returncode != 0
    named = re.search(r"can use on (.*), where", refused.stderr)
    return sorted(named[1].split(", ")) if named else []


class PoolContract:
    """Its tests take `two`, whose nodes are not soon given up, and `hasty`, where that takes a few seconds."""

    def test_jobs_run_where_they_name_want_or_prefer_and_the_rest_is_said(self, two: Pool) -> None:
        assert "on GPU-b-0,GPU-b-1" in two.ok("run", "--node", "b", "--gpus", "2", "--", "sh", "-c", SEE)
        assert "on GPU-a-" in two.ok("run", "--label", "zone=a", "--", "sh", "-c", SEE)
        assert "on GPU-b-" in two.ok("run", "--prefer", "zone=b", "--", "sh", "-c", SEE)
        refused = two.run("submit", "--node", "c", "--", "true")
        assert (refused.returncode != 0, "there is no node c here" in refused.stderr) == (True, True)
        assert [(row["name"], row["state"], row["devices"]) for row in two.nodes()] == [
            (name, "ready", 2) for name in ("a", "b")
        ]
        status = two.ok("status").splitlines()
        assert [line for line in status if re.match(r"[ab]  ", line)] == ["a  2 of 2 GPUs free", "b  2 of 2 GPUs free"]

    def test_files_are_looked_at_on_the_nodes_that_could_run_the_job_and_answer(self, two: Pool) -> None:
        body = {"command": ["true"], "env": {"PATH": "/usr/bin:/bin"}, "held": True}
        # A node that is slow to answer is not named, and what another job has yet to free changes their order.
        two.until(lambda: refusing_nodes(two) == ["a", "b"])
        two.until(lambda: refusing_nodes(two, "--node", "b") == ["b"])
        with two.hanging("a"):
            assert "notes" not in two.api("/api/v1/jobs", {**body, "workdir": "/", "request": {"node": "b"}})
            two.until(lambda: two.states()["a"] == "silent")
            assert "notes" not in two.api("/api/v1/jobs", {**body, "workdir": "/tmp"})
            (note,) = two.api("/api/v1/jobs", {**body, "workdir": "/", "request": {"node": "a"}})["notes"]
            assert "no node that could run the job answers now" in note

    def test_a_directory_travels_to_the_nodes_of_its_job_and_what_each_member_leaves_comes_back(
        self, two: Pool, tmp_path: Path
    ) -> None:
        project = tmp_path / "project"
        (project / "sub").mkdir(parents=True)
        (project / "sub" / "data").write_text("of the project")
        (project / "link").symlink_to("sub/data")
        words = ("--gang", "2", "--spread", "--upload", str(project), "--download", "out")
        script = "mkdir out; cat link >out/copy; echo $RANK >out/rank; pwd"
        job = two.submit(*words, "--", "sh", "-c", script)
        assert two.ended(job)["phase"] == "SUCCEEDED"
        assert str(project) not in two.ok("logs", job)
        for rank in ("0", "1"):
            got = project / f"got{rank}"
            two.ok("fetch", job, str(got), "--rank", rank)
            assert ((got / "copy").read_text(), (got / "rank").read_text()) == ("of the project", f"{rank}\n")

    def test_a_gang_runs_on_both_nodes_and_its_members_meet(self, two: Pool) -> None:
        meet = (
            "import os, socket\n"
            "at = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])\n"
            "if os.environ['RANK'] == '0':\n"
            "    other, _ = socket.create_server(at).accept()\n"
            "    print('met', other.recv(99).decode())\n"
            "else:\n"
            "    while True:\n"
            "        try: other = socket.create_connection(at)\n"
            "        except OSError: continue\n"
            "        break\n"
            "    other.sendall(os.environ['CUDA_VISIBLE_DEVICES'].encode())\n"
        )
        words = ("--gpus", "2", "--gang", "2", "--spread", "--", "/usr/bin/python3", "-c", meet)
        said = two.ok("run", *words)
        assert "met GPU-b-0,GPU-b-1" in said or "met GPU-a-0,GPU-a-1" in said

    def test_the_first_of_a_gang_has_the_terminal_and_another_member_none(self, two: Pool) -> None:
        script = "tty; read answer; echo $CORRAL_NODE got $answer"
        with corral(two, "run", "--gpus", "1", "--gang", "2", "--spread", "--pty", "--", "sh", "-c", script) as screen:
            screen.after(b"/dev/pts/")
            screen.press(b"it\r")
            screen.until(b"a got it\r\n")
            assert screen.to_the_end() == 0
        newest = max((row for row in two.json("ps", "--all", "--json")), key=lambda row: row["sequence"])
        assert two.ok("logs", "--rank", "1", newest["id"]) == "not a tty\nb got\n"

    def test_input_reaches_a_job_on_another_node_and_outlasts_its_agent(self, two: Pool) -> None:
        words = ["run", "--node", "b", "--", "sh", "-c", "echo up; cat; echo done"]
        with two.start(*words, stdin=subprocess.PIPE) as command:
            assert line_of(command.stdout) == "up\n"
            assert command.stdin is not None
            command.stdin.write("one\n")
            command.stdin.flush()
            assert line_of(command.stdout) == "one\n"
            two.kill_agent("b")
            command.stdin.write("two\n")
            command.stdin.close()
            assert line_of(command.stdout, "two") == "two\n"
            assert line_of(command.stdout) == "done\n"
            assert command.wait(PATIENCE_S) == 0

    def test_a_log_is_followed_a_command_runs_inside_and_a_cancelled_job_ends(self, two: Pool) -> None:
        job, pid = running_pid(two, "stays", "--node", "b")
        assert two.ok("exec", job, "--", "sh", "-c", "echo inside $CORRAL_JOB_ID") == f"inside {job}\n"
        gate = two.shared / "gate"
        talks = two.submit("--node", "b", "--", "sh", "-c", f"echo first; {until_there(gate)}; echo last")
        with two.start("logs", "--follow", talks) as command:
            assert line_of(command.stdout) == "first\n"
            gate.touch()
            assert line_of(command.stdout) == "last\n"
            assert command.wait(PATIENCE_S) == 0
        two.ok("cancel", job)
        two.until_phase(job, "CANCELLED")
        assert not two.runs("b", pid)

    def test_a_job_is_ended_at_its_time_limit(self, two: Pool) -> None:
        job = two.submit("--node", "b", "--time", "1s", "--", "sleep", "1000")
        assert two.ended(job)["phase"] == "TIMED_OUT"

    def test_an_agent_that_hangs_makes_its_node_silent_while_others_start_and_comes_back(self, two: Pool) -> None:
        job, pid = running_pid(two, "stays", "--node", "a")
        with two.hanging("a"):
            two.until(lambda: two.states() == {"a": "silent", "b": "ready"})
            assert "on GPU-b-" in two.ok("run", "--", "sh", "-c", SEE)
            waits = two.submit("--node", "a", "--gpus", "0", "--", "true")
            two.until(lambda: "a (silent)" in two.ok("why", waits))
            reasons = {row["state_reason"] for row in two.json("devices", "--json") if row["node"] == "a"}
            assert len(reasons) == 1
            assert "node a has not answered since" in str(reasons)
            assert two.job(job)["phase"] == "RUNNING"
            assert two.runs("a", pid)
        two.all_ready()
        two.until(lambda: two.job(waits)["phase"] == "SUCCEEDED")
        assert two.job(job)["phase"] == "RUNNING"
        assert two.runs("a", pid)

    def test_an_agent_that_dies_is_started_again_and_its_job_ends_as_if_nothing_had_been(self, two: Pool) -> None:
        gate = two.shared / "gate"
        job = two.submit("--node", "a", "--", "sh", "-c", f"{until_there(gate)}; exit 7")
        two.until(lambda: two.job(job)["phase"] == "RUNNING")
        two.kill_agent("a")
        two.all_ready()
        gate.touch()
        two.until(lambda: two.job(job)["phase"] == "FAILED")
        assert (two.job(job)["exit_code"], two.job(job)["attempts"]) == (7, 1)

    def test_a_job_of_a_node_that_is_gone_runs_elsewhere_and_its_old_attempt_ends_before_anything_starts_there(
        self, hasty: Pool
    ) -> None:
        job, old = running_pid(hasty, "moves", "--prefer", "zone=a", "--retries", "1")
        lost, _ = running_pid(hasty, "lost", "--node", "a")
        hasty.silence("a")
        hasty.until(lambda: hasty.states()["a"] == "gone")
        hasty.until(lambda: hasty.job(job)["phase"] == "RUNNING" and hasty.job(job)["devices"][0].startswith("GPU-b"))
        hasty.until_phase(lost, "LOST")
        assert "may still run" in hasty.ok("why", lost)
        assert hasty.runs("a", old), "nobody could reach it"
        # A process that was killed is a zombie for a moment.
        state = f"cut -d ' ' -f 3 /proc/{old}/stat 2>/dev/null"
        alone = f"case $({state}) in ''|Z) echo alone ;; *) echo beside; cat /proc/{old}/stat ;; esac"
        waits = hasty.submit("--node", "a", "--", "sh", "-c", alone)
        hasty.mend()
        hasty.until(lambda: hasty.job(waits)["phase"] == "SUCCEEDED")
        said = hasty.ok("logs", waits)
        assert said.endswith("alone\n"), said
        assert not hasty.runs("a", old)
        assert (hasty.job(job)["phase"], hasty.job(job)["attempts"]) == ("RUNNING", 2)

    def test_a_node_that_is_switched_off_loses_its_jobs_and_takes_new_ones_when_it_is_back(self, hasty: Pool) -> None:
        job, pid = running_pid(hasty, "dies", "--node", "a")
        hasty.switch_off("a")
        hasty.until(lambda: not hasty.runs("a", pid))
        hasty.until(lambda: hasty.job(job)["phase"] == "LOST")
        hasty.mend()
        hasty.until(lambda: hasty.states()["a"] == "ready")
        assert "on GPU-a-" in hasty.ok("run", "--node", "a", "--", "sh", "-c", SEE)

    def test_a_drained_node_gives_its_jobs_to_others_at_the_deadline_and_is_then_empty(self, two: Pool) -> None:
        job, old = running_pid(two, "moves", "--prefer", "zone=a")
        told = two.ok("drain", "a", "--deadline", "1s", "--reason", "kernel update")
        assert "node a is draining (draining, 1 job left" in told
        two.until(lambda: two.job(job)["phase"] == "RUNNING" and two.job(job)["devices"][0].startswith("GPU-b"))
        assert not two.runs("a", old)
        two.until(lambda: two.states()["a"] == "cordoned")
        assert "drained by" in two.ok("nodes")
        two.down()
        two.up()
        two.until(lambda: two.states() == {"a": "cordoned", "b": "ready"})
        assert "node a is ready" in two.ok("uncordon", "a")

    def test_a_gpu_of_several_nodes_is_named_with_its_node(self, two: Pool) -> None:
        refused = two.run("cordon", "1")
        assert (refused.returncode != 0, "a:1, b:1" in refused.stderr) == (True, True)
        assert "GPU b:1 is cordoned" in two.ok("cordon", "b:1")
        assert "there is no GPU or node bb; did you mean node b?" in two.run("cordon", "bb").stderr
        assert {row["uuid"]: row["state"] for row in two.json("devices", "--json")}["GPU-b-1"] == "cordoned"
        assert "on GPU-a-1" in two.ok("run", "--device", "a:1", "--", "sh", "-c", SEE)
        assert "GPU b:1 is no longer cordoned" in two.ok("uncordon", "b:1")

    def test_a_server_that_is_killed_finds_its_nodes_and_their_jobs_again(self, two: Pool) -> None:
        job, pid = running_pid(two, "stays", "--node", "b")
        two.kill()
        two.up()
        two.all_ready()
        assert (two.job(job)["phase"], two.job(job)["attempts"]) == ("RUNNING", 1)
        assert two.runs("b", pid)

    def test_a_process_of_a_node_is_adopted_there_and_found_again_by_the_next_server(self, two: Pool) -> None:
        with two.stranger("b") as pid:
            two.until(lambda: "in_use" in {row["state"] for row in two.json("devices", "--json")})
            job = two.json("adopt", str(pid), "--name", "llama", "--json")["id"]
            two.until(lambda: two.job(job)["phase"] == "RUNNING")
            assert two.job(job)["devices"] == ["GPU-b-1"]
            two.kill()
            two.up()
            two.all_ready()
            assert (two.job(job)["phase"], two.job(job)["attempts"]) == ("RUNNING", 1)
            again = two.run("adopt", str(pid))
            assert (again.returncode, f"process {pid} is job {job} already" in again.stderr) == (1, True)
        two.until(lambda: two.job(job)["ended_at"] is not None)

    def test_a_server_that_starts_while_a_node_is_silent_keeps_its_jobs_until_it_is_heard(self, two: Pool) -> None:
        job, pid = running_pid(two, "stays", "--node", "b")
        two.silence("b")
        two.until(lambda: two.states()["b"] == "silent")
        two.down()
        two.up()
        two.until(lambda: two.states() == {"a": "ready", "b": "silent"})
        assert two.job(job)["phase"] == "RUNNING"
        assert "on GPU-a-" in two.ok("run", "--", "sh", "-c", SEE)
        waits = two.submit("--node", "b", "--", "true")
        two.mend()
        two.until(lambda: two.job(waits)["phase"] == "SUCCEEDED")
        assert (two.job(job)["phase"], two.job(job)["attempts"]) == ("RUNNING", 1)
        assert two.runs("b", pid)
