import pytest

from corral.cli.site.events import event_lines
from corral.client import Event


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            Event("jobs", "changed", 41, 0.0, rows=({"id": "17", "phase": "RUNNING", "user": "ann", "name": "sft"},)),
            "    41 jobs    changed      17 RUNNING ann sft",
        ),
        (Event("devices", "freed", 42, 0.0, rows=({"job": "17"},)), "    42 devices freed        job 17"),
        (
            Event("devices", "health", 43, 0.0, rows=({"uuid": "GPU-0", "health": "suspect", "reason": "Xid 63"},)),
            "    43 devices health       GPU-0 suspect: Xid 63",
        ),
        (
            Event("metrics", "sampled", None, 0.0, rows=({"node": "n1", "index": 0, "utilization_pct": None},)),
            "     - metrics sampled      n1:0 utilization_pct=- memory_used_mib=- temperature_c=- power_w=-",
        ),
        (Event("reset", "gone", 7, 0.0, message="read anew"), "     7 reset   gone         read anew"),
        (Event("fresh", "new", 8, 0.0, rows=({},)), "     8 fresh   new"),
    ],
)
def test_an_event_is_a_line(event: Event, said: str) -> None:
    (line,) = event_lines(event)
    assert line[9:] == said
