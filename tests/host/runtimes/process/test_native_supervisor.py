"""The supervisor where what it reads is hostile, where it must say what servers say, and where it is missing."""

import json
import os
import random
import resource
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral.host.node.files import job_logs
from corral.host.runtimes.process import native_supervisor
from corral.host.runtimes.process.records.launch_records import LaunchRecords
from corral.host.runtimes.process.records.launch_spec import LaunchError
from corral.host.runtimes.process.supervisor_orders import Command, Orders, encode
from tests.host.runtimes.process.conftest import EVENT_S, Machine, until

VALUES = (
    *(
        "null",
        "true",
        "-1",
        "0",
        "1e308",
        "-1e308",
        "9" * 400,
        "1.5",
        '""',
        '"\\u0000"',
        '"\\ud800"',
        '"\\udcff"',
        "[]",
    ),
    *(
        "{}",
        "[" * 40 + "]" * 40,
        '"' + "x" * 5000 + '"',
        '{"RLIMIT_NOFILE": 1e9}',
        '{"HOME": 3}',
        "[-1]",
        "[4294967295]",
    ),
)


def an_encoded_launch(home: Path, name: str) -> str:
    """A launch of `true` with nearly everything in it."""
    log, scratch, cgroup = (str(home / f"{name}.{what}") for what in ("log", "scratch", "group"))
    orders = Orders(
        *(name, log, scratch, -1, -1, 5.0, 0.1, 4096, ["a note é"], cgroup, [], str(home / "notify")),
        checkpoint_signal=10,
        checkpoint_grace_s=0.1,
        boot_at=1.7e9,
        stdin=True,
        wrapped=True,
        numa_nodes=[0],
        numa_cpus=[0],
    )
    env = {"PATH": "/usr/bin:/bin", "NAME": "wert"}
    return encode(
        orders, Command(["true", "a"], env, "/", 0o022, None, None, None, {"RLIMIT_NOFILE": 256}, "/dev/null")
    )


def mutated(text: str, draw: random.Random) -> bytes:
    """A field replaced, or bytes of it lost, doubled or changed."""
    if draw.random() < 0.6:
        lines = [json.loads(line) for line in text.splitlines()]
        line, mark = draw.choice(lines), "@@"
        line[draw.randrange(len(line))] = mark
        return "".join(json.dumps(one) + "\n" for one in lines).replace(f'"{mark}"', draw.choice(VALUES)).encode()
    data = bytearray(text.encode())
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data))
        data[at : at + draw.choice((0, 1, 3))] = draw.choice((b"", b"\0", b'"', b"\\", b"\xff", b"\\u", b"[", b"\n"))
    return bytes(data)


