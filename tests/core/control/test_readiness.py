"""Nodes are asked at once whether what was decided can start there, and a slow one delays no other."""

import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from corral.clock import SystemClock
from corral.core.control.deciding import readiness
from corral.core.control.deciding.readiness import Checked, ReadinessChecks
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.devices.device import DeviceCondition, DeviceSample, Silence
from corral.core.model.fact import ConditionObserved, Observation, SilenceObserved
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.plan import Start
from corral.core.model.view import View
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.live_server import QuietHub
from tests.core.control.cluster import on, until


class Judging(QuietHub):
    """Takes a fault for what it is."""

    def judged(self, samples: Sequence[DeviceSample], before: View) -> tuple[Observation, ...]:
        return tuple(ConditionObserved(DeviceCondition(one.uuid, unreadable=one.fault)) for one in samples)


class Asked:
    """Two nodes, and the questions of a controller."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.nodes = {name: SimulatedNode(SimulatedRuntime(clock), clock, answer_within_s=60.0) for name in ("a", "b")}
        self.registry = Nodes(self.nodes)
        self.woken = threading.Event()
        self.checks = ReadinessChecks(self.registry, Judging(self.nodes), clock, self.woken.set)

    def check(self, *starts: Start, view: View | None = None, obstructed: Sequence[str] = ()) -> Checked:
        return self.checks.check(starts, view or View(), obstructed)


@pytest.fixture
def asked() -> Iterator[Asked]:
    asked = Asked()
    yield asked
    for node in asked.nodes.values():
        node.answer_again()
    asked.registry.close()


ON_A = Start("1", Placement((on("a", 0),)), "")
ON_B = Start("2", Placement((on("b", 0),)), "")
ON_BOTH = Start("3", Placement((on("a", 1), on("b", 1))), "")


def jobs(checked: Checked) -> list[str]:
    return [start.job_id for start in checked.starts]


def unreadable(checked: Checked) -> list[str]:
    return [
        one.condition.uuid
        for one in checked.observations
        if isinstance(one, ConditionObserved) and one.condition.unreadable
    ]


def test_where_all_nodes_answer_everything_starts(asked: Asked) -> None:
    assert jobs(asked.check(ON_A, ON_B, ON_BOTH)) == ["1", "2", "3"]


def test_a_node_that_hangs_keeps_back_its_own_starts_and_delays_the_others_by_a_moment(asked: Asked) -> None:
    asked.nodes["a"].fall_silent()
    began = time.monotonic()
    checked = asked.check(ON_A, ON_B, ON_BOTH)
    assert time.monotonic() - began < 30.0, "it was not waited for until it answered"
    assert (jobs(checked), checked.awaited) == (["2"], frozenset("a"))


def test_a_late_answer_wakes_the_controller_and_serves_the_start_that_waited(asked: Asked) -> None:
    asked.nodes["a"].fall_silent()
    assert jobs(asked.check(ON_A)) == []
    asked.nodes["a"].answer_again()
    assert asked.woken.wait(60.0)
    assert jobs(asked.check(ON_A)) == ["1"]


def test_the_nodes_of_a_gang_need_not_be_quick_at_the_same_time(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "FRESH_S", 20.0)
    monkeypatch.setattr(readiness, "REFRESH_TIMEOUT_S", 20.0)
    asked.nodes["a"].fall_silent()
    until(lambda: asked.check(ON_BOTH).awaited == {"a"})
    asked.nodes["b"].fall_silent()
    asked.nodes["a"].answer_again()
    until(lambda: jobs(asked.check(ON_BOTH)) == ["3"])


def test_the_devices_of_a_node_that_does_not_answer_in_time_are_unreadable(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "REFRESH_TIMEOUT_S", 0.05)
    asked.nodes["a"].fall_silent()
    until(lambda: unreadable(asked.check(ON_A, ON_B)) == ["a-0"])


def test_a_node_that_is_known_to_be_silent_is_not_even_asked(asked: Asked) -> None:
    asked.nodes["a"].fall_silent()
    silence: list[Observation] = [SilenceObserved("a", Silence(0.0, "node a has not answered"))]
    checked = asked.check(ON_A, ON_B, view=View().advance(silence))
    assert (jobs(checked), checked.awaited, checked.observations) == (["2"], frozenset(), ())


def test_a_full_disk_is_an_obstacle_of_its_node_alone_and_asked_about_until_it_is_gone(asked: Asked) -> None:
    asked.nodes["a"].obstacle = "the disk is full"
    checked = asked.check(ON_A, ON_B)
    assert (jobs(checked), checked.obstacles, unreadable(checked)) == (["2"], {"a": "the disk is full"}, ["a-0"])
    asked.nodes["a"].obstacle = None
    assert asked.check(obstructed=["a"]).obstacles == {}


def test_an_answer_about_other_devices_is_none_about_these(asked: Asked) -> None:
    asked.nodes["a"].delay_s = 0.2
    assert jobs(asked.check(ON_A)) == []
    assert asked.woken.wait(60.0)
    assert jobs(asked.check(Start("4", Placement((on("a", 3),)), ""))) == []
