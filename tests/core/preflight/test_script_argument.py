"""Which file an interpreter is to run is said where it is certain, and only there."""

from pathlib import Path

import pytest

from corral.core.preflight.script_argument import ScriptArgument, exists, script_argument


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("python train.py --lr 1", "train.py"), ("/venv/bin/python3.11 -u train.py", "train.py"),
        ("python -W ignore -X dev -uWerror a.py", "a.py"), ("python -uW ignore a.py", "a.py"),
        ("python3 -- a.py", "a.py"), ("pypy3 a/b.py", "a/b.py"), ("bash -eu -o pipefail ./a.sh x", "./a.sh"),
        ("bash -euo pipefail dir/a.sh", "dir/a.sh"), ("bash --norc -O extglob d/a.sh", "d/a.sh"),
        ("perl -w a.pl", "a.pl"), ("ruby a.rb", "a.rb"), ("Rscript a.R", "a.R"), ("node a.mjs", "a.mjs"),
    ],
)  # fmt: skip
def test_the_file_of_an_interpreter_is_found_behind_its_options(line: str, file: str) -> None:
    assert script_argument(line.split()) == ScriptArgument(file)


@pytest.mark.parametrize(
    "line",
    [
        "python", "python -m a.py", "python -c 1 a.py", "python -um a", "python - a.py", "python -V a",
        "python --help a",
        "python --check-hash-based-pycs always a.py", "python -W", "python /dev/fd/3", "bash -c a.sh", "bash -ec a.sh",
        "bash -s a.sh", "bash --rcfile a b", "bash -", "node app", "node -r x a.js", "perl -Ilib a.pl", "perl -e 1 a",
        "ruby -r a b.rb", "julia --project a.jl", "python-config a", "torchrun a.py", "cat a.py", "/opt/x/bash2 a.sh",
        "env python a.py", "python -\N{GREEK SMALL LETTER MU} a.py", "",
    ],
)  # fmt: skip
def test_what_is_not_certain_is_no_file(line: str) -> None:
    assert script_argument(line.split()) is None


def test_a_shell_also_looks_on_its_path_for_a_name(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "a.sh").touch()
    assert script_argument(["bash", "a.sh"]) == ScriptArgument("a.sh", on_path=True)
    assert exists("a.sh", f"/nowhere:{tmp_path}/bin", "/")
    assert exists("a.sh", None, str(tmp_path / "bin"))
    assert exists("a.sh", None, "/") is False


def test_of_what_nobody_may_look_at_it_is_not_known_whether_it_exists(tmp_path: Path) -> None:
    assert exists("a\0b", None, "/") is None
    (tmp_path / "loop").symlink_to("loop")
    assert exists("loop", None, str(tmp_path)) is None
    assert exists("file/a.py", None, str(tmp_path)) is False
