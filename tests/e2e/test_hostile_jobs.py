"""Jobs that do not behave: whatever they start is gone with them, and what they write has an end."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.box import Box, described


def alive(mark: str) -> list[int]:
    """Pids of the processes that have `mark` among their words."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            words = Path("/proc", entry, "cmdline").read_bytes() if entry.isdigit() else b""
        except OSError:
            continue
        if mark.encode() in words.split(b"\0"):
            found.append(int(entry))
    return found


def test_a_fork_bomb_is_gone_with_all_its_children(box: Box) -> None:
    mark = f"600.{os.getpid()}1"
    bomb = (
        'bomb() { if [ "$1" -gt 0 ]; then bomb $(($1 - 1)) & bomb $(($1 - 1)) & fi; exec sleep ' + mark + "; }; bomb 6"
    )
    job_id = box.submit("--", "bash", "-c", bomb)
    box.until(lambda: len(alive(mark)) == 127)
    box.ok("cancel", job_id)
    assert box.ended(job_id)["phase"] == "CANCELLED"
    assert alive(mark) == []


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(box: Box) -> None:
    job_id = box.submit("--", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    box.until(lambda: box.ok("logs", job_id) == "up\n")
    began = time.monotonic()
    box.ok("cancel", job_id)
    row = box.ended(job_id)
    assert (row["phase"], row["signal"], row["exit_code"]) == ("CANCELLED", 9, 137)
    assert time.monotonic() - began >= 1.0


@pytest.mark.parametrize("ends_by", ["cancel", "time limit"])
def test_what_daemonised_itself_is_gone_when_its_job_is_ended(box: Box, ends_by: str) -> None:
    mark = f"600.{os.getpid()}{len(ends_by)}"
    limit = ["--time", "1s"] if ends_by == "time limit" else []
    daemon = (
        f"(setsid sh -c 'trap \"\" HUP; sleep {mark} & sleep 1000 & wait' </dev/null >/dev/null 2>&1 &); sleep 1000"
    )
    job_id = box.submit(*limit, "--", "sh", "-c", daemon)
    box.until(lambda: alive(mark))
    if not limit:
        box.ok("cancel", job_id)
    assert box.ended(job_id)["phase"] == ("TIMED_OUT" if limit else "CANCELLED")
    assert alive(mark) == []


def test_a_gigabyte_of_output_neither_stops_the_job_nor_fills_the_disk(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    (box.home / "config.yaml").write_text("log_max: 1M\n")
    box.up()
    job_id = box.submit("--", "sh", "-c", "head -c 1000000000 /dev/zero; echo ignored; exit 6")
    assert box.ended(job_id)["exit_code"] == 6
    log = box.home / "logs" / f"{job_id}.log"
    assert 1024 * 1024 <= log.stat().st_size < 2 * 1024 * 1024
    assert re.search(rb"corral: .*bytes", log.read_bytes())


def test_a_job_without_a_controlling_terminal_or_input_is_not_stuck(box: Box) -> None:
    assert box.ok("run", "--", "sh", "-c", "cat; echo done") == "done\n"
