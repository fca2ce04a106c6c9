"""The Tab key in real shells, set up as the help of `corral completion` says."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.box import COMMAND_S, CORRAL, PATIENCE_S, Box, until_there

pytestmark = pytest.mark.long

SHELLS = {
    "bash": ("bash --norc --noprofile -i", 'eval "$(corral completion bash)"'),
    "zsh": ("zsh -f -i", 'autoload -U compinit; compinit -D; eval "$(corral completion zsh)"'),
    "fish": ("fish --no-config -i", "corral completion fish | source"),
}
READY = b"it is set up"


PATIENT = f"""
import sys
from corral.cli import main
from corral.cli.help import completing
completing.ANSWER_S = {PATIENCE_S}
sys.exit(main())
"""
"""The command, which waits for its server at a Tab too: on a busy machine that may take longer than a person waits."""


def path_with_patient(home: Path) -> str:
    """A PATH on which `corral` is that command."""
    command = home / "bin" / "corral"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}{PATIENT}")
    command.chmod(0o755)
    return f"{command.parent}:{Path(CORRAL).parent}:{os.environ['PATH']}"


class Line:
    """A shell at a terminal, at whose prompt somebody types."""

    def __init__(self, terminal: int) -> None:
        self.terminal = terminal
        self.shown = b""

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def until(self, text: bytes) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            left_s = deadline - time.monotonic()
            assert select.select([self.terminal], [], [], max(0.0, left_s))[0], self.shown
            self.shown = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", self.shown + os.read(self.terminal, 65536))


@contextmanager
def typing_in(shell: str, box: Box, home: Path) -> Iterator[Line]:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    command, setup = SHELLS[shell]
    terminal, other_end = pty.openpty()
    look = {"TERM": "dumb" if shell == "fish" else "xterm", "COLUMNS": "200"}
    env = {**box.env, "PATH": path_with_patient(home), "HOME": str(home), **look}
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command.split()],
        stdin=other_end, stdout=other_end, stderr=other_end, env=env, cwd=home,
    )  # fmt: skip
    os.close(other_end)
    try:
        line = Line(terminal)
        line.press(f"{setup}; echo it is set\\ up\n")
        line.until(READY)
        line.shown = b""
        yield line
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes_commands_flags_and_values(shell: str, box: Box, tmp_path: Path) -> None:
    job_id = box.submit("--", "sh", "-c", until_there(tmp_path / "gate"))
    (tmp_path / "script-of-mine.sh").touch()
    typed = {
        "corral canc\t": b"corral cancel ",
        "corral cancel \t": f"corral cancel {job_id}".encode(),
        "corral run --device 0\t --host-m\t": b"--host-memory",
        "corral run --share=times\t": b"--share=timeslice",
        "corral run --after any:\t": f"--after any:{job_id}".encode(),
        "corral submit scr\t": b"corral submit script-of-mine.sh",
        "corral run -- mktem\t": b"corral run -- mktemp",
    }
    with typing_in(shell, box, tmp_path) as line:
        for keys, completed in typed.items():
            line.press(keys)
            line.until(completed)
            line.press("\x15")  # deletes the line
            line.shown = b""


def test_fish_completes_with_descriptions(box: Box, tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no fish here")
    job_id = box.submit("--name", "mine", "--", "sh", "-c", until_there(tmp_path / "gate"))
    (tmp_path / "script-of-mine.sh").touch()
    lines = ["corral canc", "corral cancel ", "corral run --share=times", "corral submit scr", "corral run -- mktem"]
    asked = "; ".join(f"complete -C '{line}'" for line in lines)
    env = {**box.env, "PATH": path_with_patient(tmp_path), "HOME": str(tmp_path)}
    told = subprocess.run(
        ["fish", "--no-config", "-c", f"corral completion fish | source; {asked}"],
        capture_output=True, text=True, env=env, cwd=tmp_path, timeout=PATIENCE_S,
    ).stdout  # fmt: skip
    assert "cancel\tCancel jobs" in told
    assert f"{job_id}\trunning mine" in told or f"{job_id}\tstarting mine" in told
    assert "--share=timeslice\n" in told
    assert "script-of-mine.sh" in told
    assert "mktemp" in told


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_name_that_a_user_chose_is_no_code_to_the_shell(shell: str, box: Box, tmp_path: Path) -> None:
    traps = [f"$(touch {tmp_path}/a)", f"`touch {tmp_path}/b`", f"\\$(touch {tmp_path}/c)", f"'; touch {tmp_path}/d; '"]
    jobs = [box.submit("--gpus", "0", "--name", trap, "--", "sh", "-c", until_there(tmp_path / "g")) for trap in traps]
    common = jobs[0][:-1] if len({job_id[:-1] for job_id in jobs}) == 1 else ""
    with typing_in(shell, box, tmp_path) as line:
        # A first Tab may complete what all ids have in common.
        line.press(f"corral cancel {common}\t\t\t")
        line.until(jobs[-1].encode())
        line.press("\x15")
        line.press("echo done by\\ now\n")
        line.until(b"done by now")
    assert [path.name for path in tmp_path.iterdir() if len(path.name) == 1] == []


def test_only_jobs_that_a_command_can_act_on_are_offered(box: Box, tmp_path: Path) -> None:
    waiting = box.submit("--hold", "--", "true")
    running = box.submit("--", "sh", "-c", until_there(tmp_path / "gate"))
    box.until_phase(running, "RUNNING")
    failed = box.submit("--", "false")
    box.ended(failed)
    offered = {
        verb: {line.split("\t")[0] for line in asked(box, f"corral {verb} ")} & {waiting, running, failed}
        for verb in ("cancel", "hold", "release", "requeue", "logs")
    }
    assert offered == {
        "cancel": {waiting, running},
        "hold": set(),
        "release": {waiting},
        "requeue": {running, failed},
        "logs": {waiting, running, failed},
    }


def test_an_array_is_one_value_until_its_elements_are_asked_for(box: Box) -> None:
    array = box.json("submit", "--json", "--hold", "--array", "0-3", "--", "true")["id"]
    assert [line.split("\t")[0] for line in asked(box, f"corral cancel {array}")] == [array]
    elements = [line.split("\t")[0] for line in asked(box, f"corral cancel {array}_")]
    assert sorted(elements) == [f"{array}_{index}" for index in range(4)]


def asked(box: Box, line: str, breaks: str = "") -> list[str]:
    """What the script of a shell is answered."""
    env = {**box.env, "_CORRAL_COMPLETE": "lines", "_CORRAL_LINE": line, "_CORRAL_BREAKS": breaks}
    done = subprocess.run([sys.executable, "-c", PATIENT], capture_output=True, text=True, env=env, timeout=COMMAND_S)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_nodes_queues_and_gpus_are_known_from_the_server(box: Box) -> None:
    box.ended(box.submit("--project", "vision", "--", "true"))
    assert [line.split("\t")[0] for line in asked(box, "corral run --device ")] == ["0", "1", "2", "3"]
    assert asked(box, "corral run --queue d") == ["default"]
    assert "vision" in asked(box, "corral run --project ")
    assert asked(box, "corral run --gpu-model a100,A") == ["a100,A100\tMock A100"]
    assert len(asked(box, "corral drain ")) == 1
    assert asked(box, "corral run --after any:9999", ":") == []
