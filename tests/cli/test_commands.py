"""The command line as its user meets it, without a server."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from corral.cli.app import COMMANDS

CORRAL = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())"]


def corral(*words: str, home: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "CORRAL_HOME": str(home), "COLUMNS": "80", **environ}
    return subprocess.run([*CORRAL, *words], capture_output=True, text=True, env=env, timeout=90)


NAMES = sorted(name for name, module in COMMANDS.items() if find_spec(f"corral.cli.{module}"))


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_each_command_has_an_example_and_fits_eighty_columns(name: str, tmp_path: Path) -> None:
    told = corral(name, "--help", home=tmp_path)
    assert told.returncode == 0
    assert "Example:\n  " in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80


def test_a_usage_line_is_written_as_in_a_manual(tmp_path: Path) -> None:
    usages = [corral(name, "--help", home=tmp_path).stdout.splitlines()[0] for name in ("run", "wait", "why", "submit")]
    assert usages == [
        "Usage: corral run [OPTIONS] [--] COMMAND...",
        "Usage: corral wait [OPTIONS] ID...",
        "Usage: corral why [OPTIONS] ID",
        "Usage: corral submit [OPTIONS] SCRIPT... | -- COMMAND...",
    ]


def test_the_list_of_commands_names_each(tmp_path: Path) -> None:
    told = corral("--help", home=tmp_path)
    listed = re.findall(r"^  ([a-z][a-z-]*)  ", told.stdout, re.MULTILINE)
    assert sorted(listed) == NAMES


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--gpuz", "2", "true"], "--gpus"),
        (["pss"], "did you mean 'ps'?"),
        (["run", "--gpus", "-1", "true"], "not above zero"),
        (["run", "--gpus", "many", "true"], "--gpus"),
        (["run"], "COMMAND"),
        (["run", "--env", "X", "true"], "NAME=VALUE"),
        (["run", "--time", "90", "true"], "such as 90s"),
        (["submit", "no-such-script.sh"], "no script no-such-script.sh"),
        (["submit", "--array", "9-1", "--", "true"], "--array"),
        (["wait", "1", "--timeout", "soon"], "--timeout"),
        (["reserve", "--gpus", "1"], "--for"),
        (["up", "--mock", "no-such.toml"], "no-such.toml"),
    ],
)
def test_bad_input_exits_with_2_and_says_what_would_do(words: list[str], message: str, tmp_path: Path) -> None:
    told = corral(*words, home=tmp_path)
    assert told.returncode == 2
    assert message in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [(["ps"], 1), (["status", "--json"], 1), (["cancel", "1"], 1), (["run", "--", "true"], 125), (["wait", "1"], 1)],
)
def test_without_a_server_every_command_names_the_home_and_the_way_to_start_one(
    words: list[str], code: int, tmp_path: Path
) -> None:
    told = corral(*words, home=tmp_path)
    assert told.returncode == code
    assert told.stdout == ""
    assert str(tmp_path) in told.stderr
    assert "corral up" in told.stderr


def test_a_home_with_too_long_a_path_is_told_as_such(tmp_path: Path) -> None:
    told = corral("up", "--detach", home=tmp_path / ("x" * 120))
    assert (told.returncode, "107" in told.stderr) == (2, True)


def test_down_without_a_server_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "corral.pid").write_text(f"{os.getpid()}\n")  # left by a dead one, and another's pid by now
    told = corral("down", home=tmp_path)
    assert (told.returncode, "no server" in told.stdout) == (0, True)


def test_what_a_detached_server_says_when_it_cannot_start_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("sample_intervall: 1s\n")
    told = corral("up", "--detach", home=tmp_path)
    assert told.returncode == 1
    assert "sample_interval" in told.stderr


def test_a_reader_that_goes_away_is_no_reason_to_complain(tmp_path: Path) -> None:
    env = {**os.environ, "CORRAL_HOME": str(tmp_path)}
    command = subprocess.Popen([*CORRAL, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True)
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    with command.stderr:
        assert command.stderr.read() == ""
    command.wait(timeout=90)


def test_doctor_says_what_to_do_about_each_thing_it_finds(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("this is no database, and it is long enough to be looked at" * 40)
    told = corral("doctor", home=tmp_path)
    assert told.returncode == 1
    assert re.search(r"failure +ledger +.*ledger\.db cannot be read", " ".join(told.stdout.split()))
    assert "corral up --detach" in told.stdout


def test_doctor_finds_nothing_wrong_with_an_empty_home(tmp_path: Path) -> None:
    assert corral("doctor", "--json", home=tmp_path).returncode == 0


def test_a_command_loads_neither_rich_nor_the_server(tmp_path: Path) -> None:
    heavy = ["rich", "fastapi", "pydantic", "sqlalchemy", "numpy", "asyncio", "yaml"]
    code = (
        "import sys; from corral.cli import main; sys.argv = ['corral', 'ps']; main(); "
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    env = {**os.environ, "CORRAL_HOME": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env).stdout == "[]\n"
