"""srun as a script finds it: real scripts, members and tasks, each a process."""

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from corral.host.runtimes.process.srun.programs import install, member_program, script_program

PATIENCE_S = 60.0
NODES = "aab"
Done = subprocess.CompletedProcess[str]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """What a job of one member finds."""
    programs = tmp_path / "bin"
    install(programs)
    return {
        "PATH": f"{programs}:{os.defpath}",
        "CORRAL_JOB_ID": "7",
        "CORRAL_NODE": "a",
        "CUDA_VISIBLE_DEVICES": "M0a,M0b",
    }


def shell(text: str, env: dict[str, str], cwd: Path) -> Done:
    return subprocess.run(
        ["sh", "-c", text], env=env, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def a_free_port() -> tuple[str, int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host, port = probe.getsockname()
    return host, port


class Gang:
    """Gangs of three: members that wait, and a script on rank 0."""

    def __init__(self, directory: Path, env: dict[str, str]) -> None:
        self.directory = directory
        self.env = {
            **env,
            "CORRAL_GANG_SIZE": "3",
            "CORRAL_NODES": ",".join(NODES),
            "CORRAL_SRUN_SECRET": "hush",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "1",
        }
        self.members: list[subprocess.Popen[bytes]] = []
        self.address = ("127.0.0.1", 1)
        self._started: list[subprocess.Popen[Any]] = []

    def begin(
        self,
        text: str,
        *,
        secrets: Sequence[str] = ("hush", "hush"),
        address: tuple[str, int] | None = None,
        files: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> "subprocess.Popen[str]":
        """A gang on its way; `secrets` are what its members go by, `files` is how many descriptors the script may have.

        The members of a gang that begins without any come when they `join`.
        """
        self.address = address or a_free_port()
        self.join(secrets, env)
        path = self.directory / f"script-{len(self._started)}"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        limit = () if files is None else ("sh", "-c", f'ulimit -Sn {files}; exec "$@"', "sh")
        script = subprocess.Popen(
            [*limit, *script_program([str(path)])],
            env={**self._met(env or {}), "CORRAL_RANK": "0"},
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(script)
        return script

    def join(self, secrets: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Members begin, from rank 1 on."""
        self.members = []
        for rank, secret in enumerate(secrets, start=1):
            own = {"CORRAL_RANK": str(rank), "CORRAL_NODE": NODES[rank], "CUDA_VISIBLE_DEVICES": f"M{rank}a,M{rank}b"}
            met = {**self._met(env or {}), **own, "CORRAL_SRUN_SECRET": secret}
            self.members.append(subprocess.Popen(member_program(), env=met, cwd="/"))
        self._started += self.members

    def _met(self, env: Mapping[str, str]) -> dict[str, str]:
        host, port = self.address
        return {**self.env, **env, "CORRAL_SRUN_ADDRESS": f"{host}:{port}"}

    def run(self, text: str, **env: str) -> Done:
        script = self.begin(text, env=env)
        output, error = script.communicate(timeout=PATIENCE_S)
        return Done(script.args, script.returncode, output, error)

    def discard(self) -> None:
        """End everything, as the supervisors of a job do."""
        for process in self._started:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        for left in processes_in(self.directory):
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)


@pytest.fixture
def gang(tmp_path: Path, env: dict[str, str]) -> Iterator[Gang]:
    made = Gang(tmp_path, env)
    yield made
    made.discard()


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def processes_in(directory: Path, words: bytes = b"") -> list[int]:
    """Processes whose directory this is, of those whose command line has these words."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal() and os.readlink(process / "cwd") == str(directory):
                found += [int(process.name)] if words in (process / "cmdline").read_bytes() else []
    return found


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_a_job_of_one_member_runs_its_tasks_itself(env: dict[str, str], tmp_path: Path) -> None:
    done = shell("srun -n2 -l sh -c 'echo $RANK of $WORLD_SIZE'", env, tmp_path)
    assert sorted(done.stdout.splitlines()) == ["0: 0 of 2", "1: 1 of 2"]
    assert done.returncode == 0


def test_a_command_runs_once_on_every_member_with_the_members_own_devices(gang: Gang) -> None:
    done = gang.run("srun -l sh -c 'echo $RANK $LOCAL_RANK $NODE_RANK $CORRAL_NODE $CUDA_VISIBLE_DEVICES'")
    assert sorted(done.stdout.splitlines()) == ["0: 0 0 0 a M0a,M0b", "1: 1 1 0 a M1a,M1b", "2: 2 0 1 b M2a,M2b"]


def test_tasks_may_share_out_the_devices_of_their_member(gang: Gang) -> None:
    done = gang.run("srun -n6 --gpus-per-task=1 -l sh -c 'echo $CUDA_VISIBLE_DEVICES'")
    assert sorted(done.stdout.splitlines()) == ["0: M0a", "1: M0b", "2: M1a", "3: M1b", "4: M2a", "5: M2b"]
    done = gang.run("srun -n3 --gpus-per-task=3 true")
    assert "--gpus-per-task 3: the member has 2, too few for 1 tasks" in done.stderr
    assert done.returncode == 1


def test_tasks_find_what_the_script_has_set_its_directory_and_umask(gang: Gang) -> None:
    there = gang.directory / "there"
    there.mkdir()
    done = gang.run("cd there; umask 027; export FLAVOUR=sweet; srun sh -c 'echo $FLAVOUR $(pwd) $(umask)'")
    assert done.stdout.splitlines() == [f"sweet {there} 0027"] * 3


def test_the_secret_of_the_launch_is_in_no_task_and_no_script(gang: Gang) -> None:
    done = gang.run("env; srun env")
    assert "CORRAL_JOB_ID=7" in done.stdout
    assert "hush" not in done.stdout


def test_one_step_follows_another_and_several_run_at_once(gang: Gang) -> None:
    first, second = gang.directory / "first", gang.directory / "second"
    # Each waits for the other's tasks on all members, so that neither ends if they do not run together.
    for mine, other in ((first, second), (second, first)):
        mine.mkdir()
        (gang.directory / f"{mine.name}.sh").write_text(
            f"touch {mine}/$RANK; until [ -e {other}/0 -a -e {other}/1 -a -e {other}/2 ]; do sleep 0.05; done\n"
        )
    done = gang.run("srun sh first.sh & srun sh second.sh & wait; srun echo after")
    assert done.stdout.splitlines() == ["after"] * 3


def test_it_exits_with_the_highest_code_and_names_who_failed(gang: Gang) -> None:
    done = gang.run("srun sh -c 'exit $RANK'; echo $?")
    assert done.stdout == "2\n"
    assert "srun: b: task 2: exited with 2" in done.stderr
    done = gang.run("srun -n1 sh -c 'kill -9 $$'; echo $?")
    assert done.stdout == "137\n"
    assert "srun: a: task 0: ended by signal 9" in done.stderr
    assert gang.run("srun no-such-program; echo $?").stdout == "127\n"


def test_with_kill_on_bad_exit_a_failure_ends_the_others(gang: Gang) -> None:
    done = gang.run("srun -K sh -c '[ $RANK = 2 ] && exit 3; exec sleep 1000'; echo $?")
    assert done.stdout == "3\n"


def test_a_signal_for_srun_reaches_every_task(gang: Gang) -> None:
    done = gang.run(
        "srun sh -c 'trap \"echo told; exit 0\" TERM; touch begun.$RANK; while :; do sleep 0.05; done' & it=$!\n"
        "until [ -e begun.0 -a -e begun.1 -a -e begun.2 ]; do sleep 0.05; done; kill -TERM $it; wait $it"
    )
    assert done.stdout.splitlines() == ["told"] * 3
    assert done.returncode == 0


def test_the_script_ends_as_it_ends_and_those_that_wait_end_with_it(gang: Gang) -> None:
    assert gang.run("echo alone; exit 5").returncode == 5
    script = gang.begin("kill -USR1 $$")
    assert script.wait(PATIENCE_S) == -signal.SIGUSR1
    script = gang.begin("srun true; exit 6")
    assert script.wait(PATIENCE_S) == 6
    assert [member.wait(PATIENCE_S) for member in gang.members] == [0, 0]


def test_a_script_that_is_killed_leaves_no_task_on_the_members(gang: Gang) -> None:
    script = gang.begin("srun sh -c 'echo $$ > draft.$RANK; mv draft.$RANK pid.$RANK; exec sleep 1000'")
    files = [gang.directory / f"pid.{rank}" for rank in (1, 2)]
    until(lambda: all(file.exists() for file in files))
    children = Path(f"/proc/{script.pid}/task/{script.pid}/children").read_text().split()
    for pid in (*map(int, children), script.pid):
        os.kill(pid, signal.SIGKILL)
    # As the supervisor does with what a job leaves behind.
    (srun,) = processes_in(gang.directory, b"command.main")
    os.kill(srun, signal.SIGKILL)
    pids = [int(file.read_text()) for file in files]
    until(lambda: not any(alive(pid) for pid in pids))


def test_what_is_sent_to_all_of_a_job_is_for_its_tasks_whose_end_is_told_all_the_same(gang: Gang) -> None:
    script = gang.begin(
        "srun -n3 sh -c 'trap \"exit 4\" TERM; echo $$ > pid.$RANK; while :; do sleep 0.05; done'; exit $?"
    )
    pid = gang.directory / "pid.2"
    until(lambda: pid.exists() and pid.read_text())
    for told in (script.pid, *(member.pid for member in gang.members)):
        for signum in (signal.SIGUSR1, signal.SIGHUP):
            os.kill(told, signum)
    gang.members[1].terminate()
    os.kill(int(pid.read_text()), signal.SIGTERM)
    assert gang.members[1].wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert script.poll() is None
    for rank in (0, 1):
        os.kill(int((gang.directory / f"pid.{rank}").read_text()), signal.SIGTERM)
    assert script.wait(PATIENCE_S) == 4


def test_a_member_that_does_not_know_the_secret_gets_no_work(gang: Gang) -> None:
    gang.begin("srun -n2 touch it-ran & srun -n1 true; sleep 0.5; touch tried; wait", secrets=("guess", "hush"))
    until((gang.directory / "tried").exists)
    assert not (gang.directory / "it-ran").exists()
    assert gang.members[0].poll() is None


def test_tasks_write_to_files_of_their_own_or_together_to_one(gang: Gang) -> None:
    gang.run("srun -o out.%t sh -c 'echo $RANK; echo oh >&2'; srun -l -o both -e err sh -c 'echo $RANK; echo no >&2'")
    assert [(gang.directory / f"out.{rank}").read_text() for rank in range(3)] == ["0\noh\n", "1\noh\n", "2\noh\n"]
    assert sorted((gang.directory / "both").read_text().splitlines()) == ["0: 0", "1: 1", "2: 2"]
    assert sorted((gang.directory / "err").read_text().splitlines()) == ["0: no", "1: no", "2: no"]


def test_lines_of_tasks_come_whole(gang: Gang) -> None:
    done = gang.run("srun -n9 python3 -c 'print(\"x\" * 5000)'", PATH=f"{gang.env['PATH']}:{os.environ['PATH']}")
    assert set(done.stdout.splitlines()) == {"x" * 5000}
    assert len(done.stdout.splitlines()) == 9


def test_a_line_without_an_end_is_shown_as_it_comes(gang: Gang) -> None:
    script = gang.begin("srun -l -n3 sh -c 'head -c 600000 /dev/zero; until [ -e seen ]; do sleep 0.05; done'")
    assert script.stdout is not None
    assert len(os.read(script.stdout.fileno(), 1000)) == 1000
    (gang.directory / "seen").touch()
    assert script.stdout.read().count("\0") > 3 * 600_000 - 2000


def connections(process: "subprocess.Popen[str]") -> int:
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def test_sruns_beyond_the_scripts_limit_of_open_files_are_served(gang: Gang) -> None:
    script = gang.begin("for i in $(seq 30); do srun echo here & done; wait", secrets=(), files=25)
    until(lambda: connections(script) > 30)
    gang.join(("hush", "hush"))
    output, errors = script.communicate(timeout=PATIENCE_S)
    assert (output.split(), script.returncode) == (["here"] * 90, 0), errors


def test_who_only_connects_gives_way_to_members(gang: Gang) -> None:
    script = gang.begin("touch begun; until [ -e full ]; do sleep 0.05; done; srun echo here", secrets=())
    until((gang.directory / "begun").exists)
    with ExitStack() as idle:
        strangers = [idle.enter_context(socket.create_connection(gang.address)) for _ in range(300)]
        # Sooner than those are dropped that have not said who they are.
        strangers[0].settimeout(5.0)
        assert [len(strangers[0].recv(1000)) > 0, strangers[0].recv(1000)] == [True, b""]
        gang.join(("hush", "hush"))
        (gang.directory / "full").touch()
        output, _ = script.communicate(timeout=PATIENCE_S)
    assert output.split() == ["here"] * 3


def test_a_port_that_somebody_has_for_a_moment_is_waited_for(gang: Gang) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        script = gang.begin("srun echo here", address=other.getsockname())
        # A script that runs at once would be done by then.
        time.sleep(0.5)
        assert script.poll() is None
    output, _ = script.communicate(timeout=PATIENCE_S)
    assert output.split() == ["here"] * 3


def test_outside_of_a_job_it_says_what_it_is(env: dict[str, str], tmp_path: Path) -> None:
    done = shell("srun hostname", {"PATH": env["PATH"]}, tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("srun: this is Corral's srun")


def test_what_it_passes_over_it_says(env: dict[str, str], tmp_path: Path) -> None:
    done = shell("srun -c 2 echo hi", env, tmp_path)
    assert (done.stdout, done.returncode) == ("hi\n", 0)
    assert done.stderr.startswith("srun: ignored: -c 2 (")


def test_it_is_found_whatever_the_path_of_the_interpreter(tmp_path: Path) -> None:
    for program in install(tmp_path / "with a blank"):
        assert shlex.split(program.read_text().splitlines()[1])[0] == "exec"
        assert program.stat().st_mode & 0o777 == 0o755
