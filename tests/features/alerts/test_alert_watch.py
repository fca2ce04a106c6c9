"""The watch writes what fires, tells it once, and survives restarts and full disks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.config.alert_condition import parse_when
from corral.core.access.caller import Caller
from corral.core.ledger.fold import check
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import NodeObserved, Observation
from corral.core.model.severity import Severity
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.core.ports.telemetry import NodeContact
from corral.features.alerts.alert_access import AlertAccess
from corral.features.alerts.alert_rule import AlertRule
from corral.features.alerts.alert_watch import HANDED_AGAIN_S, WORK_INTERVAL_S, AlertSources, AlertWatch
from corral.features.alerts.facts import AlertRulesArranged
from corral.features.alerts.slice import AlertsSlice
from corral.features.channels.message import AlertMessage
from corral.features.feature_list import slices

ROOT = Caller("root", admin=True, overseer=True)
RULES = (
    AlertRule("hot", parse_when("temperature_c > 85"), clear=80, to=("ops", "night")),
    AlertRule("history-stopped", parse_when("history_stopped == 1"), to=("ops",)),
    AlertRule("disk-low", parse_when("disk_free_pct < 5"), severity=Severity.CRITICAL, to=("ops",)),
)


class Telemetry:
    """Samples as the test says."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.temperature_c: int | None = 50

    def latest(self) -> dict[str, DeviceSample]:
        return {"GPU-a": DeviceSample("GPU-a", self.clock.now(), temperature_c=self.temperature_c)}

    def contacts(self) -> tuple[NodeContact, ...]:
        return ()

    def judged(self, samples: object, before: View) -> tuple[Observation, ...]:
        raise NotImplementedError

    def readmit(self, node: str, visit: int) -> None:
        raise NotImplementedError


class Box:
    """A server's alerts on a real ledger; `restart` opens it anew, as after a kill."""

    def __init__(self, home: Path) -> None:
        self.url = f"sqlite:///{home}/ledger.db"
        self.clock = ManualClock(1000.0)
        self.telemetry = Telemetry(self.clock)
        self.told: list[tuple[str, AlertMessage]] = []
        self.handed_in = 0
        self.free = 50
        self.stopped: str | None = None
        self.ledger: SqlLedger | None = None
        self.restart()

    def restart(self) -> None:
        if self.ledger is not None:
            self.ledger.close()
        self.ledger = open_ledger(self.url, slices=slices())
        node = Node("one", (Device("GPU-a", 0, "H100", 80_000),), 8000, 8000)
        self.ledger.observe([NodeObserved(node), AlertRulesArranged(RULES)])
        self.ledger.commit(lambda _: Decided((), None)).result()
        sources = AlertSources(
            telemetry=self.telemetry,
            stale_after_s=10.0,
            obstacles=dict,
            disk=lambda: (100, self.free),
            history_stopped=lambda: self.stopped,
        )
        self.watch = AlertWatch(self.ledger, self.clock, sources, self)
        self.access = AlertAccess(self.ledger, self.clock, lambda: self.watch.left_out)

    def send(self, channel: str, message: AlertMessage) -> None:
        """As a sender does whose outbox survives: what was handed in before is not told again."""
        self.handed_in += 1
        if not any((channel, message.id, message.state) == (other, one.id, one.state) for other, one in self.told):
            self.told.append((channel, message))

    def look(self, temperature_c: int | None = 50, *, after_s: float = 5.0) -> None:
        self.clock.advance(after_s)
        self.telemetry.temperature_c = temperature_c
        self.watch.look()

    @property
    def said(self) -> list[tuple[str, str, str]]:
        return [(channel, message.rule, message.state.value) for channel, message in self.told]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    one = Box(tmp_path)
    yield one
    assert one.ledger is not None
    one.ledger.close()


def test_an_alert_is_told_in_each_channel_once_and_its_end_too_over_restarts(box: Box) -> None:
    box.look(91)
    box.restart()
    box.look(91)
    box.restart()
    box.look(70)
    box.restart()
    box.look(70)
    assert box.said == [
        ("ops", "hot", "fired"), ("night", "hot", "fired"), ("ops", "hot", "resolved"), ("night", "hot", "resolved"),
    ]  # fmt: skip
    assert box.told[0][1].sentence == "GPU 0: temperature_c is 91 (temperature_c > 85)"


