"""What commands write with."""

import ast
import sys
from pathlib import Path

import pytest

import corral.cli
from corral.cli.screen import complain_of, painted, print_json, say, told, typed, wrapped, write_lines, write_painted
from corral.cli.tables.text_table import TextTable
from corral.core.model.errors import Refused

HOSTILE = "\x1b[2J\x1b[31mall is well\x07\nfree \x9b1m\x7f"
"""Clears the screen, turns red, rings, begins a line of its own, and colours once more in one byte."""


class Terminal:
    """Standard output that says that it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.text += text


def test_hints_name_the_command_as_the_shell_here_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "a venv" / "corral"
    command.parent.mkdir()
    command.touch(0o755)
    monkeypatch.setattr(sys, "argv", [str(command)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert typed() == f"'{command}'"
    monkeypatch.setenv("PATH", str(command.parent))
    assert typed() == "corral"
    monkeypatch.setattr(sys, "argv", ["-c"])
    assert typed() == "corral"


def test_a_message_is_wrapped_and_the_lines_of_another_program_in_it_are_marked() -> None:
    message = f"{'words ' * 20}\nfree\x1b[2J {'memory ' * 20}\n"
    lines = told(message, 40)
    assert max(map(len, lines)) <= 40
    assert [line[:4] for line in lines] == ["word", "  wo", "  wo", "  wo", *["  | "] * 5]
    assert all(line.isprintable() for line in lines)
    assert told(message, None) == [("words " * 20).rstrip(), f"  | free\\x1b[2J {('memory ' * 20).rstrip()}"]
    assert told("", 40) == [""]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--max-running", "x"], "corral: --max-running: 'x' is no number\n"),
        (["--max-running=x"], "corral: --max-running: 'x' is no number\n"),
        ([], "corral: max_running: 'x' is no number\n"),
    ],
)
def test_a_field_that_was_given_as_a_flag_is_called_as_it_was_typed(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["corral", "submit", *words])
    complain_of(Refused("max_running: 'x' is no number", field="max_running"))
    assert capsys.readouterr().err == told


def test_wrapping_breaks_no_word() -> None:
    path = "/a/very-long/path-that-has/many-hyphens"
    assert wrapped(f"see {path} and more", 20) == ["see", path, "and more"]


def test_wrapping_breaks_no_command_that_is_to_be_typed() -> None:
    assert wrapped("start it; then `corral ps --all` lists it", 24) == [
        "start it; then",
        "`corral ps --all` lists",
        "it",
    ]


def test_what_users_chose_reaches_no_terminal_as_an_order(capsys: pytest.CaptureFixture[str]) -> None:
    table = TextTable(("NAME", "WHY"))
    table.add(HOSTILE, HOSTILE)
    write_lines(HOSTILE)
    write_painted(*table.lines(), painted(HOSTILE, "red"))
    print_json({HOSTILE: HOSTILE})
    say(HOSTILE)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 5
    assert all(line.isprintable() for text in (out, err) for line in text.split("\n"))


def test_on_a_terminal_only_our_own_colours_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    table = TextTable(("NAME", "PHASE"))
    table.add(HOSTILE, HOSTILE, style="green")
    lines = table.lines(paint="PHASE")
    write_painted(lines[1])
    coloured, rest = terminal.text[terminal.text.index("\x1b[32m") :], terminal.text.replace("\x1b[32m", "", 1)
    assert coloured.count("\x1b") == 2
    assert coloured.endswith("\x1b[0m\n")
    assert rest.replace("\x1b[0m", "", 1).rstrip("\n").isprintable()


def test_every_command_writes_through_the_screen() -> None:
    room = Path(corral.cli.__file__).parent
    culprits = [
        f"{path.name}:{node.lineno}"
        for path in sorted(room.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stdout.writelines")
    ]
    assert [culprit for culprit in culprits if not culprit.startswith("screen.py:")] == []
