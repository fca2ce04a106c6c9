import os
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.pid_file import read_pid, write_pid


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def huge(path: Path) -> None:
    path.write_text("9" * 100_000)


def negative(path: Path) -> None:
    path.write_text("-1")


@pytest.mark.parametrize("thing", [fifo, link, huge, negative], ids=lambda thing: thing.__name__)
def test_what_stands_in_the_place_of_a_pid_file_is_no_pid_and_gives_way(
    tmp_path: Path, thing: Callable[[Path], None]
) -> None:
    path = tmp_path / "corral.pid"
    thing(path)
    assert read_pid(path) is None
    write_pid(path)
    assert read_pid(path) == os.getpid()
