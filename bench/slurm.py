"""The same work given to Slurm and to Corral in turn, on this machine, where Debian's `slurm-wlm` is installed.

`python -m bench slurm` prints ratios. Both run as this user, on loopback, with everything below a temporary directory.
Slurm runs as light as it can: no authentication, no accounting, no cgroups. It needs root, as its daemon does.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.server import throw_away
from corral.client import Client
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission

PAIRS = 3
JOBS = 1_000
SLOTS = 64
COMMANDS = 20
PROGRAM = "/bin/true"
ENV = {"PATH": "/usr/bin:/bin"}
PATIENCE_S = 120.0

CONFIGURATION = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={slots} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Taken(NamedTuple):
    """What one manager did with the work of a round.

    Attributes:
        jobs_per_s: from before the submit of all until the end of the last is known.
        command_s: the submitting command as a whole process, median.
        start_s: from before that command until the job's own first moment, median.
    """

    jobs_per_s: float
    command_s: float
    start_s: float


def main() -> None:
    missing = [name for name in ("slurmctld", "slurmd", "sbatch", "squeue") if not shutil.which(name)]
    if missing or os.geteuid():
        why = f"{missing[0]} is not installed (Debian: slurm-wlm)" if missing else "only root may run its daemons"
        print(f"nothing to compare with: {why}")
        return
    pairs = [(_slurm(), _corral()) for _ in range(PAIRS)]
    bare_s = _median_s(lambda: _run([sys.executable, "-c", "pass"]))
    print(f"{'':24}{'Slurm':>26}{'Corral':>26}   ratios")
    _row("jobs/s", [(a.jobs_per_s, b.jobs_per_s, b.jobs_per_s / a.jobs_per_s) for a, b in pairs], "5 x")
    for name, field in (("submit command, ms", 1), ("submit to start, ms", 2)):
        _row(name, [(1e3 * a[field], 1e3 * b[field], b[field] / a[field]) for a, b in pairs])
    print(f"python -c pass: {bare_s * 1e3:.0f} ms")
    _print_floor()


def _row(name: str, pairs: list[tuple[float, float, float]], goal: str = "") -> None:
    slurm, corral, ratios = zip(*pairs, strict=True)
    figures = [", ".join(f"{value:.0f}" for value in values) for values in (slurm, corral)]
    told = ", ".join(f"{ratio:.1f}" for ratio in ratios) + (f" (goal {goal})" if goal else "")
    print(f"{name:24}{figures[0]:>26}{figures[1]:>26}   {told}")


def _corral() -> Taken:
    with throw_away(SLOTS) as server, Client(server.home) as client:
        work = Submission((PROGRAM,), request=Request(devices=1), env=ENV, workdir="/")
        began = time.perf_counter()
        client.wait(client.submit_many([work] * JOBS))
        jobs_per_s = JOBS / (time.perf_counter() - began)
        corral = str(Path(sys.executable).with_name("corral"))
        environ = {**ENV, "CORRAL_HOME": str(server.home)}
        return Taken(jobs_per_s, *_one_by_one([corral, "submit", "--"], server.home, environ))


def _slurm() -> Taken:
    with tempfile.TemporaryDirectory(prefix="corral-bench-slurm-") as name, _throw_away_slurm(Path(name)) as environ:
        began = time.perf_counter()
        submit = ["sbatch", "--output=/dev/null", "--chdir=/"]
        _run([*submit, f"--array=0-{JOBS - 1}", "--wrap", PROGRAM], environ)
        _until(lambda: not _said(["squeue", "--noheader"], environ), 0.05)
        jobs_per_s = JOBS / (time.perf_counter() - began)
        return Taken(jobs_per_s, *_one_by_one(submit, Path(name), environ))


def _one_by_one(submit: list[str], directory: Path, environ: dict[str, str]) -> tuple[float, float]:
    """Median seconds of the command, and from before it until its job begins, on an idle machine."""
    script = directory / "says-when.sh"
    commands, starts = [], []
    for number in range(COMMANDS):
        told = directory / f"began-{number}"
        script.write_text(f"#!/bin/sh\ndate +%s%N > {told}.new\nmv {told}.new {told}\n")
        script.chmod(0o755)
        began = time.time()
        _run([*submit, str(script)], environ)
        commands.append(time.time() - began)
        _until(told.exists, 0.002)
        starts.append(int(told.read_text()) / 1e9 - began)
        time.sleep(0.05)
    return statistics.median(commands), statistics.median(starts)


@contextmanager
def _throw_away_slurm(directory: Path) -> Iterator[dict[str, str]]:
    """Slurm with one node of `SLOTS` CPUs, ready; the environment in which its commands find it."""
    host = socket.gethostname().partition(".")[0]
    controller_port, node_port = _free_ports(2)
    configuration = directory / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            host=host, controller_port=controller_port, node_port=node_port, directory=directory, slots=SLOTS
        )
    )
    for name in ("state", "spool"):
        (directory / name).mkdir()
    environ = {**ENV, "SLURM_CONF": str(configuration)}
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in (["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", host]):
            program = str(shutil.which(command[0]))
            quiet = subprocess.DEVNULL
            daemons.append(subprocess.Popen([program, *command[1:]], env=environ, stdout=quiet, stderr=quiet))
        _until(lambda: _said(["sinfo", "--noheader", "--format=%t"], environ) == "idle", 0.1)
        yield environ
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def _print_floor() -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        print("floor: there is no C compiler (cc) here")
        return
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        floor = f"{name}/fork_floor"
        _run([compiler, "-O2", "-o", floor, str(Path(__file__).with_name("fork_floor.c"))])
        took_s = _median_s(lambda: _run([floor, str(JOBS), str(SLOTS), PROGRAM]))
    print(f"floor, fork and exec alone in C: {JOBS / took_s:.0f} jobs/s (stretch goal: half of it)")


def _median_s(work: Callable[[], object], rounds: int = 9) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _until(true: Callable[[], bool], pause_s: float) -> None:
    gives_up = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > gives_up:
            raise SystemExit(f"not done after {PATIENCE_S:.0f} s")
        time.sleep(pause_s)


def _run(command: list[str], environ: dict[str, str] | None = None) -> None:
    subprocess.run(command, check=True, env=environ, stdout=subprocess.DEVNULL)


def _said(command: list[str], environ: dict[str, str]) -> str:
    return subprocess.run(command, env=environ, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
