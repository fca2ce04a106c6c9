"""What holds of alerts whatever happens."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.features.alerts.alert import AlertSilence
from corral.features.alerts.facts import AlertAcknowledged, AlertsSilenced, SilenceEnded
from corral.features.channels.message import AlertState
from tests.features.alerts.site import Site, hot

DEGREES = st.one_of(st.none(), st.sampled_from([60.0, 80.0, 81.0, 85.0, 86.0, 95.0]))
ACTIONS = st.sampled_from(["", "", "", "restart", "silence", "speak", "acknowledge", "gone"])
MOMENTS = st.lists(st.tuples(DEGREES, DEGREES, ACTIONS, st.sampled_from([1.0, 5.0, 40.0])), max_size=40)


def live(site: Site, moments: list[tuple[float | None, float | None, str, float]]) -> None:
    for one, other, action, after_s in moments:
        if action == "restart":
            site.restart()
        elif action == "silence":
            silence = AlertSilence("s", "gpu=1", "root", site.now, site.now + 30)
            site.commit(AlertsSilenced(silence, by="root", at=site.now))
        elif action == "speak" and site.known.silences:
            site.commit(SilenceEnded("s", by="root", at=site.now))
        elif action == "acknowledge":
            for alert in site.firing:
                site.commit(AlertAcknowledged(replace(alert, acknowledged_by="root"), by="root", at=site.now))
        site.look({"1": one} if action == "gone" else {"1": one, "2": other}, after_s=after_s)


@settings(max_examples=150, deadline=None)
@given(MOMENTS, st.sampled_from([0.0, 5.0, 30.0]))
def test_each_alert_that_fired_has_one_end_and_each_that_was_told_is_told_to_be_over_once(
    moments: list[tuple[float | None, float | None, str, float]], for_s: float
) -> None:
    site = Site([hot(for_s=for_s)])
    live(site, moments)
    site.restart()
    site.look({"1": 20.0, "2": 20.0}, after_s=100)
    assert site.firing == []
    assert Counter(alert.id for alert in site.fired) == Counter(alert.id for alert in site.resolved)
    assert len({alert.id for alert in site.fired}) == len(site.fired)
    told = [message.id for message in site.told if message.state is AlertState.FIRED]
    over = [message.id for message in site.told if message.state is AlertState.RESOLVED]
    assert sorted(told) == sorted(over)
    assert len(set(told)) == len(told)
    assert all(site.told.index(message) > 0 for message in site.told if message.state is AlertState.RESOLVED)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(80.5, 85)), max_size=40), st.booleans())
def test_nothing_changes_between_the_thresholds(between: list[float | None], fires: bool) -> None:
    site = Site([hot()])
    site.look({"1": 90.0 if fires else 60.0})
    for degrees in between:
        site.look({"1": degrees})
    assert (len(site.fired), len(site.resolved)) == (int(fires), 0)


@settings(max_examples=100, deadline=None)
@given(MOMENTS, st.lists(st.integers(0, 39), max_size=5))
def test_restarts_change_nothing_of_what_fires_at_once(
    moments: list[tuple[float | None, float | None, str, float]], restarts: list[int]
) -> None:
    through, again = Site([hot()]), Site([hot()])
    for number, moment in enumerate(moments):
        if number in restarts:
            again.restart()
        live(through, [moment])
        live(again, [moment])
    assert (through.facts, through.told) == (again.facts, again.told)


@settings(max_examples=50, deadline=None)
@given(MOMENTS)
def test_of_a_rule_and_a_subject_there_is_one_alert_at_a_time(
    moments: list[tuple[float | None, float | None, str, float]],
) -> None:
    site = Site([hot(for_s=5)])
    for moment in moments:
        live(site, [moment])
        keys = [(alert.rule, alert.subject) for alert in site.firing]
        assert len(set(keys)) == len(keys)
