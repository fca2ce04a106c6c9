"""Whatever features write, their slices are what the journal folds to; also after a restart."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.ledger.fold import check, fold
from corral.core.ledger.store import open_ledger
from corral.core.model.devices.health import DeviceHealth, Health
from corral.core.model.fact import DeviceHealthChanged, Fact, JobChanged
from corral.core.model.jobs.notification import NotifyOn
from corral.core.model.jobs.phase import Phase
from corral.core.model.severity import Severity
from corral.core.model.slice import LedgerSnapshot
from corral.features.alerts.alert import Alert, AlertSilence
from corral.features.alerts.facts import (
    AlertAcknowledged,
    AlertFired,
    AlertForgotten,
    AlertResolved,
    AlertsSilenced,
    SilenceEnded,
)
from corral.features.channels.facts import NoticeGiven, NotificationGiven
from corral.features.channels.slice import NoticesSlice
from corral.features.feature_list import slices
from corral.features.tuner.facts import ExperimentCreated, ExperimentEnded, TaskCreated, TaskDeleted
from corral.features.tuner.model.experiment import Experiment, ExperimentStatus
from corral.features.tuner.model.tuning_spec import ServedModel, TuningSpec
from corral.features.tuner.model.tuning_task import TuningTask
from tests.core.ledger.making import a_job, send, submitted, url_of

NAMES = st.sampled_from("abc")
NUMBERS = st.integers(1, 4)
AT: dict[str, Any] = {"at": 2000.0, "by": "test"}
SPEC = TuningSpec("tune", ServedModel("llama"), "vllm", {"tp": [1, 2]})


def an_alert(name: str) -> Alert:
    return Alert(name, "hot", Severity.WARNING, f"device {name}", 1.0, 2.0, 91.0, f"GPU {name} is hot.")


def a_silence(name: str) -> AlertSilence:
    return AlertSilence(name, "hot", "root", 1.0, 9.0)


def an_experiment(number: int) -> Experiment:
    return Experiment(str(30 + number), "20", number, {"tp": number}, 1.0)


def moved(number: int, phase: Phase) -> JobChanged:
    return JobChanged(str(number), {"phase": phase, "attempts": 1}, **AT)


def fallen_sick(name: str, state: Health) -> DeviceHealthChanged:
    return DeviceHealthChanged(name, DeviceHealth(state, "Xid 79", 1.0, noted=1.0), ("Xid 79",), **AT)


OF_FEATURES: st.SearchStrategy[Fact] = st.one_of(
    NAMES.map(lambda name: AlertFired(an_alert(name), **AT)),
    NAMES.map(lambda name: AlertAcknowledged(replace(an_alert(name), acknowledged_by="root"), **AT)),
    NAMES.map(lambda name: AlertResolved(replace(an_alert(name), resolved_at=3.0), **AT)),
    NAMES.map(lambda name: AlertForgotten(name, **AT)),
    NAMES.map(lambda name: AlertsSilenced(a_silence(name), **AT)),
    NAMES.map(lambda name: SilenceEnded(name, **AT)),
    st.builds(fallen_sick, NAMES, st.sampled_from(Health)),
    NUMBERS.map(lambda number: NotificationGiven(str(number), **AT)),
    NUMBERS.map(lambda number: NoticeGiven(f"end of {number}", **AT)),
    NUMBERS.map(lambda number: TaskCreated(TuningTask(str(number), "alice", SPEC, 1.0), **AT)),
    NUMBERS.map(lambda number: TaskDeleted(str(number), **AT)),
    NUMBERS.map(lambda number: ExperimentCreated(an_experiment(number), **AT)),
    NUMBERS.map(lambda number: ExperimentEnded(replace(an_experiment(number), status=ExperimentStatus.FAILED), **AT)),
)
OF_JOBS = st.builds(moved, NUMBERS, st.sampled_from((Phase.RUNNING, Phase.SUCCEEDED, Phase.CANCELLED, Phase.PENDING)))
EVENTS = tuple(NotifyOn)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(OF_FEATURES | OF_JOBS, max_size=4), max_size=12))
def test_live_slices_reopened_ones_and_the_folded_journal_are_equal(operations: list[list[Fact]]) -> None:
    with TemporaryDirectory(prefix="corral-") as home:
        url = url_of(Path(home))
        ledger = open_ledger(url, slices=slices())
        loud = [a_job(number, notify="mail me", notify_on=EVENTS if number > 2 else ()) for number in range(1, 5)]
        send(ledger, *map(submitted, loud)).result()
        ended, due = set[str](), set[str]()
        for facts in operations:
            # A job that has ended does not go on.
            possible = [fact for fact in facts if not (isinstance(fact, JobChanged) and fact.job_id in ended)]
            send(ledger, *possible).result()
            over = {job.id for job in loud} - ledger.view().jobs.keys() - ended
            due -= {fact.job_id for fact in possible if isinstance(fact, NotificationGiven)}
            due |= over
            ended |= over
            assert set(ledger.snapshot().of(NoticesSlice).notifications) == due
        live, folded = ledger.snapshot(), fold(ledger.journal(), slices())
        ledger.close()
        again = open_ledger(url, slices=slices())
        reopened = again.snapshot()
        again.close()
        assert check(url, slices()) == ()
    assert slices_of(live) == slices_of(folded) == slices_of(reopened)


def slices_of(snapshot: LedgerSnapshot) -> list[object]:
    return [snapshot.of(kind) for kind in slices()]
