"""What a script for a cluster calls that this machine does not have."""

from pathlib import Path

import pytest

from corral.cli.jobs.foreign_commands import missing_commands

NOWHERE = {"PATH": "/nowhere"}


def missing(*body: str, shebang: str = "#!/bin/bash", **environ: str) -> list[str]:
    lines = [shebang, "#SBATCH --gpus=1", *body]
    return [
        warning.split(" command here", 1)[0] for warning in missing_commands(lines, "job.sh", {**NOWHERE, **environ})
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("mpirun python train.py", "mpirun"),
        ("  mpirun --mpi=pmix ./app", "mpirun"),
        ("time mpirun -np 4 ./app", "mpirun"),
        ("OMP_NUM_THREADS=4 mpirun ./app", "mpirun"),
        ("exec mpiexec -n 4 ./app", "mpiexec"),
        ("module load cuda/12", "module"),
        ("ml cuda/12", "ml"),
        ("module purge && module load gcc", "module"),
        ("cd /data && mpirun ./app &", "mpirun"),
        ("if mpirun ./probe; then", "mpirun"),
        ("NODES=$(mpirun hostname)", "mpirun"),
        ("cat input | mpirun ./filter", "mpirun"),
    ],
)
def test_a_line_that_calls_what_is_not_there_is_named_with_what_happens_and_what_to_do(line: str, name: str) -> None:
    (warning,) = missing_commands(["#!/bin/bash", line], "job.sh", NOWHERE)
    assert warning.startswith(f"job.sh, line 2: there is no {name} command here, so this line will fail (127")


@pytest.mark.parametrize(
    "line",
    [
        "# mpirun python train.py",
        "echo mpirun",
        "python train.py --launcher mpirun",
        "torchrun train.py \\\n  mpirun",
        "echo 'module load cuda'",
        "mpirun_all ./app",
        "cat <<END\nmpirun ./app\nEND",
        "echo 'a quote\n that goes on'",
    ],
)
def test_a_word_that_is_no_command_is_no_matter(line: str) -> None:
    assert missing(*line.splitlines()) == []


def test_only_a_shell_reads_a_script_in_that_way() -> None:
    assert missing("module = load()", shebang="#!/usr/bin/env python3") == []
    assert missing("mpirun ./app", shebang="#!/usr/bin/env bash") == ["job.sh, line 3: there is no mpirun"]


def test_each_is_told_once_with_its_first_line() -> None:
    assert missing("module load a", "mpirun ./a", "module load b", "mpirun ./b") == [
        "job.sh, line 3: there is no module", "job.sh, line 4: there is no mpirun",
    ]  # fmt: skip


def test_what_the_job_will_find_is_not_missing(tmp_path: Path) -> None:
    program = tmp_path / "mpirun"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert missing("mpirun ./app", PATH=str(tmp_path)) == []
    assert missing("module load cuda", **{"BASH_FUNC_module%%": "() { true; }"}) == []
    assert missing("module load cuda", shebang="#!/bin/bash -l") == []
    assert missing("source /etc/profile.d/modules.sh", "module load cuda") == []
    assert missing(". ./setup.sh", "mpirun ./app") == []
    assert missing("module load mpi", "mpirun ./app", **{"BASH_FUNC_module%%": "() { true; }"}) == []
    assert missing('mpirun() { "$@"; }', "mpirun ./app") == []


def test_a_file_that_is_sourced_brings_nothing_to_lines_before_it() -> None:
    assert missing("module load cuda", "source ~/.bashrc") == ["job.sh, line 3: there is no module"]
    assert missing("module load mpi", "mpirun ./app") == [
        "job.sh, line 3: there is no module", "job.sh, line 4: there is no mpirun",
    ]  # fmt: skip


def test_srun_and_scontrol_are_there_in_every_job() -> None:
    assert missing("srun python train.py", "scontrol show hostnames") == []
