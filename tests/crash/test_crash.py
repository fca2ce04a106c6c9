"""The server is killed at every durable step; afterwards each acknowledged job ran once, or is lost and says why."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.client import Client
from corral.core.model.errors import CorralError
from corral.core.model.jobs.phase import Phase
from corral.host.runtimes.process.procfs import LocalProcess

pytestmark = pytest.mark.long

MOCK = "".join(
    f'{{ mother_uuid = "GPU-{i}", model_name = "Mock", numa_node = 0, subproc_count = 8, memory_size = "8G", '
    "is_mig_device = false },\n"
    for i in range(2)
)
CLUSTER = "".join(
    f'[[nodes]]\nname = "{name}"\n'
    f'[[nodes.devices]]\nmother_uuid = "GPU-{name}"\nmodel_name = "Mock"\nmemory_size = "8G"\n'
    for name in ("a", "b")
)
JOBS = 4
GANGS = 2
LEAST_STEPS = {"commit": 6, "launch": JOBS}
START_S = 60.0

Start = Callable[..., int]


@pytest.fixture(scope="module")
def nursery() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.crash.nursery"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


@pytest.fixture
def base() -> Iterator[Path]:
    # Not below pytest's directory, whose path is too long for a socket.
    directory = Path(tempfile.mkdtemp(prefix="corral-"))
    (directory / "mock.toml").write_text(
        f'slot_name = "cuda"\ndevice_plugin_name = "CUDADevice"\ndevices = [\n{MOCK}]\n'
    )
    (directory / "cluster.toml").write_text(CLUSTER)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def start(nursery: "subprocess.Popen[str]", base: Path) -> Iterator[Start]:
    servers: list[LocalProcess] = []

    def start_server(home: Path, crash: tuple[str, int, str] | None = None, mock: str = "mock.toml") -> int:
        order = {"home": str(home), "mock": str(base / mock), "crash": crash}
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        nursery.stdin.write(json.dumps(order) + "\n")
        nursery.stdin.flush()
        pid = int(nursery.stdout.readline())
        with contextlib.suppress(ProcessLookupError):
            servers.append(LocalProcess.of(pid))
        return pid

    yield start_server
    # By now another process may have the pid of one that was killed.
    left = [server for server in servers if server.is_alive()]
    for server in left:
        os.kill(server.pid, signal.SIGTERM)
    eventually(lambda: not any(server.is_alive() for server in left), "every server ended")


def eventually(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + START_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {START_S} s: {what}"
        time.sleep(0.005)


def gone(pid: int) -> None:
    eventually(lambda: not Path(f"/proc/{pid}").exists(), f"server {pid} ended")


def answering(home: Path, pid: int) -> bool:
    """Whether the server came up; False when it died on the way."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if not Path(f"/proc/{pid}").exists():
            return False
        with contextlib.suppress(CorralError, OSError), Client(home) as client:
            if client.server().pid == pid:
                return True
        time.sleep(0.005)
    raise AssertionError("the server neither answered nor died")


def submit(home: Path, witness: Path, first: str) -> list[str]:
    """Submit jobs, each of which says that it began, and whether its device was still another's; the acknowledged ids.

    The kernel lets go of a job's lock when the last of its processes ends, however it ends.
    """
    script = (
        'exec 9> "$0.$CUDA_VISIBLE_DEVICES"; flock -n 9 || echo "$CORRAL_JOB_ID clash" >> "$0"; '
        f'echo "$CORRAL_JOB_ID begin" >> "$0"; {first} sleep 0.05'
    )
    acknowledged = []
    with contextlib.suppress(CorralError, OSError), Client(home) as client:
        for _ in range(JOBS):
            acknowledged.append(client.submit(["/bin/sh", "-c", script, str(witness)], workdir="/").id)
    return acknowledged


def all_end(home: Path, pid: int, job_ids: list[str]) -> bool:
    """Whether the server lived to tell that all of these ended."""
    while Path(f"/proc/{pid}").exists():
        with contextlib.suppress(CorralError, OSError), Client(home) as client:
            client.wait(job_ids, timeout_s=0.1)
            return True
    return False


def check(home: Path, acknowledged: list[str], witness: Path) -> None:
    with Client(home) as client:
        rows = client.wait(acknowledged, timeout_s=START_S)
        everyone = {row.id: row for row in client.jobs.list(all=True)}
    lines = [line.split() for line in witness.read_text().splitlines()] if witness.exists() else []
    begun = [job_id for job_id, event in lines if event == "begin"]
    for row in rows:
        if row.phase == Phase.LOST:
            assert row.reason, f"job {row.id} is lost without a reason"
            assert begun.count(row.id) <= 1
        else:
            assert (row.phase, row.exit_code) == (Phase.SUCCEEDED, 0), row
            assert begun.count(row.id) == 1, f"job {row.id} ran {begun.count(row.id)} times"
    assert set(begun) <= set(everyone), "something ran that the ledger does not know"
    assert [job_id for job_id, event in lines if event == "clash"] == [], "a device was held twice"


