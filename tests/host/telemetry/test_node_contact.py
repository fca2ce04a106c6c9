"""One node as the server hears it, by a clock that is set by hand."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from corral.clock import ManualClock
from corral.config import Settings
from corral.core.model.devices.device import Device, DeviceCondition, DeviceProcess, DeviceSample, Node
from corral.core.model.fact import AllocationEnded, AllocationMade, Observation
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View
from corral.core.ports.node import News
from corral.core.ports.telemetry import Contact
from corral.host.telemetry.node_contact import WatchedNode

SETTINGS = Settings(node_silent_after_s=10.0, node_gone_after_s=300.0)
NODE = Node("as-it-calls-itself", (Device("a", 0, "A100", 81920), Device("b", 1, "A100", 81920)), 8000, 1024)


def sample(uuid: str, at: float, processes: tuple[DeviceProcess, ...] = ()) -> DeviceSample:
    return DeviceSample(uuid, at, 0, 0, 81920, 81920, processes=processes)


@dataclass
class Ledger:
    seen: View = field(default_factory=View)
    told: list[Observation] = field(default_factory=list)

    def observe(self, observations: Sequence[Observation]) -> None:
        self.told += observations
        self.seen = self.seen.advance(observations)

    def condition(self, uuid: str) -> DeviceCondition:
        return self.seen.conditions[uuid]


class Rig:
    """A node of two devices, the view that it makes, and the clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.ledger = Ledger()
        self.node = WatchedNode(
            "gpu-07", self.clock, SETTINGS, view=lambda: self.ledger.seen, observe=self.ledger.observe
        )
        self.node.expect()

    def hear(self, epoch: str = "first", sent_at: float | None = None, *samples: DeviceSample) -> int | None:
        at = self.clock.now() if sent_at is None else sent_at
        found = samples or (sample("a", at), sample("b", at))
        return self.node.hear(News(1, epoch, at, node=NODE, samples=found))

    def come(self) -> "Rig":
        visit = self.hear()
        assert visit is not None
        self.node.readmit(visit)
        return self

    def pass_s(self, seconds: float) -> bool:
        self.clock.advance(seconds)
        return self.node.look()


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_node_that_was_never_heard_is_known_to_be_silent(rig: Rig) -> None:
    assert rig.ledger.seen.silences["gpu-07"].reason == "node gpu-07 has not answered yet"
    assert rig.node.contact().last_seen_at is None


def test_of_a_node_that_has_left_nothing_is_told_any_more(rig: Rig) -> None:
    rig.come()
    visit = rig.hear(epoch="second")
    assert visit is not None
    rig.node.leave()
    rig.node.readmit(visit)
    assert rig.hear(epoch="third") is None
    assert rig.pass_s(1000.0) is False
    assert (dict(rig.ledger.seen.nodes), dict(rig.ledger.seen.silences)) == ({}, {})


def test_a_node_has_the_name_that_the_server_knows_it_by(rig: Rig) -> None:
    rig.come()
    assert list(rig.ledger.seen.nodes) == ["gpu-07"]


def test_nothing_of_a_node_can_be_read_before_it_is_readmitted(rig: Rig) -> None:
    visit = rig.hear()
    assert "gpu-07" in rig.ledger.seen.silences
    assert "compared with the ledger" in str(rig.ledger.condition("a").unreadable)
    assert visit is not None
    rig.node.readmit(visit)
    assert rig.ledger.seen.silences == {}
    assert rig.ledger.condition("a").unreadable is None


def test_silence_makes_every_device_unreadable_and_says_since_when(rig: Rig) -> None:
    rig.come()
    rig.pass_s(9.9)
    assert rig.ledger.condition("a").unreadable is None
    rig.pass_s(0.1)
    silence = rig.ledger.seen.silences["gpu-07"]
    assert (silence.since, silence.gone) == (1000.0, False)
    for uuid in ("a", "b"):
        assert str(rig.ledger.condition(uuid).unreadable).startswith("node gpu-07 has not answered since ")
        assert rig.ledger.condition(uuid).ill_since == 1000.0


def test_silence_is_told_once(rig: Rig) -> None:
    rig.come()
    rig.pass_s(11.0)
    told = len(rig.ledger.told)
    rig.pass_s(11.0)
    assert len(rig.ledger.told) == told


def test_samples_of_a_silent_node_are_not_shown_as_if_they_were_new(rig: Rig) -> None:
    assert sorted(rig.come().node.samples()) == ["a", "b"]
    rig.pass_s(10.0)
    assert rig.node.samples() == {}


def test_a_node_is_gone_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.come()
    with caplog.at_level(logging.WARNING):
        assert [rig.pass_s(100.0) for _ in range(4)] == [False, False, True, False]
    assert rig.ledger.seen.silences["gpu-07"].gone
    assert "may still run" in caplog.text
    assert rig.node.contact().contact is Contact.GONE


def test_a_node_that_answers_again_is_compared_with_the_ledger_first(rig: Rig) -> None:
    rig.come()
    rig.pass_s(20.0)
    visit = rig.hear()
    assert visit == 2
    assert rig.ledger.condition("a").unreadable is not None
    rig.node.readmit(visit)
    assert rig.ledger.condition("a").unreadable is None


def test_an_agent_that_was_restarted_begins_another_visit(rig: Rig) -> None:
    rig.come()
    assert rig.hear("first") is None
    assert rig.hear("second") == 2
    assert "gpu-07" in rig.ledger.seen.silences


