"""A program is looked up as the start of a job does it, and what is wrong is said in its words."""

from pathlib import Path

import pytest

from corral.core.preflight.program_lookup import ProgramState, look_up, search_path, trouble


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    """A directory with python3 and a few scripts, the only one on the PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    texts = {
        "python3": "\x7fELF",
        "good": "#!/bin/sh\n",
        "stale": "#!/no/such/venv/python -u\n",
        "dos": "#!/bin/sh\r\n",
        "by-env": "#!/usr/bin/env python\n",
        "by-env3": "#!/usr/bin/env python3\n",
        "by-env-s": "#!/usr/bin/env -S nowhere -u\n",
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    (directory / "plain").write_text("#!/bin/sh\n")
    (directory / "plain").chmod(0o644)
    return directory


@pytest.mark.parametrize(
    ("program", "state"),
    [
        ("good", ProgramState.FOUND),
        ("./bin/good", ProgramState.FOUND),
        ("by-env3", ProgramState.FOUND),
        ("by-env-s", ProgramState.FOUND),
        ("nowhere", ProgramState.MISSING),
        ("./nowhere", ProgramState.MISSING),
        ("./bin/good/more", ProgramState.MISSING),
        ("a\0b", ProgramState.MISSING),
        ("x" * 100_000, ProgramState.MISSING),
        ("plain", ProgramState.NOT_EXECUTABLE),
        ("./bin", ProgramState.NOT_EXECUTABLE),
        ("stale", ProgramState.NO_INTERPRETER),
        ("dos", ProgramState.NO_INTERPRETER),
        ("./bin/by-env", ProgramState.NO_INTERPRETER),
    ],
)
def test_a_program_is_found_only_where_its_start_would_find_it(
    bin_: Path, tmp_path: Path, program: str, state: ProgramState
) -> None:
    assert look_up(program, str(bin_), str(tmp_path)).state is state


def test_a_relative_directory_of_the_path_is_seen_from_the_working_directory(bin_: Path, tmp_path: Path) -> None:
    assert look_up("good", "/nowhere:bin", str(tmp_path)).found
    assert look_up("good", "/nowhere:", str(bin_)).found
    assert not look_up("good", "bin", "/").found


def test_a_file_that_cannot_be_executed_does_not_hide_one_that_can(bin_: Path, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first/good").write_text("")
    assert look_up("good", f"{tmp_path}/first:{bin_}", "/").found


def told(program: str, path: Path) -> str:
    return trouble(look_up(program, str(path), "/w"), program, str(path), "/w")


def test_who_has_only_python3_is_told_so(bin_: Path) -> None:
    assert told("python", bin_) == f"command not found: python; looked in PATH={bin_}; there is python3"
    assert told("by-env", bin_).endswith("an interpreter that does not exist, python; there is python3")
    assert told("perl", bin_) == f"command not found: perl; looked in PATH={bin_}"


def test_what_is_told_is_bounded_and_printable(bin_: Path) -> None:
    assert told("dos", bin_).endswith(r"does not exist, /bin/sh\r")
    assert told("./\x1b[31m", bin_) == r"no such file: ./\x1b[31m, seen from /w"
    assert len(told("x" * 10_000, bin_)) < 1000


def test_without_a_path_the_default_one_counts() -> None:
    assert look_up("sh", search_path({"PATH": ""}), "/").found
