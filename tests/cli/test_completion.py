"""What the scripts of shells are answered, where no server says anything."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from corral.cli.app import Corral, all_commands
from corral.cli.help.completing import _SOURCES

CORRAL = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())"]


def asked(line: str, home: Path, **environ: str) -> list[str]:
    env = {**os.environ, "CORRAL_HOME": str(home), "_CORRAL_COMPLETE": "lines", "_CORRAL_LINE": line, **environ}
    done = subprocess.run(CORRAL, capture_output=True, text=True, env=env, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_commands_flags_and_fixed_values_need_no_server(tmp_path: Path) -> None:
    assert [line.split("\t")[0] for line in asked("corral ", tmp_path)] == list(all_commands())
    assert asked("corral canc", tmp_path) == ["cancel\tCancel jobs: stop running ones, remove waiting ones."]
    assert [line.split("\t")[0] for line in asked("corral run --host-m", tmp_path)] == ["--host-memory"]
    assert asked("corral run --share=t", tmp_path) == ["--share=timeslice"]
    assert asked("corral run --share=t", tmp_path, _CORRAL_BREAKS=" \t=:") == ["timeslice"]
    assert asked("corral cancel --state running,pend", tmp_path) == ["running,pending"]
    assert asked("corral help canc", tmp_path) == asked("corral canc", tmp_path)
    assert [line.split("\t")[0] for line in asked("corral token ", tmp_path)] == ["create", "list", "revoke"]


def test_files_directories_and_commands_are_left_to_the_shell(tmp_path: Path) -> None:
    said = {
        line: asked(f"corral {line}", tmp_path)
        for line in ("submit ", "up --mock ", "run --workdir ", "run -- py", "submit -- ", "run -- python ", "run ./a")
    }
    assert said == {
        "submit ": ["!files"],
        "up --mock ": ["!files"],
        "run --workdir ": ["!dirs"],
        "run -- py": ["!commands"],
        "submit -- ": ["!commands"],
        "run -- python ": ["!files"],
        "run ./a": ["!files"],
    }


@pytest.mark.parametrize("line", ["", "corral nosuch ", "corral cancel ", "corral ps 'x", "corral --version "])
def test_nothing_is_said_where_nothing_is_known(line: str, tmp_path: Path) -> None:
    assert asked(line, tmp_path) == ([] if line else asked("corral ", tmp_path))


def test_a_server_that_does_not_answer_holds_nobody_up() -> None:
    with tempfile.TemporaryDirectory(prefix="c-") as home, socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{home}/corral.sock")
        silent.listen()
        began = time.monotonic()
        assert asked("corral cancel ", Path(home)) == []
        assert time.monotonic() - began < 50


def test_each_source_of_values_is_for_a_parameter_that_there_is() -> None:
    there: set[tuple[str, str]] = set()
    for name in all_commands():
        command = Corral.find(name)
        assert command is not None
        below = [one for word in command.commands if (one := command.find(word)) is not None]
        names = {option.name for one in (command, *below) for option in one.declared}
        there |= {(of, one) for one in names for of in (name, "")}
    assert sorted(set(_SOURCES) - there) == []
