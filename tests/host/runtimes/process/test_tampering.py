"""Where the server is not root's a job can write its own record: whatever it writes, it harms nobody but itself."""

import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.model.runs.launch import LaunchPhase
from corral.host.runtimes.process.procfs import LocalProcess
from corral.host.runtimes.process.records import claimed_list
from corral.host.runtimes.process.records.claim import Claim
from corral.host.runtimes.process.records.launch_records import Exit, LaunchRecords
from tests.host.runtimes.process.conftest import Machine, alive, stopped, until
from tests.host.runtimes.process.supervisor_parts import list_as_claimed, new_time_limit_s, stop_reason, write_exit

RECORDS = ("claim", "exit", "stop", "spec.jsonl", "exit.room")
HARMLESS = (LaunchPhase.UNKNOWN, LaunchPhase.CLAIMED, LaunchPhase.RUNNING, LaunchPhase.DEAD)

NUMBERS = st.one_of(
    st.integers(), st.floats(), st.sampled_from([10**400, 1e308, -1, 2**63, True, float("nan"), float("inf")])
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=9), inner, max_size=4)),
)
WHO = st.one_of(JSON, st.fixed_dictionaries({"pid": NUMBERS, "start_ticks": NUMBERS, "boot_id": JSON}))
CLAIM = st.fixed_dictionaries(
    {"claimed_at": JSON, "holder": WHO, "declared_lost": JSON, "message": JSON}, optional={"ran": JSON}
)
EXIT = st.fixed_dictionaries(
    dict.fromkeys(("exit_code", "signal", "reason", "message", "started_at", "ended_at"), JSON)
)
STARTED = st.fixed_dictionaries({"process": WHO, "started_at": NUMBERS})
DEEP = b"[" * 50_000
CONTENT = st.one_of(
    st.binary(max_size=200),
    st.just(DEEP),
    st.lists(st.one_of(JSON, CLAIM, EXIT, STARTED), max_size=3).map(
        lambda values: "\n".join(map(json.dumps, values)).encode(errors="surrogatepass")
    ),
)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def directory(path: Path) -> None:
    (path / "within").mkdir(parents=True)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def listener(path: Path) -> None:
    # Bound by its short name: the path of a test's directory may be too long for a socket.
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as there:
            there.bind(path.name)
    finally:
        os.chdir(before)


def closed_file(path: Path) -> None:
    path.write_bytes(b"{}")
    path.chmod(0)


THINGS = (fifo, link, directory, huge, listener, closed_file)


def records_in(home: str) -> LaunchRecords:
    os.makedirs(f"{home}/launches/mine")
    return LaunchRecords(f"{home}/launches/mine")


@pytest.fixture
def records(tmp_path: Path) -> LaunchRecords:
    return records_in(str(tmp_path))


def put(records: LaunchRecords, name: str, thing: Callable[[Path], None]) -> None:
    path = Path(records.directory, name)
    path.unlink(missing_ok=True)
    thing(path)


def read_all(records: LaunchRecords) -> tuple[Claim | None, Exit | None]:
    """Every reader, of which none may break."""
    claim, exit_, started = records.claim.read(), records.read_exit(), records.claim.read_started()
    assert started is None or 0 <= started.started_at < 1e11
    assert isinstance(stop_reason(records.directory), str | None)
    assert new_time_limit_s(records.directory) is None or 0 <= (records.new_time_limit_s() or 0.0) < 1e11
    assert isinstance(records.exit_fault(), str)
    return claim, exit_


