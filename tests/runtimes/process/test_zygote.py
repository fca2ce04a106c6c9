import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.runtimes.process import native_supervisor, zygote
from tests.runtimes.process.conftest import Machine, until

NOWHERE = "/nowhere"


@pytest.fixture(params=["Python", "C"])
def machine_of_python_or_c(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    if request.param == "Python":
        monkeypatch.setattr(native_supervisor, "PATH", NOWHERE)
    elif not os.access(native_supervisor.PATH, os.X_OK):
        pytest.skip("the supervisor is not compiled: make setup, with a C compiler")
    machine = Machine(tmp_path)
    yield machine
    machine.shut()


def test_the_zygote_loads_nothing_of_corral_but_its_own_few_modules() -> None:
    *python, boot = zygote.command(0, "/nowhere")
    listing = boot.rpartition(";")[0] + ";print(*sorted(sys.modules))"
    modules = subprocess.run([*python, listing], capture_output=True, text=True, check=True).stdout.split()
    own = {name for name in modules if name.partition(".")[0] == "corral"}
    modules_of_ours = (
        "cgroup claim claimed_list escalation job_input joblog keeper killing launch_records log_marks numa"
        " output_disks outputs own_log procfs pseudo_terminal start_program streams supervisor supervisor_orders"
        " time_limit whole_files zygote"
    )
    above = {"corral", "corral.as_login", "corral.pidfd", "corral.runtimes", "corral.runtimes.process"}
    assert own == above | {f"corral.runtimes.process.{name}" for name in modules_of_ours.split()}
    assert not {"dataclasses", "inspect", "subprocess", "asyncio", "site", "shutil"} & set(modules)


def test_a_supervisor_costs_about_a_mebibyte_in_python_and_a_tenth_of_it_in_c(machine_of_python_or_c: Machine) -> None:
    machine = machine_of_python_or_c
    machine.run("true")
    env = {"PATH": "/usr/bin:/bin"} | {f"VARIABLE_{i}": "some value of some length" for i in range(30)}
    name = machine.launch("sleep", "60", env=env)
    until(lambda: machine.runtime.status(name).started_at, "the start")
    rollup = Path(f"/proc/{machine.supervisor(name)}/smaps_rollup").read_text().splitlines()
    private_kib = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    # The figures aimed at are 1 MiB and 300 KiB; more than this is a module or a buffer too many.
    assert private_kib < (1400 if native_supervisor.PATH == NOWHERE else 150)


def test_a_zygote_leaves_nothing_of_its_rehearsal(machine_of_python_or_c: Machine) -> None:
    machine = machine_of_python_or_c
    machine.run("true")
    assert [path.name for path in (machine.home / "launches").iterdir()] == ["a1"]
