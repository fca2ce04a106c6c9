"""The command line as its user meets it, without a server."""

import contextlib
import inspect
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from corral.cli import commands
from corral.cli.app import Corral, all_commands
from corral.cli.declaring import DeclaredCommand, help_of, load

CORRAL = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())"]


def corral(*words: str, home: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "CORRAL_HOME": str(home), "COLUMNS": "80", **environ}
    return subprocess.run([*CORRAL, *words], capture_output=True, text=True, env=env, timeout=90)


NAMES = sorted(all_commands())


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_each_command_has_an_example_and_fits_eighty_columns(name: str, tmp_path: Path) -> None:
    told = corral(name, "--help", home=tmp_path)
    assert told.returncode == 0
    assert "Example:\n  " in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["ps", "--help"]])
def test_output_that_finds_no_room_is_told_of_in_words(words: list[str], tmp_path: Path) -> None:
    env = {**os.environ, "CORRAL_HOME": str(tmp_path)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*CORRAL, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=env, timeout=90)
    told = "corral: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, told)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_command_may_be_started_with_its_streams_closed(closed: str, tmp_path: Path) -> None:
    shell = ["sh", "-c", f'"$@" {closed}', "sh", *CORRAL, "ps"]
    told = subprocess.run(shell, capture_output=True, text=True, env={**os.environ, "CORRAL_HOME": str(tmp_path)})
    assert told.returncode == 1
    assert "bug" not in told.stderr
    assert "Traceback" not in told.stderr


def test_a_usage_line_is_written_as_in_a_manual(tmp_path: Path) -> None:
    usages = [corral(name, "--help", home=tmp_path).stdout.splitlines()[0] for name in ("run", "wait", "why", "submit")]
    assert usages == [
        "Usage: corral run [OPTIONS] [--] COMMAND...",
        "Usage: corral wait [OPTIONS] ID|NAME...",
        "Usage: corral why [OPTIONS] ID|NAME",
        "Usage: corral submit [OPTIONS] SCRIPT... | -- COMMAND...",
    ]


def test_the_list_of_commands_names_each_under_its_task_in_one_line(tmp_path: Path) -> None:
    told = corral("--help", home=tmp_path).stdout
    tasks = dict(re.findall(r"^([A-Z][^\n]*):\n((?:  [a-z].*\n)+)", told, re.MULTILINE))
    listed = {task: re.findall(r"^  ([a-z][a-z-]*)  ", lines, re.MULTILINE) for task, lines in tasks.items()}
    assert listed == {task: list(group) for task, group in Corral.listed().items()}
    cut = [line for lines in tasks.values() for line in lines.splitlines() if len(line) > 80 or "..." in line]
    assert cut == [], "shorten the summaries of these commands in GROUPS of cli/app.py"


def test_every_command_stands_in_one_group() -> None:
    often = [name for name in NAMES if sum(name in group for group in Corral.listed().values()) != 1]
    assert often == [], "these stand in several groups of GROUPS in cli/app.py; leave each in one"
    unused = declared() - {command for _, command in each_command()}
    assert unused == set(), "add these commands to a group of GROUPS in cli/app.py"


def each_command() -> Iterator[tuple[str, type[DeclaredCommand]]]:
    """Each command and group, with the words that lead to it."""
    for name in NAMES:
        command = load_command(Corral, name)
        yield name, command
        yield from ((f"{name} {word}", load_command(command, word)) for word in command.commands)


def load_command(group: type[DeclaredCommand], name: str) -> type[DeclaredCommand]:
    found = group.find(name)
    assert found is not None
    return found


def declared() -> set[type[DeclaredCommand]]:
    """The classes that the modules of `corral.cli.commands` declare."""
    modules = [import_module(one.name) for one in iter_modules(commands.__path__, f"{commands.__name__}.")]
    found = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    return {one for one in found if issubclass(one, DeclaredCommand) and one is not DeclaredCommand}


@pytest.mark.parametrize(("words", "command"), list(each_command()))
def test_what_a_command_runs_takes_what_it_declares(words: str, command: type[DeclaredCommand]) -> None:
    if not command.runs:
        assert command.commands, words
        return
    (taken, *others) = inspect.signature(load(command.runs)).parameters.values()
    assert not others
    named = getattr(taken.annotation, "__name__", str(taken.annotation)).rpartition(".")[2]
    assert named in {one.__name__ for one in command.__mro__}
    for option in command.declared:
        kind = {"flag": "bool", "whole": "int", "number": "float", "path": "Path"}.get(option.kind, "str")
        kind = "int | str" if option.parse else kind
        told = f"list[{kind}]" if option.many else kind
        told += "" if option.required or option.default is not None else " | None"
        assert annotation_of(command, option.name) == told, option.name


