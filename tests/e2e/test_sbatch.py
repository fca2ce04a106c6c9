"""Scripts for Slurm as people write them, submitted as they are."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.box import Box

STAND_INS = {
    "python": 'echo "python $* gpus=$SLURM_GPUS_ON_NODE"',
    "torchrun": 'echo "torchrun $*"',
    "mpirun": 'echo "mpirun $*"',
}
"""Programs that say how they were called."""

SINGLE = """#!/bin/bash
#SBATCH --job-name=finetune
#SBATCH --partition=gpu
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --gres=gpu:1
#SBATCH --mem=100M
#SBATCH --time=00:10:00
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=someone@example.org

set -euo pipefail
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
python finetune.py --lr 1e-4
"""

DDP = """#!/bin/bash
#SBATCH -J ddp
#SBATCH -N 1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=a100:4
#SBATCH -t 1-00:00:00
#SBATCH --account=lab

torchrun --nnodes=$SLURM_NNODES --nproc_per_node=$SLURM_GPUS_ON_NODE train.py
"""

BY_TASK = """#!/bin/bash
#SBATCH --ntasks=3
#SBATCH --gpus-per-task=1
#SBATCH --constraint=a100|h100
#SBATCH --hint=nomultithread

mpirun -np $SLURM_NTASKS ./solver input.in || mpirun -n ${SLURM_NTASKS} python solver.py
"""

WHOLE = """#!/bin/bash
#SBATCH --exclusive
#SBATCH --qos=high
python benchmark.py
"""

SWEEP = """#!/bin/bash
#SBATCH --array=1-3%2
#SBATCH --gpus=1
#SBATCH --time=5
#SBATCH --requeue
python sweep.py --seed $SLURM_ARRAY_TASK_ID
"""

EVALUATION = """#!/bin/bash
#SBATCH --gpus-per-node=2
#SBATCH --export=ALL,SEED=7
#SBATCH --signal=USR1@60
python eval.py --seed $SEED
"""


@pytest.fixture
def with_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, box: Box) -> Box:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, body in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setitem(box.env, "PATH", f"{programs}:{box.env['PATH']}")
    return box


def submitted(box: Box, folder: Path, text: str) -> tuple[str, str]:
    """The id, and what was said."""
    # A script is read when its job starts, so that each has a file of its own.
    script = folder / f"{len(list(folder.iterdir()))}.sbatch"
    script.write_text(text)
    done = box.run("submit", str(script), cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("text", "gpus", "output"),
    [
        (SINGLE, 1, "python finetune.py --lr 1e-4 gpus=1"),
        (DDP, 4, "torchrun --nnodes=1 --nproc_per_node=4 train.py"),
        (BY_TASK, 3, "mpirun -np 3 ./solver input.in"),
        (WHOLE, 4, "python benchmark.py gpus=4"),
        (EVALUATION, 2, "python eval.py --seed 7 gpus=2"),
    ],
)
def test_it_gets_what_it_asks_for_and_runs(
    with_programs: Box, tmp_path: Path, text: str, gpus: int, output: str
) -> None:
    job_id, _ = submitted(with_programs, tmp_path, text)
    row = with_programs.ended(job_id)
    assert (row["phase"], len(row["devices"])) == ("SUCCEEDED", gpus)
    assert with_programs.ok("logs", job_id) == f"{output}\n"


def test_a_sweep_runs_each_element_with_its_number(with_programs: Box, tmp_path: Path) -> None:
    array, _ = submitted(with_programs, tmp_path, SWEEP)
    for index in (1, 2, 3):
        with_programs.ended(f"{array}_{index}")
        assert with_programs.ok("logs", f"{array}_{index}") == f"python sweep.py --seed {index} gpus=1\n"


def test_nodes_that_are_not_there_are_refused_with_what_would_work(box: Box, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=2\ntorchrun train.py\n")
    done = box.run("submit", "job.sh", cwd=tmp_path)
    assert done.returncode == 2
    assert "2 nodes are asked for, a member of the gang on each, and one node is here" in done.stderr
    assert "ask for one node and --gpus 4" in done.stderr


def test_a_command_that_only_a_cluster_has_is_warned_of_and_the_job_is_taken(box: Box, tmp_path: Path) -> None:
    job_id, said = submitted(box, tmp_path, "#!/bin/sh\n#SBATCH --gpus=1\nml cuda\nmodule load cuda\n")
    assert "line 3: there is no ml command here" in said
    assert "line 4: there is no module command here, so this line will fail (127" in said
    assert box.ended(job_id)["exit_code"] == 127


def test_a_chain_runs_in_order_and_its_output_is_where_it_was_asked_for(with_programs: Box, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    head = "#!/bin/bash\n#SBATCH --gres=none\n#SBATCH --output=logs/%x-%j.out\n#SBATCH --job-name="
    first, _ = submitted(with_programs, tmp_path, f"{head}prep\nsleep 0.3\necho prepared > data\n")
    second, _ = submitted(
        with_programs, tmp_path, f"{head}train\n#SBATCH --dependency=afterok:{first}\ncat data; false\n"
    )
    report = f"{head}report\n#SBATCH -d afterany:{second}\n#SBATCH --error=logs/%x.err\necho all over; echo oh >&2\n"
    third, _ = submitted(with_programs, tmp_path, report)
    rescue = f"{head}rescue\n#SBATCH -d afterok:{second}?afternotok:{second}\necho rescued\n"
    fourth, _ = submitted(with_programs, tmp_path, rescue)
    phases = [with_programs.ended(job_id)["phase"] for job_id in (first, second, third, fourth)]
    assert phases == ["SUCCEEDED", "FAILED", "SUCCEEDED", "SUCCEEDED"]
    written = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}
    assert written == {
        f"prep-{first}.out": "",
        f"train-{second}.out": "prepared\n",
        f"report-{third}.out": "all over\n",
        "report.err": "oh\n",
        f"rescue-{fourth}.out": "rescued\n",
    }
    assert with_programs.job(first)["devices"] == []


IN_PYTHON = """#!/usr/bin/env python3
#SBATCH --gres=none
import os, sys
print("script", sys.argv[1], os.environ.get("CORRAL_SCRIPT", "none"), os.environ["SLURM_JOB_NAME"])
"""
IN_BASH = """#!/bin/bash
#SBATCH --gres=none
echo "${0##*/} $1 ${CORRAL_SCRIPT-none} $SLURM_JOB_NAME"
"""


@pytest.mark.parametrize("text", [IN_PYTHON, IN_BASH])
def test_a_script_is_taken_from_standard_input_and_run_by_its_interpreter(box: Box, text: str) -> None:
    with box.start("submit", "-", "a b", stdin=subprocess.PIPE) as command:
        job_id, said = command.communicate(text)
    assert command.returncode == 0, said
    assert box.ended(job_id.strip())["phase"] == "SUCCEEDED", box.ok("logs", job_id.strip())
    assert box.ok("logs", job_id.strip()) == "script a b none stdin\n"
    assert "SBATCH" not in box.ok("show", "--json", job_id.strip()).replace("CORRAL_SBATCH", "")