def test_a_late_readmission_of_an_earlier_visit_changes_nothing(rig: Rig) -> None:
    first = rig.hear("first")
    assert first is not None
    rig.hear("second")
    rig.node.readmit(first)
    assert "gpu-07" in rig.ledger.seen.silences


def test_a_readmission_while_the_node_is_silent_changes_nothing(rig: Rig) -> None:
    visit = rig.hear()
    assert visit is not None
    rig.pass_s(11.0)
    rig.node.readmit(visit)
    assert "gpu-07" in rig.ledger.seen.silences


def test_times_of_a_host_whose_clock_differs_become_the_servers(rig: Rig) -> None:
    process = DeviceProcess(7, 10, "eve", started_at=4_000.0)
    rig.hear("first", 5_000.0, sample("a", 4_999.0, (process,)))
    assert rig.node.samples()["a"].taken_at == 999.0
    assert rig.ledger.condition("a").unreadable is not None
    rig.node.readmit(1)
    assert rig.ledger.condition("a").strangers_since == 0.0


def test_the_way_of_a_message_moves_no_time(rig: Rig) -> None:
    rig.hear("first", 999.6, sample("a", 999.5))
    assert rig.node.samples()["a"].taken_at == 999.5


def held_by(job_id: str) -> list[AllocationMade]:
    placement = Placement((Member("gpu-07", (Grant("a", 1000),)),))
    return [AllocationMade(Allocation(f"{job_id}.1", job_id, "alice", placement, 0.0), at=0.0, by="test")]


def test_a_job_that_ended_between_a_sample_and_its_coming_is_no_stranger(rig: Rig) -> None:
    rig.come()
    ours = DeviceProcess(7, 10, "alice", job_id="5")
    rig.ledger.seen = rig.ledger.seen.advance(held_by("5"))
    rig.hear()
    rig.ledger.seen = rig.ledger.seen.advance([AllocationEnded("5.1", "5", at=1.0, by="test")])
    rig.hear("first", None, sample("a", 1000.0, (ours,)))
    assert rig.ledger.condition("a").strangers == ()
    rig.hear("first", None, sample("a", 1001.0, (ours,)))
    assert rig.ledger.condition("a").strangers == (ours,)


def test_a_sample_that_was_asked_for_is_judged_by_the_view_as_it_was_asked_for(rig: Rig) -> None:
    rig.come()
    ours = DeviceProcess(7, 10, "alice", job_id="5")
    before = rig.ledger.seen.advance(held_by("5"))
    (told,) = rig.node.judged([sample("a", 1000.0, (ours,))], before)
    assert told.condition.strangers == ()
    (told,) = rig.node.judged([sample("a", 1000.0, (ours,))], rig.ledger.seen)
    assert told.condition.strangers == (ours,)


def test_a_device_of_a_silent_node_stays_unreadable_whatever_is_sampled(rig: Rig) -> None:
    rig.come()
    rig.pass_s(10.0)
    (told,) = rig.node.judged([sample("a", 1010.0)], rig.ledger.seen)
    assert told.condition.unreadable is not None


def test_the_view_keeps_jobs_of_a_silent_node(rig: Rig) -> None:
    rig.come()
    rig.ledger.seen = rig.ledger.seen.advance(held_by("5"))
    rig.pass_s(10.0)
    assert list(rig.ledger.seen.allocations) == ["5.1"]


CLUSTER = "the cluster does not answer"


def test_what_its_cluster_says_of_a_silent_node_is_the_reason(rig: Rig) -> None:
    rig.come().node.miss("node gpu-07 is NotReady")
    assert rig.ledger.seen.silences["gpu-07"].reason == "node gpu-07 is NotReady"
    assert rig.ledger.condition("a").unreadable == "node gpu-07 is NotReady"
    told = len(rig.ledger.told)
    rig.node.miss("node gpu-07 is NotReady")
    assert len(rig.ledger.told) == told
    assert rig.pass_s(300.0) is True


def test_a_node_with_nothing_new_is_heard_all_the_same(rig: Rig) -> None:
    rig.come()
    for _ in range(10):
        assert rig.pass_s(9.0) is False
        assert rig.node.hear_nothing_new() is None
    assert rig.ledger.seen.silences == {}
    rig.pass_s(20.0)
    assert rig.node.hear_nothing_new() == 2


def test_of_a_node_that_never_told_anything_nothing_is_nothing(rig: Rig) -> None:
    assert rig.node.hear_nothing_new() is None
    assert "gpu-07" in rig.ledger.seen.silences


def test_no_node_is_gone_because_its_feed_does_not_answer(rig: Rig) -> None:
    rig.come()
    for _ in range(10):
        rig.clock.advance(100.0)
        assert rig.node.look(CLUSTER) is False
    assert rig.ledger.seen.silences["gpu-07"].reason == CLUSTER
    assert not rig.ledger.seen.silences["gpu-07"].gone


def test_after_its_feed_answers_again_a_node_has_its_time_to_be_heard(rig: Rig) -> None:
    rig.come()
    rig.clock.advance(1000.0)
    rig.node.look(CLUSTER)
    rig.node.miss("node gpu-07 is NotReady")
    assert [rig.pass_s(100.0) for _ in range(4)] == [False, False, True, False]