def annotation_of(command: type[DeclaredCommand], name: str) -> str:
    owners = [*command.__mro__, *(command.takes.__mro__ if command.takes else ())]
    return next(
        str(vars(one)["__annotations__"][name]) for one in owners if name in vars(one).get("__annotations__", ())
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_listed_with_the_words_that_its_help_begins_with(name: str) -> None:
    told = help_of(load_command(Corral, name))
    assert told.startswith(all_commands()[name].rstrip(".")), "make GROUPS in cli/app.py and the docstring agree"


def test_the_list_of_commands_loads_none_of_them(tmp_path: Path) -> None:
    code = (
        "import sys; from corral.cli.app import run; run(['--help']); "
        "print([m for m in sys.modules if m.startswith(('corral.client', 'corral.cli.commands', 'corral.cli.local'))])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stdout.splitlines()[-1] == "[]"


def test_help_mistakes_and_completion_load_nothing_of_what_a_command_does() -> None:
    slow = ["dataclasses", "inspect", "typing", "pathlib", "socket", "corral.client", "corral.core.model.jobs.job"]
    code = f"""
import os, sys
from contextlib import redirect_stderr, redirect_stdout
from corral.cli.app import run
from corral.cli.help.completion import answer

with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
    for words in {[words.split() for words, _ in each_command()]}:
        assert (run([*words, "--help"]), run([*words, "--no-such-flag"])) == (0, 2)
        os.environ["_CORRAL_LINE"] = " ".join(["corral", *words, "--"])
        answer()
print([module for module in {slow} if module in sys.modules])
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert (told.stdout, told.stderr) == ("[]\n", "")


def test_help_can_be_asked_for_in_each_usual_way(tmp_path: Path) -> None:
    said = {corral(*words, home=tmp_path).stdout for words in (["ps", "--help"], ["ps", "-h"], ["help", "ps"])}
    assert len(said) == 1
    assert corral("help", home=tmp_path).stdout == corral("-h", home=tmp_path).stdout
    assert corral("help", "token", "create", home=tmp_path).stdout.startswith("Usage: corral token create [OPTIONS]\n")


def test_help_for_a_command_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    told = corral("help", "cancle", home=tmp_path)
    assert (told.returncode, "did you mean 'cancel'?" in told.stderr) == (2, True)
    assert corral("help", "ps", "jobs", home=tmp_path).returncode == 2


def test_the_version_can_be_asked_for_in_each_usual_way(tmp_path: Path) -> None:
    said = {corral(word, home=tmp_path).stdout for word in ("version", "--version", "-V")}
    assert len(said) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--gpuz", "2", "true"], "--gpus"),
        (["pss"], "did you mean 'ps'?"),
        (["run", "--gpus", "-1", "true"], "not above zero"),
        (["run", "--gpus", "many", "true"], "--gpus"),
        (["run"], "COMMAND"),
        (["run", "--env", "=X", "true"], "NAME=VALUE"),
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
    assert message in " ".join(told.stderr.split())
    assert max(map(len, told.stderr.splitlines())) <= 80
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


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("word", ["--version", "nonsense"])
def test_a_window_that_is_closed_ends_a_command_as_its_signal_does(tmp_path: Path, word: str, unbuffered: str) -> None:
    window, terminal = os.openpty()
    os.close(window)
    env = {**os.environ, "CORRAL_HOME": str(tmp_path), "PYTHONUNBUFFERED": unbuffered}
    told = subprocess.run([*CORRAL, word], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=env)
    os.close(terminal)
    assert told.returncode == 128 + signal.SIGHUP


def test_a_signal_may_have_something_said_while_something_is_said() -> None:
    code = """
import os, signal
from corral.cli import app, main
from corral.cli.screen import say

def on_alarm(number, frame):
    os.write(1, b"now")
    say("second")

def speak(words):
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    say("first")
    return 0

app.run = speak
main()
"""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=writing) as speaker:
        os.close(writing)
        assert speaker.stdout is not None
        assert speaker.stdout.read(3) == b"now"
        with open(reading, "rb") as errors:
            told = errors.read().lstrip(b"\0")
    assert sorted(told.splitlines()) == [b"corral: first", b"corral: second"]


@pytest.mark.parametrize("words", [[], ["--detach"], ["--mock"]])
def test_a_server_that_cannot_start_says_why_however_it_was_asked_to(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("stale_aftr: 30m\n")
    told = corral("up", *words, home=tmp_path)
    assert (told.returncode != 0, "stale_aftr is not a setting" in told.stderr) == (True, True)


def test_doctor_says_what_to_do_about_each_thing_it_finds(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("this is no database, and it is long enough to be looked at" * 40)
    told = corral("doctor", home=tmp_path)
    assert told.returncode == 1
    assert re.search(r"failure +ledger +.*ledger\.db cannot be read", " ".join(told.stdout.split()))
    assert "corral up --detach" in told.stdout


def test_doctor_finds_nothing_wrong_with_an_empty_home(tmp_path: Path) -> None:
    assert corral("doctor", "--json", home=tmp_path).returncode == 0


def test_commands_load_neither_rich_nor_the_server(tmp_path: Path) -> None:
    heavy = ["rich", "starlette", "pydantic", "sqlalchemy", "numpy", "asyncio", "yaml", "apprise", "ddsketch"]
    heavy += [f"corral.{room}" for room in ("api", "core.control", "core.ledger")]
    heavy += ["corral.features.accounting.report_sums", "corral.features.history.recording"]
    commands = ["ps", "status", "why 1", "submit -- true", "kpis", "report", "alerts", "channels list", "events"]
    code = f"""
import contextlib, sys
from corral.cli import main

for command in {commands}:
    sys.argv = ["corral", *command.split()]
    with contextlib.suppress(SystemExit):
        main()
    loaded = [module for module in {heavy} if module in sys.modules]
    assert not loaded, (command, loaded)
    own = dict(
        ps="cli.direct.list_jobs", status="cli.direct.list_devices", why="cli.direct.explain_job",
        submit="cli.direct.submit_command", kpis="features.history.run_commands",
        report="features.accounting.run_commands",
        alerts="features.alerts.run_commands", channels="features.channels.run_commands", events="cli.site.events",
    )[command.split()[0]]
    assert "corral." + own in sys.modules, command
"""
    env = {**os.environ, "CORRAL_HOME": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert told.returncode == 0, told.stderr