def test_what_a_killed_server_had_written_and_not_handed_in_is_handed_in_by_the_next_for_a_day(box: Box) -> None:
    box.look(91)
    box.told.clear()
    box.restart()
    box.look(91)
    assert box.said == [("ops", "hot", "fired"), ("night", "hot", "fired")]
    box.look(70)
    handed_in = box.handed_in
    box.restart()
    box.look(70, after_s=3600)
    assert box.handed_in == handed_in + 4
    box.restart()
    box.look(70, after_s=HANDED_AGAIN_S)
    assert box.handed_in == handed_in + 4


def test_acknowledgements_silences_and_what_is_over_survive_a_restart(box: Box) -> None:
    box.look(91)
    (row,) = box.access.alerts().alerts
    box.access.acknowledge(row.id, ROOT)
    box.access.silence("disk-low", 600, "", ROOT)
    box.restart()
    assert box.access.alerts().alerts[0].acknowledged_by == "root"
    box.free = 1
    box.look(70, after_s=WORK_INTERVAL_S)
    assert [rule for _, rule, _ in box.said] == ["hot"] * 4
    box.restart()
    assert {one.rule: (one.state, one.silenced) for one in box.access.alerts(history=True).alerts} == {
        "hot": ("resolved", False),
        "disk-low": ("firing", True),
    }
    (silence,) = box.access.silences().silences
    box.access.unsilence(silence.id, ROOT)
    box.look(70)
    assert box.said[-1] == ("ops", "disk-low", "fired")


def test_the_journal_leads_to_what_the_tables_say(box: Box) -> None:
    box.look(91)
    box.access.acknowledge(box.access.alerts().alerts[0].id, ROOT)
    box.access.unsilence(box.access.silence("hot", 60, "", ROOT).id, ROOT)
    box.look(70)
    assert box.ledger is not None
    folded = AlertsSlice().advance(entry.fact for entry in box.ledger.journal())
    assert folded.alerts == box.ledger.snapshot().of(AlertsSlice).alerts
    assert next(iter(folded.alerts.values())).acknowledged_by == "root"
    box.restart()
    assert box.ledger.snapshot().of(AlertsSlice).alerts == folded.alerts
    assert check(box.url, slices()) == ()


def test_a_stopped_history_and_its_return_are_told(box: Box) -> None:
    box.look()
    box.stopped = "the disk is full"
    box.look(after_s=WORK_INTERVAL_S)
    box.stopped = None
    box.look(after_s=WORK_INTERVAL_S)
    assert box.said == [("ops", "history-stopped", "fired"), ("ops", "history-stopped", "resolved")]


def test_while_the_ledger_takes_nothing_alerts_are_told_all_the_same_and_written_later(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise LedgerFailed("the disk is full")

    with monkeypatch.context() as disk:
        disk.setattr("corral.core.ledger.batch.Batch.write", full)
        box.look(91)
        box.look(91)
        assert box.ledger is not None
        assert box.ledger.snapshot().of(AlertsSlice).alerts == {}
        box.look(70)
    assert [state for _, _, state in box.said] == ["fired", "fired", "resolved", "resolved"]
    box.look(70)
    assert [one.state for one in box.access.alerts(history=True).alerts] == ["resolved"]
    assert check(box.url, slices()) == ()


def test_a_disk_that_cannot_be_asked_is_not_low(box: Box) -> None:
    def broken() -> tuple[int, int]:
        raise OSError("stale file handle")

    assert box.ledger is not None
    sources = AlertSources(
        telemetry=box.telemetry, stale_after_s=10.0, obstacles=dict, disk=broken, history_stopped=lambda: None
    )
    AlertWatch(box.ledger, box.clock, sources, box).look()
    assert box.said == []


def test_rules_that_are_reloaded_are_in_force_at_the_next_look(box: Box) -> None:
    box.look(82)
    assert box.ledger is not None
    stricter = replace(RULES[0], when=parse_when("temperature_c > 81"), clear=None)
    box.ledger.observe([AlertRulesArranged((stricter,))])
    box.ledger.commit(lambda _: Decided((), None)).result()
    box.look(82)
    assert box.said[0] == ("ops", "hot", "fired")
