"""Command lines that are read without typer: as typer reads them, or not at all."""

import subprocess
import sys
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.cli.app import app
from corral.cli.direct import derive, options
from corral.cli.direct.words import read

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {name: GROUP.get_command(typer.Context(GROUP), name) for name in derive.NAMES}

VALUES = [
    "17",
    "0",
    "a,b",
    "",
    "-",
    "--",
    "-5",
    "-x",
    "x=y",
    "2h",
    "1_000",
    "9" * 12,
    "1e3",
    "é",
    "3 ",
    "0.5",
    "--json",
]


def as_typer_reads(name: str, words: list[str]) -> dict[str, Any] | None:
    """The values by name, None where typer says that something is wrong, or has help to show."""
    command = COMMANDS[name]
    try:
        with command.make_context(name, list(words)) as context:
            values = {key: _listed(value) for key, value in context.params.items()}
            if name in options.COMMAND_FOLLOWS:
                values["after_dashes"] = context.meta["corral.after_dashes"]
            return values
    except (typer.TyperException, typer.Exit, SystemExit):
        return None


def _listed(value: Any) -> Any:
    """A value as typer gives it to a command: several as a list, None where there are none."""
    return (list(value) or None) if isinstance(value, tuple | list) else value


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A command, and words that are often some of its options, in each way in which these are written."""
    name = draw(st.sampled_from(derive.NAMES))
    spelled = st.sampled_from([*options.OPTIONS[name], "--help", "-h", "-aw", "--no", "-n5"])
    value = st.one_of(st.sampled_from(VALUES), st.text(max_size=4))
    written = st.one_of(
        st.tuples(spelled),
        st.tuples(spelled, value),
        st.tuples(st.builds("{}={}".format, spelled, value)),
        st.tuples(st.sampled_from(VALUES)),
    )
    return name, [word for words in draw(st.lists(written, max_size=4)) for word in words]


@settings(max_examples=60, deadline=None)
@given(lines())
def test_what_is_read_without_typer_is_what_typer_reads(line: tuple[str, list[str]]) -> None:
    name, words = line
    direct = read([name, *words])
    if direct is not None:
        assert direct == (name, as_typer_reads(name, words))


@pytest.mark.parametrize(
    "line",
    [
        "ps --json", "ps --all --json --user me -t failed,lost --state=ended", "ps --limit 7 -u ann -u bob",
        "status --json", "why 17 --json", "why --json 17", "cancel 17 18_3-9 --json", "wait 1 2 --timeout 2h",
        "wait --timeout=2h -- 17", "logs -f 17", "logs 17 --tail 20 --since 10m", "requeue 17", "devices --json",
        "submit --gpus 2 --time 2h --name=x --env A=b --env C=d=e -- python train.py --lr 3",
        "submit train.sh -- --json", "submit --hold - x",
    ],
)  # fmt: skip
def test_what_people_and_scripts_write_is_read_without_typer(line: str) -> None:
    name, *words = line.split()
    assert read([name, *words]) == (name, as_typer_reads(name, words))


@pytest.mark.parametrize(
    "line",
    [
        "", "--json", "pss", "run -- true", "ps --help", "ps -h", "ps --jso", "ps -aw", "ps --json=1", "ps --limit -1",
        "ps --limit 99999", "ps --user", "ps 17", "why", "why 1 2", "logs -n=3 1", "logs -n3 1", "submit",
        "submit --priority -3 -- true", "submit --gpus 0.5 -- true", "wait",
    ],
)  # fmt: skip
def test_what_may_be_a_mistake_or_a_short_form_is_left_to_typer(line: str) -> None:
    assert read(line.split()) is None


def test_the_options_are_those_that_typer_knows() -> None:
    format_ = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(derive.PATH), "-"]
    made = subprocess.run(format_, input=derive.source(), capture_output=True, text=True, check=True)
    assert derive.PATH.read_text() == made.stdout, "an option was changed: `make options` writes them down anew"
