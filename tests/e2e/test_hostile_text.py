"""A job's command line, names and paths are a user's own words: everybody else is shown them, and nobody obeys them."""

import sys
from collections.abc import Callable
from pathlib import Path

from corral.client import Client
from tests.e2e.box import Box, described

CLEAR = "\x1b[2J\x07"
FORGED = f"{CLEAR}\r2026-01-01 INFO all is well\nps \x9b31m"


def unprintable(text: str) -> str:
    """What of the text is neither printable nor the end of a line."""
    return "".join(one for one in text if not (one.isprintable() or one == "\n"))


def test_no_command_log_or_notice_passes_on_what_a_terminal_would_obey(
    new_box: Callable[[str], Box], tmp_path: Path
) -> None:
    box = new_box(described(1))
    box.up()
    workdir = tmp_path / f"dir{FORGED}"
    workdir.mkdir()
    with Client(box.home) as client:
        runs = client.submit([sys.executable, "-c", "import time; time.sleep(600)", FORGED], gpus=1).id
        waits = client.submit([f"/bin/{FORGED}"], gpus=1, workdir=str(workdir), force=True).id
        fails = client.submit([f"/bin/{FORGED}"], gpus=0, workdir=str(workdir), force=True).id
        client.wait(fails, 60)
    box.until_phase(runs, "RUNNING")
    said = [
        box.ok(*words)
        for words in (
            ["ps", "--all"], ["ps", "--start"], ["ps", "--all", "--json"], ["status"], ["why", runs], ["why", waits],
            ["why", fails], ["why", "--json", fails], ["alloc-map"], ["usage"], ["logs", fails],
            ["cordon", "0", "--reason", FORGED], ["status"], ["why", waits], ["doctor"],
            ["show", runs], ["show", waits], ["show", fails], ["show", "--json", fails],
        )
    ]  # fmt: skip
    said.append(box.run("run", "--gpus", "0", f"/bin/{FORGED}").stderr)
    assert [unprintable(text) for text in said] == [""] * len(said)
    assert "\\x1b[2J" in said[0]
    assert unprintable((box.home / "server.log").read_text()) == ""
