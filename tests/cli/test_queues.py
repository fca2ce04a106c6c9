"""How `corral queues` shows quotas."""

import pytest

from corral.cli import screen
from corral.cli.direct.list_queues import queue_lines
from corral.client import QueueRow
from corral.core.model.queues.queue import Quota

ROWS = [
    QueueRow("alice", "user", None, Quota(share_milli=8000, gpu_hours=100.0, period_s=7 * 86_400.0), 4500, 1, 3500),
    QueueRow("default", policy="fair-share"),
    QueueRow("lab", "queue", None, Quota(share_milli=16_000, running=1, waiting=20), 4500, 12, 3500, policy="fcfs"),
    QueueRow("day", "queue", "lab", Quota(share_milli=4500, borrow_milli=2000, memory_mib=204_800), 1500, 0, 1000),
    QueueRow("a queue with\x1b[2J a name of a good length", "queue", "day", Quota(devices=3), 0, 0, 0),
]


def test_queues_are_a_tree_that_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "room", lambda: 80)
    lines = queue_lines(ROWS)
    assert max(map(len, lines)) <= 80
    assert lines[1:] == [
        "(user alice)                     8   4.5        1       3.5  100 GPU-hours in 7d",
        "default                          -     0        0  no limit  fair-share",
        "lab                             16   4.5       12       3.5  fcfs; 1 job runnin…",
        "  day                       4.5 +2   1.5        0         1  200G of GPU memory",
        "    a queue with\\x1b[2J a…       -     0        0         0  3 GPUs touched",
    ]


def test_a_removed_queue_is_marked() -> None:
    (line,) = queue_lines([QueueRow("night", waiting=2, left_milli=0, removed=True)])[1:]
    assert line.split(maxsplit=5) == ["night", "-", "0", "2", "-", "removed; its jobs stay"]
