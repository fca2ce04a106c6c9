"""Control does nothing on a host by itself: the lives of jobs pass without it opening a file or sending a signal."""

import subprocess
import sys
from pathlib import Path

LIVES = "tests.core.control.life_without_io"
REPOSITORY = Path(__file__).parents[3]


def lived(home: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own: a hook cannot be taken away again."""
    command = [sys.executable, "-m", LIVES, str(home), *options]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)


def test_the_lives_of_jobs_need_no_io_of_control(tmp_path: Path) -> None:
    lives = lived(tmp_path)
    assert lives.returncode == 0, lives.stderr
    assert lives.stdout.split() == ["SUCCEEDED", "FAILED", "CANCELLED", "LOST", "SUCCEEDED", "RUNNING"]


def test_a_file_that_control_opened_would_be_seen(tmp_path: Path) -> None:
    lives = lived(tmp_path, "--trespass")
    assert lives.returncode == 1
    assert "control did open" in lives.stderr
