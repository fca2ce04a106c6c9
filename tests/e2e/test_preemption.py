"""Urgent work has less urgent work make room, which may save what it has, and comes back to its place."""

from collections.abc import Callable

from tests.e2e.box import Box, described

SETTINGS = """\
kill_grace: 1s
queues:
- {name: urgent, preempts: true}
"""
SAVES_WHEN_TOLD = "trap 'echo saved; exit 9' USR1; echo up; while :; do sleep 0.1; done"


def test_a_job_that_makes_room_is_told_first_and_comes_back(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(1))
    (box.home / "config.yaml").write_text(SETTINGS)
    box.up()
    saver = box.submit("--priority", "9", "--checkpoint-signal", "USR1@30s", "--", "sh", "-c", SAVES_WHEN_TOLD)
    box.until(lambda: "up" in box.ok("logs", saver))
    urgent = box.submit("--queue", "urgent", "--priority", "1", "--", "true")
    assert box.ended(urgent)["phase"] == "SUCCEEDED"
    assert "saved" in box.ok("logs", saver)
    box.until(lambda: box.job(saver)["attempts"] == 2 and box.job(saver)["phase"] == "RUNNING")


def test_a_signal_that_is_none_is_refused(box: Box) -> None:
    done = box.run("submit", "--checkpoint-signal", "KILL@10s", "--", "true")
    assert done.returncode == 2
    assert "USR1, USR2" in done.stderr
