import os
import re
from pathlib import Path

import pytest

from corral.cli.flags import SubmitFlags, parse_words
from corral.cli.script import read_script, translate_sbatch
from corral.model.errors import Refused


def write(path: Path, text: str, mode: int = 0o644) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def flags_of(line: str) -> SubmitFlags:
    ours, ignored = translate_sbatch(line.split(), "line 1")
    assert not ignored
    return parse_words(SubmitFlags, ours, "line 1")


def test_header_lines_hold_our_own_flags(tmp_path: Path) -> None:
    path = write(
        tmp_path / "job.sh", "#!/bin/bash\n# hello\n#CORRAL --gpus 2 --name 'a b'\n\n#CORRAL --time 2h\necho hi\n"
    )
    flags = read_script(path).flags
    assert (flags.gpus, flags.name, flags.time) == (2, "a b", "2h")


def test_what_is_no_script_is_told_how_it_is_submitted_words_and_all(tmp_path: Path) -> None:
    train = write(tmp_path / "train.py", "print()\n")
    for words, command in (((train, ["--lr", "a b"]), f"python {train} --lr 'a b'"), (("sleep", ["4"]), "sleep 4")):
        with pytest.raises(Refused, match=re.escape(f"corral submit -- {command}") + "$"):
            read_script(*words)


def test_the_header_ends_with_the_first_line_that_is_no_comment(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/bin/bash\necho hi\n#CORRAL --gpus 2\n")
    assert read_script(path).flags.gpus is None


def test_our_lines_win_over_slurms_and_later_ones_over_earlier(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#CORRAL --name ours\n#SBATCH -J slurms --gpus=4\n#SBATCH --gpus=3\n"
    flags = read_script(write(tmp_path / "job.sh", text)).flags
    assert (flags.name, flags.gpus) == ("ours", 3)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("--job-name=sft", "name", "sft"),
        ("-J sft", "name", "sft"),
        ("-Jsft", "name", "sft"),
        ("-t 90", "time", "5400s"),
        ("--time=1-02", "time", "93600s"),
        ("--time 10:30", "time", "630s"),
        ("-t 0", "time", None),
        ("--time=UNLIMITED", "time", None),
        ("--gres=gpu:2", "gpus", 2),
        ("--gres=gpu", "gpus", 1),
        ("--gres=gpu:a100:4", "gpus", 4),
        ("--gres=gpu:a100:4", "gpu_model", "a100"),
        ("--gres=gpu:2(S:0-1)", "gpus", 2),
        ("-G 3", "gpus", 3),
        ("--gpus=h100:2", "gpu_model", "h100"),
        ("--gpus-per-node=8", "gpus", 8),
        ("-a 0-9%2", "array", "0-9%2"),
        ("-D /data", "workdir", "/data"),
        ("-c 4", "cpus", 4.0),
        ("--mem=4000", "host_memory", "4000M"),
        ("--mem=16G", "host_memory", "16G"),
        ("--mem=0", "host_memory", None),
        ("--nice", "priority", 6),
        ("--nice=250", "priority", 8),
        ("--nice=-100", "priority", 4),
        ("-H", "hold", True),
        ("--begin=now+1hour", "begin", "now+1hour"),
        ("-b 16:00", "begin", "16:00"),
        ("--nodes=1 -n 1", "gpus", None),
        ("--dependency=afterok:7:9,afterok:11", "after", ["7", "9", "11"]),
    ],
)
def test_slurms_lines_mean_here_what_they_mean_there(line: str, field: str, value: object) -> None:
    assert getattr(flags_of(line), field) == value


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--partition=gpu", "--partition=gpu"),
        ("-p gpu", "-p gpu"),
        ("--exclusive", "--exclusive"),
        ("-N 4", "-N 4"),
        ("--gres=shard:2", "--gres=shard:2"),
        ("--priority=100", "--priority=100"),
        ("-o out.txt", "-o out.txt"),
    ],
)
def test_what_means_nothing_here_is_named(line: str, named: str) -> None:
    assert translate_sbatch(line.split(), "line 1") == ([], [named])


def test_ignored_lines_are_named_with_their_number(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/bin/bash\n#SBATCH --gpus=1\n#SBATCH --partition=gpu --mail-type=ALL\n")
    assert read_script(path).ignored == ("--partition=gpu (line 3)", "--mail-type=ALL (line 3)")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("#CORRAL --gpuz 2", r"job.sh, line 2: .*--gpuz"),
        ("#CORRAL --gpus two", r"job.sh, line 2: .*--gpus"),
        ("#CORRAL --name 'open", r"job.sh, line 2: .*quot"),
        ("#SBATCH --time=soon", r"job.sh, line 2: --time: 'soon' is not a Slurm time"),
        ("#SBATCH --gpus=a100:1,v100:2", r"job.sh, line 2: --gpus: .* no number of GPUs"),
        ("#SBATCH -d afterany:7", r"job.sh, line 2: -d: 'afterany:7' cannot be had; only afterok"),
        ("#SBATCH --job-name", r"job.sh, line 2: --job-name needs a value"),
    ],
)
def test_a_mistake_in_the_header_is_refused_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "job.sh", f"#!/bin/bash\n{line}\n")
    with pytest.raises(Refused, match=message):
        read_script(path)


def test_an_executable_script_runs_itself_and_another_by_its_interpreter(tmp_path: Path) -> None:
    path = write(tmp_path / "job.sh", "#!/usr/bin/env bash\n", 0o755)
    assert read_script(path, ["a"]).command == (path, "a")
    plain = write(tmp_path / "plain.sh", "#!/usr/bin/env bash\n", 0o644)
    runner = (plain,) if os.access(plain, os.X_OK) else ("/usr/bin/env", "bash", plain)
    assert read_script(plain, ["a"]).command == (*runner, "a")


@pytest.mark.parametrize("text", ["", "echo hi\n", "\x7fELF\x00\xff"])
def test_what_does_not_say_what_runs_it_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refused, match="#!/bin/bash"):
        read_script(write(tmp_path / "job", text))


def test_a_command_without_dashes_is_told_how_to_be_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match=r"corral submit -- python"):
        read_script("python", ["train.py"])
