"""Orders that a site brings itself."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Job
from corral.core.scheduling.planner import Planner
from corral.plugins import OrderContext, Rank, queue_orders
from corral.plugins.queue_orders import load_policies
from tests.core.scheduling.lab import T0, box, job, observed, started_ids, submitted

HERE = "tests.plugins.test_queue_orders"


def by_name(one: Job, _context: OrderContext) -> Rank:
    return tuple(float(ord(letter)) for letter in one.spec.name)


def installed(monkeypatch: pytest.MonkeyPatch, *entries: tuple[str, str]) -> None:
    """A package with these entry points, as `importlib.metadata` would list it."""
    points = [EntryPoint(name, value, queue_orders.GROUP) for name, value in entries]
    monkeypatch.setattr(queue_orders, "entry_points", lambda group: [one for one in points if one.group == group])


def test_a_sites_own_function_orders_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, ("by-name", f"{HERE}:by_name"))
    planner = Planner(policy=load_policies()["by-name"])
    planner.advance(observed(box(gpus=2)) + submitted(job(1, name="c"), job(2, name="a"), job(3, name="b")))
    assert started_ids(planner.plan(T0)) == ["2", "3"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (("fcfs", f"{HERE}:by_name"), "has the name of one of Corral's"),
        (("broken", "tests.core.scheduling.nowhere:rank"), "cannot be loaded"),
        (("constant", f"{HERE}:HERE"), "is not a function"),
    ],
)
def test_an_order_that_cannot_be_one_is_refused(monkeypatch: pytest.MonkeyPatch, entry: Any, words: str) -> None:
    installed(monkeypatch, entry)
    with pytest.raises(Refused, match=words):
        load_policies()


def test_without_any_there_are_corrals_own(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    assert {"fcfs", "priority", "fair-share", "las", "corral"} <= set(load_policies())
