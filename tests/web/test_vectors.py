"""What the pages read and write as the server does: the cases are in web/vectors, and vitest has them, too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.core.access.caller import Caller
from corral.core.access.permissions import may_change, must_reach
from corral.core.model.errors import Forbidden, Refused
from corral.core.model.jobs.array_indices import parse_indices
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.severity import Severity
from corral.core.model.token import Token, TokenScope
from corral.core.model.units import format_duration, format_memory, parse_duration_s, parse_memory_mib
from corral.features.alerts.alert import Alert, AlertSilence
from corral.features.alerts.alert_permissions import may_acknowledge, may_end_silence

VECTORS = Path(__file__).parents[2] / "web/vectors"


def vectors(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text())


def cases(*names: str, way: str) -> list[Any]:
    told = {name: vectors(name)[way] for name in names}
    return [
        pytest.param(name, given, expected, id=f"{name} {given!r}")
        for name, those in told.items()
        for given, expected in (those.items() if way == "read" else those)
    ]


def indices(text: str) -> Any:
    found, limit = parse_indices(text)
    return {"count": len(found), "first": found[0], "last": found[-1], "limit": limit}


READERS: dict[str, Callable[[str], Any]] = {
    "durations": parse_duration_s,
    "sizes": parse_memory_mib,
    "arrays": indices,
}
WRITERS: dict[str, Callable[[Any], str]] = {"durations": format_duration, "sizes": format_memory}


@pytest.mark.parametrize(("name", "text", "expected"), cases("durations", "sizes", "arrays", way="read"))
def test_an_amount_is_read_as_the_pages_read_it(name: str, text: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(Refused):
            READERS[name](text)
    else:
        assert READERS[name](text) == expected


@pytest.mark.parametrize(("name", "value", "expected"), cases("durations", "sizes", way="written"))
def test_an_amount_is_written_as_the_pages_write_it(name: str, value: Any, expected: str) -> None:
    assert WRITERS[name](value) == expected


@pytest.mark.parametrize("who", vectors("rights"), ids=lambda who: f"{who['user']} {who['scope']} {who['admin']}")
def test_who_may_do_what_is_what_the_pages_offer(who: Any) -> None:
    scope = TokenScope(who["scope"])
    caller = Caller(who["user"], admin=who["admin"], token=Token("1", who["user"], 1000, scope, 0.0, who["user"]))
    of_ann = Alert("1", "idle", Severity.WARNING, "job 7", 0.0, 0.0, None, "", owner="ann")
    of_node = Alert("2", "hot", Severity.WARNING, "node gpu-01", 0.0, 0.0, None, "")
    asked: dict[str, Callable[[], None]] = {
        "change a job of ann": lambda: may_change(caller, Job("7", 7, JobSpec("ann"), 0.0)),
        "acknowledge an alert about a job of ann": lambda: may_acknowledge(caller, of_ann),
        "acknowledge an alert about a node": lambda: may_acknowledge(caller, of_node),
        "end a silence of ann": lambda: may_end_silence(caller, AlertSilence("1", "*", "ann", 0.0, 1.0)),
    }
    assert {what: allowed(caller, ask) for what, ask in asked.items()} == who["may"]


def allowed(caller: Caller, ask: Callable[[], None]) -> bool:
    try:
        must_reach(caller, TokenScope.SUBMIT)
        ask()
    except Forbidden:
        return False
    return True
