"""A wall clock that is set while jobs are there costs nobody time that they did not use, and what is shown is right."""

import json
import time
from collections.abc import Callable

import pytest

from tests.e2e.box import Box, described

DAY_S = 86_400.0


@pytest.mark.parametrize("set_s", [DAY_S, -DAY_S])
def test_a_day_that_the_clock_jumped_is_used_by_nobody(new_box: Callable[[str], Box], set_s: float) -> None:
    box = new_box(described(2))
    box.up()
    waiting = box.submit("--hold", "--", "true")
    runs = box.submit("--", "sleep", "600")
    box.until_phase(runs, "RUNNING")
    box.down()
    # As if the wall clock had been set so far since this boot was first timed: only the difference counts.
    clock = box.home / "clock.json"
    kept = json.loads(clock.read_text())
    box.up()
    assert json.loads(clock.read_text()) == kept, "the next server goes on with the time of the last"
    box.ok("cancel", runs)
    assert box.ended(runs)["ended_at"] - box.job(runs)["started_at"] < 120
    box.down()
    clock.write_text(json.dumps({**kept, "boot_at": kept["boot_at"] - set_s}))
    box.up()
    before = time.time()
    again = box.submit("--", "sleep", "600")
    box.until_phase(again, "RUNNING")
    row = box.job(again)
    assert before - 2 <= row["submitted_at"] <= row["started_at"] + 1 <= time.time() + 2
    box.ok("cancel", again)
    ended = box.ended(again)
    assert 0 <= ended["ended_at"] - ended["started_at"] < 120
    assert abs(ended["ended_at"] - time.time()) < 120
    used = box.json("usage", "--json", "--since", "1h")
    assert used["total"]["gpu_hours"] < 0.1
    assert abs(used["until"] - time.time()) < 120
    box.ok("cancel", waiting)