@contextmanager
def zygote_of(program: Path | str, launches: Path) -> Iterator[tuple[socket.socket, Path]]:
    """A zygote, the socket to it, and the file of what it complains of."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    errors = launches.parent / "errors"
    with ours, theirs, errors.open("wb") as written:
        command = [program, str(theirs.fileno()), str(launches)]
        running = subprocess.Popen(
            command, pass_fds=(theirs.fileno(),), env={}, stdin=subprocess.DEVNULL, stderr=written
        )
        theirs.close()
        try:
            yield ours, errors
        finally:
            ours.close()
            running.wait(EVENT_S)


def supervised(zygote: socket.socket, name: str) -> None:
    """The launch, to the end of its supervisor."""
    zygote.send(name.encode())
    answer, handles, _, _ = socket.recv_fds(zygote, 4096, 1)
    assert answer.decode() == f"forked {name}"
    try:
        assert select.select(handles, [], [], EVENT_S)[0], "the supervisor does not end"
    finally:
        os.close(handles[0])


def test_a_launch_that_somebody_wrote_is_refused_or_run_and_breaks_nothing(
    sanitized_supervisor: Path, tmp_path: Path
) -> None:
    launches = tmp_path / "launches"
    draw = random.Random(os.urandom(8))
    with zygote_of(sanitized_supervisor, launches) as (zygote, errors):
        for number in range(60):
            name = f"a{number}"
            (launches / name).mkdir(parents=True)
            spec = mutated(an_encoded_launch(tmp_path, name), draw)
            (launches / name / "spec.jsonl").write_bytes(spec)
            supervised(zygote, name)
            told = errors.read_text(errors="replace")
            assert "Sanitizer" not in told, (spec, told)
            assert "runtime error" not in told, (spec, told)
            records = LaunchRecords(str(launches / name))
            ran = records.claim.read() is not None
            assert (records.read_exit() is not None) == ran, (spec, told)
            assert ran != (f"{name}: cannot" in told), (spec, told)


def test_a_time_limit_and_a_reason_that_somebody_wrote_break_nothing(
    sanitized_supervisor: Path, tmp_path: Path
) -> None:
    launches = tmp_path / "launches"
    with zygote_of(sanitized_supervisor, launches) as (zygote, errors):
        for number, value in enumerate((*VALUES, "", "{", '{"reason": 3}', '{"time_limit_s": "x"}', "[]" * 4000)):
            name = f"a{number}"
            (launches / name).mkdir(parents=True)
            (launches / name / "spec.jsonl").write_text(an_encoded_launch(tmp_path, name))
            (launches / name / "stop").write_text(f'{{"reason": {value}}}' if number % 2 else value)
            (launches / name / "limit").write_text(f'{{"time_limit_s": {value}}}')
            supervised(zygote, name)
            assert LaunchRecords(str(launches / name)).read_exit() is not None, value
            told = errors.read_text(errors="replace")
            assert told == "", (value, told)


@pytest.mark.parametrize(
    "line",
    ["plain", "tab\there", "\x1b[2J", "line\nbreak\r", "é ü 漢字 🙂", "\x7f\x80\xa0\xad", "\u200b\u202e\u2028\ufeff",
     "\ue000", "\U000e0001", os.fsdecode(b"not \xff\xc0\x80 utf-8"), "back\\slash", "\0", "\ud800"],
)  # fmt: skip
def test_a_note_is_written_as_a_server_writes_it(machine: Machine, line: str) -> None:
    name = machine.launch("true", notes=(line,))
    machine.wait(name)
    assert machine.log(name) == job_logs._note(line)


def test_a_reason_that_says_nothing_ends_the_job_all_the_same(machine_of_each_kind: Machine) -> None:
    machine = machine_of_each_kind
    name = machine.launch("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    machine.wait_for_log(name, "up")
    (machine.home / "launches" / name / "stop").write_text('{"reason": ""}')
    os.kill(machine.supervisor(name), signal.SIGTERM)
    exit_ = machine.wait(name).exit
    assert exit_ is not None
    assert exit_.signal == signal.SIGKILL


def test_every_limit_that_can_be_asked_for_is_known(machine_of_each_kind: Machine) -> None:
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    limits = {name: resource.getrlimit(getattr(resource, name))[0] for name in names}
    exit_ = machine_of_each_kind.run("true", rlimits=limits).exit
    assert exit_ is not None
    assert (exit_.exit_code, exit_.message) == (0, "")


def test_a_supervisor_costs_a_tenth_of_a_mebibyte(machine: Machine) -> None:
    machine.run("true")
    env = {"PATH": "/usr/bin:/bin"} | {f"VARIABLE_{i}": "some value of some length" for i in range(30)}
    name = machine.launch("sleep", "60", env=env)
    until(lambda: machine.runtime.status(name).started_at, "the start")
    rollup = Path(f"/proc/{machine.supervisor(name)}/smaps_rollup").read_text().splitlines()
    private_kib = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    # The figure aimed at is 300 KiB; more than this is a buffer too many.
    assert private_kib < 150


def test_a_zygote_leaves_nothing_beside_the_launches(machine: Machine) -> None:
    machine.run("true")
    assert [path.name for path in (machine.home / "launches").iterdir()] == ["a1"]


@pytest.mark.parametrize("compiler", [True, False])
def test_without_a_supervisor_no_runtime_starts_and_it_is_told_what_is_missing_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: bool
) -> None:
    monkeypatch.setattr(native_supervisor, "PATH", "/nowhere/corral-supervisor")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if compiler else None)
    advice = r"type `make setup`" if compiler else r"install a C compiler .* apt install gcc .* then type `make setup`"
    with pytest.raises(LaunchError, match=rf"not compiled: /nowhere/corral-supervisor is missing; {advice}"):
        Machine(tmp_path)
