"""A command that runs inside a job has what the job has, and nothing of it is left once its agent or job has gone."""

import os
import re
import signal
from pathlib import Path

import pytest

from corral.core.model.jobs.input import TerminalSize
from corral.core.ports.runtime import Execution, InnerCommand
from corral.host.runtimes.process.process_execution import connect_keeper, message_of
from corral.host.runtimes.process.records.launch_spec import LaunchError
from tests.host.runtimes.process.conftest import PATH, Machine, alive, root_only, until


def sleeper(machine: Machine, **more: object) -> str:
    """A job that runs, and does so for longer than any test."""
    name = machine.launch("sleep", "1000", **more)
    until(lambda: machine.marked(name), "the job's process")
    until(lambda: machine.runtime.status(name).pid is not None, "that it runs")
    return name


def sh(machine: Machine, name: str, script: str, **more: object) -> Execution:
    return machine.runtime.execute(name, InnerCommand(("sh", "-c", script), **more))  # type: ignore[arg-type]


def outcome(execution: Execution) -> tuple[bytes, bytes, int, str | None]:
    """All that it writes, to both streams, and how it ends."""
    out, err, sequence = b"", b"", 0
    ended: list[tuple[int, str | None]] = []

    def read() -> bool:
        nonlocal out, err, sequence
        piece = execution.read(sequence)
        if piece.sequence != sequence:
            sequence = piece.sequence
            out, err = out + piece.stdout, err + piece.stderr
            if piece.exit_code is not None:
                ended.append((piece.exit_code, piece.message))
        return bool(ended)

    until(read, "the end of the command")
    execution.close()
    return out, err, *ended[0]


def test_a_command_has_the_environment_directory_and_limits_of_the_job(
    machine_of_each_kind: Machine, tmp_path: Path
) -> None:
    machine = machine_of_each_kind
    name = sleeper(
        machine, env={**PATH, "MINE": "as submitted"}, workdir=str(tmp_path), umask=0o027, rlimits={"RLIMIT_NOFILE": 77}
    )
    execution = sh(machine, name, "echo $MINE; pwd; umask; ulimit -n; echo oops >&2; cat; exit 7")
    out, err, code, message = outcome(execution)
    assert out.decode().split("\n") == ["as submitted", str(tmp_path), "0027", "77", ""]
    assert (err, code, message) == (b"oops\n", 7, None)
    mark = machine.runtime._verifier.mark(name)
    assert mark.encode() in outcome(sh(machine, name, "env"))[0]
    assert machine.log(name) == b""


def test_a_command_is_in_the_cgroup_of_its_job(machine: Machine) -> None:
    if machine.runtime.means_of_killing != "cgroup":
        pytest.skip("no cgroup v2 hierarchy here that this process may write")
    name = sleeper(machine)
    own = Path(f"/proc/{machine.marked(name)[0]}/cgroup").read_bytes()
    assert outcome(sh(machine, name, "cat /proc/self/cgroup"))[0] == own


def test_input_comes_from_outside_byte_for_byte(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    execution = sh(machine, sleeper(machine), "cat", stdin=True)
    data = bytes(range(256)) * 4000
    offset, got, sequence = 0, b"", 0

    def pass_on() -> bool:
        nonlocal offset, got, sequence
        portion = data[offset : offset + 65536]
        offset, _ = execution.write(offset, portion, end=offset + len(portion) == len(data))
        piece = execution.read(sequence)
        sequence, got = piece.sequence, got + (piece.stdout if piece.sequence != sequence else b"")
        return piece.exit_code == 0

    until(pass_on, "the end of cat")
    execution.close()
    assert got == data


def test_a_piece_of_output_may_be_asked_for_again(machine: Machine) -> None:
    execution = sh(machine, sleeper(machine), "printf once")
    until(lambda: execution.read(0).stdout == b"once", "its output")
    first = execution.read(0)
    assert (first.stdout, execution.read(0)) == (b"once", first)
    until(lambda: execution.read(1).exit_code == 0, "its end")
    execution.close()


def test_a_terminal_has_the_size_that_it_is_given_and_ctrl_c_interrupts(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    execution = sh(
        machine,
        sleeper(machine, env={**PATH, "LINES": "1", "TERM": "dumb"}),
        "stty size; echo $TERM/$LINES/; read line; stty size;"
        " trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.1; done",
        terminal=TerminalSize(33, 111),
        term="xterm",
    )
    shown = b""
    sequence = 0

    def shows(text: bytes) -> bool:
        nonlocal shown, sequence
        piece = execution.read(sequence)
        if piece.sequence != sequence:
            sequence, shown = piece.sequence, shown + piece.stdout
        return text in shown

    until(lambda: shows(b"xterm//"), "the kind of its terminal")
    assert b"33 111" in shown
    execution.resize(TerminalSize(20, 70))
    execution.write(0, b"\n", end=False)
    until(lambda: shows(b"20 70"), "its new size")
    until(lambda: shows(b"ready"), "that it is ready")
    execution.write(1, b"\x03", end=False)
    assert outcome(execution)[2] == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nosuch",), 127, "command not found: nosuch"),
        (("/etc/passwd",), 126, "cannot run /etc/passwd"),
        (("sh", "-c", "kill -9 $$"), 137, None),
    ],
)
def test_what_does_not_start_or_is_killed_ends_as_in_a_shell(
    machine_of_each_kind: Machine, words: tuple[str, ...], code: int, said: str | None
) -> None:
    machine = machine_of_each_kind
    ended = outcome(machine.runtime.execute(sleeper(machine), InnerCommand(words)))
    assert ended[2] == code
    assert ended[3] is None if said is None else said in (ended[3] or "")


