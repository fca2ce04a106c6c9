"""What programs of this very machine print when they fail is understood, whatever their versions."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corral.core.diagnosis.diagnose import diagnose
from corral.core.diagnosis.failure import Failure

NEEDS_DEV_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


def said(*command: str, cwd: Path | None = None) -> str | None:
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd, timeout=60)
    found = diagnose(Failure(ran.returncode, workdir=str(cwd or "/")), ran.stdout)
    return None if found is None else found.what


@pytest.mark.parametrize("shell", [name for name in ("bash", "dash", "sh", "busybox") if shutil.which(name)])
def test_a_shell_that_finds_no_command(shell: str) -> None:
    applet = ("sh",) if shell == "busybox" else ()
    assert said(shell, *applet, "-c", "echo begin; no-such-command --now") == "no-such-command: no such command"


@pytest.mark.parametrize("shell", [name for name in ("bash", "dash", "sh", "zsh", "busybox") if shutil.which(name)])
def test_a_script_that_a_shell_does_not_find(shell: str, tmp_path: Path) -> None:
    applet = ("sh",) if shell == "busybox" else ()
    assert said(shell, *applet, "nosuch.sh", cwd=tmp_path) == f"there is no program nosuch.sh in {tmp_path}"


def test_a_script_that_is_not_executable(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("#!/bin/sh\n")
    assert said("bash", "-c", "./train.sh", cwd=tmp_path) == "./train.sh is not executable for the job's user"


def test_a_script_from_windows(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/no-such-shell\r\n")
    script.chmod(0o755)
    told = said("bash", "-c", "./train.sh", cwd=tmp_path)
    assert told == "the first line of ./train.sh names an interpreter that is not there"


def test_a_program_that_is_not_where_it_is_said_to_be(tmp_path: Path) -> None:
    told = said("bash", "-c", "./train.sh", cwd=tmp_path)
    assert told == f"there is no program ./train.sh in {tmp_path}"


@NEEDS_DEV_FULL
@pytest.mark.parametrize(
    "command",
    [
        ("bash", "-c", "echo checkpoint > /dev/full"),
        ("cp", "/etc/hostname", "/dev/full"),
        (sys.executable, "-c", "open('/dev/full', 'w', buffering=1).write('x\\n')"),
    ],
)
def test_a_disk_that_is_full(command: tuple[str, ...]) -> None:
    told = said(*command)
    assert told is not None
    assert told.endswith("is full")


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import no_such_module", "this Python has no module no_such_module"),
        ("open('data/train.csv')", "there is no data/train.csv in /, where it ran"),
        ("raise MemoryError", "out of host memory"),
        ("bytearray(1 << 62)", "out of host memory"),
        ("import ctypes; ctypes.CDLL('libcudart.so.4')", "the library libcudart.so.4 is missing"),
        ("try:\n  raise MemoryError\nexcept MemoryError as e:\n  raise KeyError('x') from e", "out of host memory"),
        ("try:\n  raise MemoryError\nexcept MemoryError:\n  print('less')\nraise KeyError('x')", None),
        ("raise KeyError('MemoryError: x')", None),
        ("import sys; sys.exit('ModuleNotFoundError is not what this is')", None),
    ],
)
def test_python(code: str, what: str | None) -> None:
    assert said(sys.executable, "-c", code, cwd=Path("/")) == what


def test_python_that_is_to_run_a_module_that_is_not_there() -> None:
    assert said(sys.executable, "-m", "no_such_module") == "this Python has no module no_such_module"


def test_python_that_is_to_run_a_script_that_is_not_there(tmp_path: Path) -> None:
    told = said(sys.executable, "no-such.py", cwd=tmp_path)
    assert told == f"there is no script {tmp_path}/no-such.py; it ran in {tmp_path}"