@given(name=st.sampled_from(RECORDS), content=CONTENT)
def test_whatever_is_written_into_a_record_is_read_as_what_it_can_be_or_as_torn(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        records = records_in(home)
        Path(records.directory, name).write_bytes(content)
        claim, exit_ = read_all(records)
        if claim is not None:
            assert name == "claim"
            assert (claim.holder is not None) + claim.declared_lost + claim.ran == 1
        if exit_ is not None:
            assert exit_.exit_code is None or 0 <= exit_.exit_code <= 255
            assert (exit_.started_at or 0) <= exit_.ended_at < 1e11


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_what_is_no_file_in_the_place_of_a_record_is_neither_waited_for_nor_followed(
    records: LaunchRecords, thing: Callable[[Path], None]
) -> None:
    for name in RECORDS:
        put(records, name, thing)
    claim, exit_ = read_all(records)
    assert exit_ is None
    assert claim is not None
    assert claim.torn
    assert f"{records.directory}/claim" in claim.message
    assert f"{records.directory}/exit" in records.exit_fault()
    assert not records.claim.take(Claim(1.0, LocalProcess.of(os.getpid())))
    with pytest.raises((OSError, ValueError, TypeError)):
        records.read_command()
    if thing not in (huge, closed_file):
        assert not write_exit(records.directory, Exit(0, None, None, "", 1.0, 2.0))


@given(content=st.binary(max_size=300))
def test_a_roll_full_of_nonsense_still_tells_who_is_on_it(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as home:
        Path(home, "claims").write_bytes(content + b"\n")
        assert list_as_claimed(f"{home}/launches/7.1")
        claimed_list.shorten(f"{home}/claims")
        assert claimed_list.names(f"{home}/claims")[-1] == "7.1"


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_a_roll_that_was_replaced_costs_no_other_job_its_launch(
    records: LaunchRecords, thing: Callable[[Path], None]
) -> None:
    path = Path(records.directory).parent.parent / "claims"
    thing(path)
    claimed_list.names(str(path))
    assert list_as_claimed(records.directory)
    assert claimed_list.names(str(path))[-1:] == ["mine"]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.dictionaries(st.sampled_from(RECORDS), CONTENT, min_size=1))
def test_a_backend_neither_breaks_on_nor_believes_what_no_supervisor_wrote(
    machine: Machine, content: dict[str, bytes]
) -> None:
    name = machine.spec("true").launch_id
    records = machine.runtime._verifier.records(name)
    records.make_directory()
    for record, data in content.items():
        Path(records.directory, record).write_bytes(data)
    machine.runtime._adopt(name, [])
    machine.runtime.stop(name)
    machine.runtime.pids(name)
    claim = records.claim.read()
    genuine = claim is not None and not claim.torn
    assert genuine or machine.runtime.status(name).phase in HARMLESS
    machine.runtime.declare_lost(name)
    machine.wait(name)
    machine.runtime.forget(name)
    assert name not in machine.runtime.list_launches()


def held(machine: Machine, **more: Any) -> str:
    name = machine.launch("sleep", "60", **more)
    machine.heard(name, LaunchPhase.RUNNING)
    return name


NONSENSE = [
    b"",
    b"{",
    b'{"claimed_at":1}',
    b"[]",
    DEEP,
    b"\xff\x00",
    b'{"claimed_at": 1, "holder": {"pid": 1e400}, "declared_lost": false, "message": "", "ran": false}',
    b'{"claimed_at": "x", "holder": null, "declared_lost": true, "message": "", "ran": false}',
]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_whose_claim_makes_no_sense_is_ended_and_the_claim_is_named(machine: Machine, restarted: bool) -> None:
    names = [held(machine) for _ in (*NONSENSE, *THINGS)]
    supervisors = [machine.supervisor(name) for name in names]
    for name, content in zip(names, NONSENSE, strict=False):
        Path(machine.runtime._verifier.records(name).directory, "claim").write_bytes(content)
    for name, thing in zip(reversed(names), THINGS, strict=False):
        put(machine.runtime._verifier.records(name), "claim", thing)
    if restarted:
        machine.runtime.close()
        machine.start_backend()
    for name, supervisor in zip(names, supervisors, strict=True):
        state = machine.wait(name)
        assert state.phase == LaunchPhase.DEAD
        assert f"launches/{name}/claim" in state.message
        assert machine.marked(name) == []
        assert not alive(supervisor)
    assert machine.run("true").phase == LaunchPhase.EXITED


@pytest.mark.parametrize("restarted", [False, True])
def test_an_end_is_not_believed_while_the_supervisor_lives(machine: Machine, restarted: bool) -> None:
    name = held(machine)
    records = machine.runtime._verifier.records(name)
    forged = Exit(0, None, None, "", time.time(), time.time())
    assert write_exit(records.directory, forged)
    if restarted:
        machine.runtime.close()
        machine.start_backend()
    assert machine.runtime.status(name).phase == LaunchPhase.RUNNING
    machine.runtime.stop(name)
    state = machine.wait(name)
    assert state.exit is not None
    assert state.exit.reason == "cancelled"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_claim_that_says_the_job_never_ran_is_not_believed_of_one_that_runs(
    machine: Machine, restarted: bool
) -> None:
    name = held(machine)
    machine.runtime._verifier.records(name).claim.amend(Claim(time.time(), None, declared_lost=True))
    if restarted:
        machine.runtime.close()
        machine.start_backend()
    state = machine.wait(name)
    assert state.phase == LaunchPhase.DEAD
    assert "says that it never ran" in state.message
    assert machine.marked(name) == []


@pytest.mark.parametrize("restarted", [False, True])
def test_a_claim_that_names_anothers_process_has_it_neither_ended_nor_waited_for(
    machine: Machine, restarted: bool
) -> None:
    name, neighbour = held(machine), held(machine)
    own = machine.marked(name)
    for other in (machine.supervisor(neighbour), os.getppid(), 1):
        machine.runtime._verifier.records(name).claim.amend(Claim(time.time(), LocalProcess.of(other)))
        assert set(machine.runtime.pids(name)) <= set(own)
        machine.runtime.stop(name)
        if restarted:
            machine.runtime.close()
            machine.start_backend()
    machine.wait(name)
    assert not any(map(alive, own))
    assert machine.runtime.status(neighbour).phase == LaunchPhase.RUNNING
    assert len(machine.marked(neighbour)) == 1


def test_a_claim_that_names_a_process_of_the_past_ends_nothing_early(machine: Machine) -> None:
    name = held(machine)
    past = LocalProcess.of(os.getpid())._replace(start_ticks=1)
    machine.runtime._verifier.records(name).claim.amend(Claim(time.time(), past))
    assert write_exit(machine.runtime._verifier.records(name).directory, Exit(0, None, None, "", 1.0, 2.0))
    for _ in range(2):
        assert machine.runtime.status(name).phase in (LaunchPhase.CLAIMED, LaunchPhase.RUNNING)
        machine.runtime.close()
        machine.start_backend()
    machine.runtime.stop(name)
    machine.wait(name)
    assert machine.marked(name) == []


def test_a_cgroup_of_somebody_else_in_the_record_is_left_alone(machine: Machine) -> None:
    base = machine.runtime._cgroups.base
    if base is None:
        pytest.skip("no cgroup v2 hierarchy here that this process may write")
    neighbour, name = held(machine), held(machine)
    spec = Path(machine.runtime._verifier.records(name).directory, "spec.jsonl")
    spec.write_text(spec.read_text().replace(f"{base}/{name}", base))
    os.kill(machine.supervisor(name), signal.SIGKILL)
    assert machine.wait(name).phase == LaunchPhase.DEAD
    assert len(machine.marked(neighbour)) == 1


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_an_end_that_cannot_be_recorded_is_not_waited_for_and_the_record_is_named(
    machine: Machine, thing: Callable[[Path], None]
) -> None:
    name = held(machine)
    records = machine.runtime._verifier.records(name)
    for record in ("exit", "exit.room"):
        put(records, record, thing)
    supervisor = machine.supervisor(name)
    machine.runtime.stop(name)
    state = machine.wait(name)
    until(lambda: not alive(supervisor), "the end of the supervisor")
    if state.exit is None:
        assert f"launches/{name}/exit" in state.message


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_a_job_whose_stop_cannot_be_written_down_is_stopped_all_the_same(
    machine: Machine, thing: Callable[[Path], None]
) -> None:
    name = held(machine)
    put(machine.runtime._verifier.records(name), "stop", thing)
    machine.runtime.stop(name)
    state = machine.wait(name)
    assert state.exit is not None
    assert state.exit.reason == "cancelled"


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.__name__)
def test_what_stands_in_the_place_of_a_launch_keeps_no_server_from_coming_up(
    machine: Machine, thing: Callable[[Path], None]
) -> None:
    machine.runtime.close()
    thing(machine.home / "launches" / "99.1")
    machine.start_backend()
    assert machine.runtime.status("99.1").phase == LaunchPhase.UNKNOWN
    assert machine.runtime.declare_lost("99.1")
    machine.runtime.forget("99.1")
    assert machine.runtime.list_launches() == []


def test_nonsense_from_the_notice_socket_is_nobodys_news(machine: Machine) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for notice in (b"../../x", b"\xff\xfe", b"", b"nobody.1", b"a" * 5000, b"a/b", b"..."):
            sender.sendto(notice, machine.runtime._watcher.notify_path)
    name = machine.launch("true")
    machine.wait(name)
    heard = set()
    while not machine.events.empty():
        heard.add(machine.events.get())
    assert heard == {name}
    assert not stopped(machine.zygote())
