"""A mistake on the command line is told in words that say what would do, in lines that fit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.cli.app import Corral, all_commands, run
from corral.cli.commands.job_options import SubmitFlags
from corral.cli.declaring import DeclaredCommand
from corral.cli.jobs.flags import parse_words
from corral.cli.screen import complain
from corral.core.model.errors import CorralError, Refused

WITHOUT_ARGUMENTS = {"completion", "dashboard", "demo", "help", "top", "up", "agent", "events"}
"""These do something without one, or print help."""

TYPICAL = [
    "submit --gpus 99x -- true",
    "submit --gpus 0.333 -- python train.py",
    "submit --gpu-mem lots -- python train.py",
    "submit --host-memory 4Q -- python train.py",
    "submit --time soon -- python train.py",
    "submit --array 5-1 -- python train.py",
    "submit --env NAME -- python train.py",
    "submit --after -- python train.py",
    "submit --begin yesterdayish -- python train.py",
    "submit --split 0.5 --share mps -- python train.py",
    "submit --mem 4G --gres=gpu:2 -- python train.py",
    "submit no-such-script.sh",
    "run --gpus two -- python train.py",
    "run --time 90 -- python train.py",
    "reserve --for ages --gpus 1",
    "update 17",
    "update 17 --time 1",
    "update 17 --gpus 2",
    "cancel",
    "cancel --state running-ish",
    "logs 17 --tail -5",
    "logs 17 --since lately",
    "wait 17 --timeout 5",
    "ps --state rnning",
    "ps --columns id,nmae",
    "ps --sort fastest",
    "ps --limit 100000",
    "usage --by team",
    "usage --since lately",
    "report --since lately",
    "kpis --since lately",
    "token create --scope everything",
    "token create --expires never-ever",
    "alerts silence temperature --for ever",
    "tune no-such-task.json",
    "simulate swf --trace no-such.swf",
    "simulate gavel --jobs no-such.csv --cluster many",
    "simulate openb --nodes a.csv",
    "up --mock no-such.toml",
    "mig cut 0 --count 0",
    "frobnicate",
    "sbatch job.sh",
]


def commands() -> Iterator[tuple[list[str], type[DeclaredCommand]]]:
    """Each command, also those of groups, with the words that lead to it."""
    for name in all_commands():
        command = Corral.find(name)
        assert command is not None
        for word in command.commands or [""]:
            below = command.find(word) if word else command
            assert below is not None
            yield [name, word] if word else [name], below


def told(words: list[str]) -> None:
    """Say on standard error what the command line says of a mistake."""
    try:
        run(words)
    except CorralError as error:
        complain(str(error))


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CORRAL_URL", "CORRAL_TOKEN", "CORRAL_RESERVATION", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def too_long(text: str, columns: int) -> list[str]:
    """Lines that are longer, without those that are one word, such as a path."""
    return [line for line in text.splitlines() if len(line) > columns and " " in line.strip()]


@pytest.mark.parametrize("mistake", TYPICAL)
def test_a_typical_mistake_is_told_within_eighty_columns(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    told(mistake.split())
    said = capsys.readouterr().err
    assert said
    assert too_long(said, 80) == []


@pytest.mark.parametrize("columns", [50, 80])
def test_each_command_tells_what_is_wrong_with_its_options_within_the_width(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for path, command in commands():
        told([*path, "--no-such-flag-as-this-one", "x"])
        said = capsys.readouterr().err
        assert (path, "there is no flag" in said, too_long(said, columns)) == (path, True, [])
        if not set(path) & WITHOUT_ARGUMENTS and any(option.required for option in command.declared):
            told(path)
            said = capsys.readouterr().err
            assert (path, "Missing" in said, too_long(said, columns)) == (path, True, [])


def test_a_number_that_is_none_is_answered_with_the_numbers_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        ("ps --limit x", "--limit: 'x' is not a whole number from 0 to 9999"),
        ("ps --limit 12345", "--limit: 12345 is not a whole number from 0 to 9999"),
        ("logs 1 -n -3", "--tail: -3 is not a whole number of at least 0"),
        ("submit --cpus many -- true", "--cpus: 'many' is not a number"),
        ("submit --gpus many -- true", "--gpus: 'many' is not a number; write one such as 2 or 0.5"),
        ("token create --scope all", "--scope: 'all' is not one of 'read', 'submit', 'admin'"),
    ):
        told(words.split())
        assert capsys.readouterr().err.splitlines()[-1] == f"Error: {said}"


def test_a_mistake_in_a_script_is_told_in_the_same_words_on_one_line() -> None:
    with pytest.raises(Refused, match=r"^job\.sh, line 2: there is no flag --gpuz; use --gpus for the number of GPUs$"):
        parse_words(SubmitFlags, ["--gpuz", "2"], "job.sh, line 2")


def test_a_word_that_is_like_no_command_is_not_taken_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    told(["frobnicate"])
    assert "Error: there is no command 'frobnicate'; `corral help` lists all" in capsys.readouterr().err