def run_and_crash(home: Path, start: Start, crash: tuple[str, int, str], jobs_first: str = "") -> bool:
    """One life, one death and one more life. False when the server lived through: there is no such step."""
    witness = home.with_suffix(".witness")
    first = start(home, crash)
    acknowledged = submit(home, witness, jobs_first) if answering(home, first) else []
    if len(acknowledged) == JOBS and all_end(home, first, acknowledged):
        return False
    gone(first)
    second = start(home)
    assert answering(home, second)
    if acknowledged:
        check(home, acknowledged, witness)
    os.kill(second, signal.SIGTERM)
    gone(second)
    return True


def crash_at_every(step: str, when: str, base: Path, start: Start, jobs_first: str = "") -> None:
    number = 1
    # Each in a home of its own: a job that was never acknowledged may outlive both of its servers.
    while run_and_crash(base / str(number), start, (step, number, when), jobs_first):
        number += 1
    assert number > LEAST_STEPS[step], (
        f"only {number} {step}s were seen; the scenario does not reach the steps it is for"
    )


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["commit", "launch"])
def test_whatever_was_acknowledged_runs_once_or_is_lost_with_its_reason(
    base: Path, start: Start, step: str, when: str
) -> None:
    crash_at_every(step, when, base, start)


@pytest.mark.parametrize("when", ["before", "after"])
def test_jobs_that_remove_the_records_of_their_launches_run_at_most_once_too(
    base: Path, start: Start, when: str
) -> None:
    crash_at_every("commit", when, base, start, 'rm -rf "$CORRAL_HOME/launches/${CORRAL_LAUNCH#*/}";')


def test_a_job_that_ran_while_the_server_was_dead_is_adopted_with_its_exit_code(base: Path, start: Start) -> None:
    home = base / "home"
    first = start(home)
    assert answering(home, first)
    signs = [base / name for name in ("first", "second")]
    scripts = [
        f"until [ -e {sign} ]; do sleep 0.02; done; exit {code}" for sign, code in zip(signs, (7, 8), strict=True)
    ]
    with Client(home) as client:
        ends_meanwhile, outlives = (client.submit(["/bin/sh", "-c", script], workdir="/").id for script in scripts)
        eventually(lambda: [row.phase for row in client.jobs.list()] == [Phase.RUNNING] * 2, "both jobs run")
    os.kill(first, signal.SIGKILL)
    gone(first)
    signs[0].touch()
    eventually(lambda: list(home.glob("launches/*/exit")), "the first job ended")
    assert answering(home, start(home))
    signs[1].touch()
    with Client(home) as client:
        client.wait([ends_meanwhile, outlives], timeout_s=START_S)
        assert [client.jobs.get(job_id).exit_code for job_id in (ends_meanwhile, outlives)] == [7, 8]


GANG = """
member=${CORRAL_LAUNCH#*/}; first=${member%-*}
exec 9> "$0.$CUDA_VISIBLE_DEVICES"; flock -n 9 || echo "$member clash" >> "$0"
echo "$member begin" >> "$0"; : > "$0.$member"
until [ -e "$0.$first" ] && [ -e "$0.$first-1" ]; do sleep 0.02; done
"""
"""A member of two, one a node: says that it began, and ends once both have. A half of a gang would never end."""


def submit_gangs(home: Path, witness: Path) -> list[str]:
    acknowledged = []
    with contextlib.suppress(CorralError, OSError), Client(home) as client:
        for _ in range(GANGS):
            command = ["/bin/sh", "-c", GANG, str(witness)]
            acknowledged.append(client.submit(command, gpus=1, gang=2, workdir="/").id)
    return acknowledged


def check_gangs(home: Path, acknowledged: list[str], witness: Path) -> None:
    with Client(home) as client:
        rows = client.wait(acknowledged, timeout_s=START_S)
    lines = [line.split() for line in witness.read_text().splitlines()] if witness.exists() else []
    begun = [member for member, event in lines if event == "begin"]
    assert [member for member, event in lines if event == "clash"] == [], "a device was held twice"
    assert len(set(begun)) == len(begun), "a member was launched twice"
    for row in rows:
        whole = [one for one in begun if one.startswith(f"{row.id}.") and f"{one}-1" in begun]
        if row.phase == Phase.LOST:
            assert row.reason, f"gang {row.id} is lost without a reason"
            assert len(whole) <= 1
        else:
            assert row.phase == Phase.SUCCEEDED, row
            assert len(whole) == 1, f"gang {row.id} ran {len(whole)} times"


@pytest.mark.parametrize(
    "crash",
    [
        *(("member", number, when) for number in (1, 2) for when in ("before", "after")),
        *(("commit", number, "after") for number in (5, 7)),
    ],
    ids=lambda crash: "-".join(map(str, crash)),
)
def test_a_gang_over_two_nodes_runs_once_and_never_in_part_whenever_its_server_dies(
    base: Path, start: Start, crash: tuple[str, int, str]
) -> None:
    home, witness = base / "home", base / "witness"
    first = start(home, crash, mock="cluster.toml")
    acknowledged = submit_gangs(home, witness) if answering(home, first) else []
    gone(first)
    second = start(home, mock="cluster.toml")
    assert answering(home, second)
    check_gangs(home, acknowledged, witness)
