"""What a script for a cluster calls that this machine does not have."""

from pathlib import Path

import pytest

from corral.cli.foreign_commands import missing_commands

NOWHERE = {"PATH": "/nowhere"}


def missing(*body: str, shebang: str = "#!/bin/bash", **environ: str) -> list[str]:
    lines = [shebang, "#SBATCH --gpus=1", *body]
    return [
        warning.split(" command here", 1)[0] for warning in missing_commands(lines, "job.sh", {**NOWHERE, **environ})
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("scontrol python train.py", "scontrol"),
        ("  scontrol --mpi=pmix ./app", "scontrol"),
        ("time mpirun -np 4 ./app", "mpirun"),
        ("OMP_NUM_THREADS=4 scontrol ./app", "scontrol"),
        ("exec mpiexec -n 4 ./app", "mpiexec"),
        ("module load cuda/12", "module"),
        ("ml cuda/12", "ml"),
        ("module purge && module load gcc", "module"),
        ("cd /data && scontrol ./app &", "scontrol"),
        ("if scontrol ./probe; then", "scontrol"),
        ("NODES=$(scontrol hostname)", "scontrol"),
        ("cat input | scontrol ./filter", "scontrol"),
    ],
)
def test_a_line_that_calls_what_is_not_there_is_named_with_what_happens_and_what_to_do(line: str, name: str) -> None:
    (warning,) = missing_commands(["#!/bin/bash", line], "job.sh", NOWHERE)
    assert warning.startswith(f"job.sh, line 2: there is no {name} command here, so this line will fail (127")


@pytest.mark.parametrize(
    "line",
    [
        "# scontrol python train.py",
        "echo scontrol",
        "python train.py --launcher scontrol",
        "torchrun train.py \\\n  scontrol",
        "echo 'module load cuda'",
        "scontrol_all ./app",
        "cat <<END\nscontrol ./app\nEND",
        "echo 'a quote\n that goes on'",
    ],
)
def test_a_word_that_is_no_command_is_no_matter(line: str) -> None:
    assert missing(*line.splitlines()) == []


def test_only_a_shell_reads_a_script_in_that_way() -> None:
    assert missing("module = load()", shebang="#!/usr/bin/env python3") == []
    assert missing("scontrol ./app", shebang="#!/usr/bin/env bash") == ["job.sh, line 3: there is no scontrol"]


def test_each_is_told_once_with_its_first_line() -> None:
    assert missing("module load a", "scontrol ./a", "module load b", "scontrol ./b") == [
        "job.sh, line 3: there is no module", "job.sh, line 4: there is no scontrol",
    ]  # fmt: skip


def test_what_the_job_will_find_is_not_missing(tmp_path: Path) -> None:
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert missing("scontrol ./app", PATH=str(tmp_path)) == []
    assert missing("module load cuda", **{"BASH_FUNC_module%%": "() { true; }"}) == []
    assert missing("module load cuda", shebang="#!/bin/bash -l") == []
    assert missing("source /etc/profile.d/modules.sh", "module load cuda") == []
    assert missing(". ./setup.sh", "mpirun ./app") == []
    assert missing("module load mpi", "mpirun ./app", **{"BASH_FUNC_module%%": "() { true; }"}) == []
    assert missing('scontrol() { "$@"; }', "scontrol ./app") == []


def test_a_file_that_is_sourced_brings_no_scontrol_and_nothing_to_lines_before_it() -> None:
    assert missing("source ~/.bashrc", "scontrol ./app") == ["job.sh, line 4: there is no scontrol"]
    assert missing("module load cuda", "source ~/.bashrc") == ["job.sh, line 3: there is no module"]
    assert missing("module load mpi", "mpirun ./app") == [
        "job.sh, line 3: there is no module", "job.sh, line 4: there is no mpirun",
    ]  # fmt: skip


def test_srun_is_there_in_every_job() -> None:
    assert missing("srun python train.py") == []