def test_what_a_command_leaves_behind_ends_with_it_and_the_job_goes_on(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    name = sleeper(machine)
    (own,) = machine.marked(name)
    assert outcome(sh(machine, name, "setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' &"))[2] == 0
    until(lambda: machine.marked(name) == [own], "the end of all but the job")


def test_a_command_whose_agent_hangs_up_is_ended_with_all_that_it_started(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    name = sleeper(machine)
    (own,) = machine.marked(name)
    execution = sh(machine, name, "setsid sleep 1000 & echo here; sleep 1000")
    until(lambda: execution.read(0).stdout == b"here\n", "that it runs")
    execution.close()
    until(lambda: machine.marked(name) == [own], "the end of the command")


def test_a_command_is_told_to_end_before_it_is_killed(machine_of_each_kind: Machine, tmp_path: Path) -> None:
    machine = machine_of_each_kind
    kept = tmp_path / "kept"
    # The shell says that its sleep was ended, and nobody reads that any more.
    script = f"exec 2>/dev/null; trap 'echo kept > {kept}; exit' TERM; echo here; while :; do sleep 0.05; done"
    execution = sh(machine, sleeper(machine), script)
    until(lambda: execution.read(0).stdout == b"here\n", "that it runs")
    execution.close()
    until(kept.exists, "what it does when it is told to end")


def test_a_command_that_does_not_want_to_end_is_killed(machine: Machine) -> None:
    name = sleeper(machine)
    (own,) = machine.marked(name)
    execution = sh(machine, name, "trap '' TERM HUP INT; echo here; while :; do sleep 1; done")
    until(lambda: execution.read(0).stdout == b"here\n", "that it runs")
    execution.close()
    until(lambda: machine.marked(name) == [own], "the end of the command")


@pytest.mark.parametrize("end", ["by itself", "stopped", "supervisor killed"])
def test_a_command_ends_with_its_job(machine_of_each_kind: Machine, end: str) -> None:
    machine = machine_of_each_kind
    name = sleeper(machine)
    (own,) = machine.marked(name)
    execution = sh(machine, name, "trap '' TERM HUP; setsid sleep 1000 & echo here; while :; do sleep 1; done")
    until(lambda: execution.read(0).stdout == b"here\n", "that it runs")
    if end == "by itself":
        os.kill(own, signal.SIGTERM)
    elif end == "stopped":
        machine.runtime.stop(name)
    else:
        os.kill(machine.supervisor(name), signal.SIGKILL)
    machine.wait(name)
    assert outcome(execution)[2] == 137
    assert machine.marked(name) == []


def test_the_keeper_is_taken_for_no_supervisor(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    name = sleeper(machine)
    execution = sh(machine, name, "echo here; sleep 1000")
    until(lambda: execution.read(0).stdout == b"here\n", "that it runs")
    supervisor = machine.supervisor(name)
    keepers = [
        int(pid)
        for pid in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        if Path(f"/proc/{pid}/comm").read_text() == "corral-exec\n"
    ]
    (keeper,) = keepers
    held = [os.readlink(f"/proc/{keeper}/fd/{fd}") for fd in os.listdir(f"/proc/{keeper}/fd")]
    assert not [path for path in held if path.startswith(str(machine.home / "launches"))]
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not alive(keeper), "the end of the keeper")
    execution.close()
    machine.wait(name)


def test_a_supervisor_without_such_a_door_is_said_to_be_of_an_earlier_version(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = sleeper(machine)
    monkeypatch.setattr("corral.host.runtimes.process.process_execution.ANSWER_WITHIN_S", 0.1)
    monkeypatch.setattr(machine.runtime, "_tell", lambda launch_id: None)
    with pytest.raises(LaunchError, match="earlier version"):
        sh(machine, name, "true")
    assert not (machine.home / "launches" / name / "exec").exists()


@pytest.mark.parametrize("message", [b"p\0", b"x\0true\0", b"p\0true", b"p\0" + b"a\0" * 70000])
def test_a_keeper_runs_nothing_of_a_message_that_makes_no_sense(machine: Machine, message: bytes) -> None:
    name = sleeper(machine)
    (own,) = machine.marked(name)
    directory = str(machine.home / "launches" / name)
    with open(os.devnull) as null:
        keeper = connect_keeper(directory, lambda: machine.runtime._tell(name), message, [null.fileno()] * 3)
    with keeper:
        keeper.settimeout(10)
        assert keeper.recv(100) == b""
    assert machine.marked(name) == [own]


def test_words_with_any_bytes_arrive_as_they_are(machine: Machine) -> None:
    words = ("printf", "%s|%s|%s", "", "a b\n", os.fsdecode(b"\xff\xfe"))
    assert outcome(machine.runtime.execute(sleeper(machine), InnerCommand(words)))[0] == b"|a b\n|\xff\xfe"
    with pytest.raises(ValueError, match="no command"):
        message_of(InnerCommand(("a\0b",)))


@root_only()
def test_a_command_is_its_jobs_user_with_no_more_than_the_job_has(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    machine.home.chmod(0o755)
    name = sleeper(machine, uid=1, gid=1, groups=(1, 2))
    script = "id -u; id -g; id -G;"
    script += " grep -E '^(CapPrm|CapEff|CapAmb)' /proc/self/status; ls /proc/self/fd | wc -l; echo x > /dev/stderr"
    out, err, code, _ = outcome(sh(machine, name, script))
    *ids, first, second, third, files = out.decode().split("\n")[:-1]
    assert (ids, code, err) == (["1", "1", "1 2"], 0, b"x\n")
    assert all(re.fullmatch(r"Cap...:\t0+", line) for line in (first, second, third))
    # Its three streams, and what ls has open itself.
    assert files == "4"
