"""What commands write with."""

import sys
from pathlib import Path

import pytest

from corral.cli.screen import typed, wrapped


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


def test_wrapping_breaks_no_word() -> None:
    path = "/a/very-long/path-that-has/many-hyphens"
    assert wrapped(f"see {path} and more", 20) == ["see", path, "and more"]
