"""Alerts fire, are told, and are over."""

from dataclasses import replace

import pytest

from corral.config.alert_condition import SubjectKind, parse_when
from corral.features.alerts.alert import AlertSilence
from corral.features.alerts.alert_rule import AlertRule
from corral.features.alerts.built_in import BUILT_IN
from corral.features.alerts.facts import AlertAcknowledged, AlertsSilenced, SilenceEnded
from corral.features.alerts.firing import (
    AGAIN_AFTER_S,
    GONE_S,
    KEPT_S,
    MOST_FIRING,
    MOST_KEPT,
    MOST_OF_A_RULE,
    UNHEARD_S,
    Subject,
)
from corral.features.channels.message import AlertState
from tests.features.alerts.site import Site, hot


def silence(site: Site, match: str, for_s: float, *, user: str | None = None) -> None:
    made = AlertSilence("s1", match, "root", site.now, site.now + for_s, user=user)
    site.commit(AlertsSilenced(made, by="root", at=site.now))


def test_a_condition_fires_once_it_has_held_for_long_enough_and_says_so_with_the_numbers() -> None:
    site = Site([hot(for_s=10)])
    for _ in range(3):
        site.look({"1": 91})
    (alert,) = site.firing
    assert (alert.since, alert.fired_at, alert.value) == (1005, 1015, 91)
    assert alert.sentence == "GPU 1: temperature_c is 91 (temperature_c > 85 for 10s)"
    (told,) = site.told
    assert (told.id, told.state, told.group, told.labels) == (
        alert.id,
        AlertState.FIRED,
        "hot node a",
        (("gpu", "1"),),
    )


@pytest.mark.parametrize(
    ("free_pct", "free_mib", "said", "measure", "over_at"),
    [
        (3, 40_000, "disk_free_pct is 3", "disk_free_pct", 60),
        (40, 800, "disk_free_mib is 800", "disk_free_mib", 90_000),
        (3, 800, "disk_free_pct is 3 and disk_free_mib is 800", "disk_free_pct", 60),
        (None, 800, "disk_free_mib is 800", "disk_free_mib", 90_000),
    ],
)
def test_an_alert_shows_the_readings_that_made_it_fire_and_no_other(
    free_pct: float | None, free_mib: float, said: str, measure: str, over_at: float
) -> None:
    (rule,) = (one for one in BUILT_IN if one.name == "disk-low")
    site = Site([replace(rule, to=("ops",))])
    for pct, mib in ((free_pct, free_mib), (60, 90_000)):
        readings = {"disk_free_pct": pct, "disk_free_mib": mib}
        site.see({SubjectKind.DISK: [Subject("disk home", "the disk", readings)]})
    fired, over = site.told
    assert fired.sentence.startswith(f"the disk: {said} (disk_free_pct < 5 or disk_free_mib < 1024). ")
    assert (fired.measure, fired.value) == (measure, free_pct if measure == "disk_free_pct" else free_mib)
    assert (over.measure, over.value) == (measure, over_at)


@pytest.mark.parametrize(
    ("name", "readings", "said"),
    [
        (
            "idle-allocation",
            {"busiest_gpu_pct": 2, "others_waiting": 3},
            "busiest_gpu_pct is 2 and others_waiting is 3",
        ),
        ("queue-stuck", {"since_start_s": 7200, "running_jobs": 0}, "since_start_s is 2h and running_jobs is 0"),
    ],
)
def test_an_alert_that_needs_several_readings_shows_all_of_them(
    name: str, readings: dict[str, float], said: str
) -> None:
    (rule,) = (one for one in BUILT_IN if one.name == name)
    site = Site([replace(rule, for_s=0)])
    site.see({rule.when.kind: [Subject("it", "it", readings)]})
    assert site.firing[0].sentence.startswith(f"it: {said} ({rule.when.text}). ")


def test_a_rule_that_fires_by_words_alone_shows_no_number() -> None:
    site = Site([AlertRule("old", parse_when("model == 'K80' or temperature_c > 85"))])
    site.see({SubjectKind.DEVICE: [Subject("device 1", "GPU 1", {"model": "K80", "temperature_c": 20})]})
    (alert,) = site.firing
    assert (alert.sentence, alert.value) == ("GPU 1: model == 'K80' or temperature_c > 85", None)


def test_a_condition_that_breaks_begins_anew() -> None:
    site = Site([hot(for_s=10)])
    for degrees in (91, 91, 70, 91, 91):
        site.look({"1": degrees})
    assert site.firing == []


def test_what_fires_is_over_at_the_lower_threshold_and_is_told_so_with_the_value() -> None:
    site = Site([hot()])
    for degrees in (86, 81, 85, 80):
        site.look({"1": degrees})
    assert site.sentences == [("device 1", "fired"), ("device 1", "resolved")]
    assert site.told[1].value == 80
    assert site.told[0].id == site.told[1].id
    assert site.firing == []


def test_without_a_lower_threshold_it_is_over_where_it_began() -> None:
    site = Site([hot(clear=None)])
    for degrees in (86, 85):
        site.look({"1": degrees})
    assert len(site.resolved) == 1


def test_what_cannot_be_read_neither_fires_nor_is_over() -> None:
    site = Site([hot(for_s=10)])
    for degrees in (None, 91, None, None, 91, 91):
        site.look({"1": degrees})
    assert site.firing == []  # it was seen hot for 5 s
    site.look({"1": 91})
    assert len(site.firing) == 1
    for _ in range(100):
        site.look({"1": None})
    assert len(site.firing) == 1
    site.look({"1": None}, after_s=UNHEARD_S)
    assert site.firing == []
    assert "it may have ended" in site.told[-1].sentence


def test_a_job_that_is_there_no_more_is_over_and_one_of_a_kind_not_looked_at_is_not() -> None:
    site = Site([AlertRule("long", parse_when("waiting_s > 10"), to=("ops",))])
    jobs = [Subject(f"job {n}", f"job {n}", {"waiting_s": 20}) for n in (1, 2)]
    site.see({SubjectKind.JOB: jobs})
    site.see({SubjectKind.NODE: []})
    assert len(site.firing) == 2
    site.see({SubjectKind.JOB: jobs[1:]})
    assert [alert.subject for alert in site.firing] == ["job 2"]
    assert site.resolved[0].resolved_by == "job 1 no longer exists"


def test_a_device_whose_node_has_not_joined_yet_after_a_restart_is_not_gone() -> None:
    site = Site([hot()])
    site.look({"1": 91, "2": 91})
    site.restart()
    site.look({})
    site.look({"2": 91}, after_s=GONE_S - 5)
    assert len(site.firing) == 2
    site.look({"2": 91})
    assert [alert.subject for alert in site.firing] == ["device 2"]
    assert site.resolved[0].resolved_by == "device 1 no longer exists"


def test_a_rule_that_is_taken_away_ends_its_alerts() -> None:
    site = Site([hot()])
    site.look({"1": 91})
    site.rules = []
    site.look({"1": 91})
    assert site.sentences[-1] == ("device 1", "resolved")


def test_what_is_silenced_is_listed_and_told_when_the_silence_is_over_if_it_still_fires() -> None:
    site = Site([hot()])
    silence(site, "gpu=1", 20)
    site.look({"1": 91, "2": 91})
    assert len(site.firing) == 2
    assert site.sentences == [("device 2", "fired")]
    site.look({"1": 91, "2": 70}, after_s=30)
    assert site.sentences[1:] == [("device 2", "resolved"), ("device 1", "fired")]
    assert any(isinstance(fact, SilenceEnded) for fact in site.facts)
    assert not site.known.silences


def test_what_fires_and_ends_within_a_silence_is_never_told() -> None:
    site = Site([hot()])
    silence(site, "hot", 60)
    site.look({"1": 91})
    site.look({"1": 70})
    site.look({"1": 70}, after_s=100)
    assert (site.told, len(site.resolved)) == ([], 1)


def test_a_silence_keeps_no_resolution_of_what_was_told() -> None:
    site = Site([hot()])
    site.look({"1": 91})
    silence(site, "hot", 60)
    site.look({"1": 70})
    assert site.sentences == [("device 1", "fired"), ("device 1", "resolved")]


def test_a_silence_of_a_user_is_about_their_own_jobs_alone() -> None:
    rule = AlertRule("long", parse_when("waiting_s > 10"), to=("ops",))
    site = Site([rule])
    silence(site, "long", 60, user="alice")
    jobs = [Subject(f"job {n}", f"job {n}", {"waiting_s": 20}, owner=user) for n, user in ((1, "alice"), (2, "bob"))]
    site.see({SubjectKind.JOB: jobs})
    assert site.sentences == [("job 2", "fired")]


def test_whoever_acknowledged_what_was_silenced_is_not_told_of_it() -> None:
    site = Site([hot()])
    silence(site, "hot", 8)
    site.look({"1": 91})
    (alert,) = site.firing
    site.commit(AlertAcknowledged(replace(alert, acknowledged_by="root"), by="root", at=site.now))
    site.look({"1": 91})
    site.look({"1": 70})
    assert site.told == []


def test_a_restart_repeats_nothing_and_loses_nothing() -> None:
    site = Site([hot(for_s=5)])
    site.look({"1": 91})
    site.look({"1": 91})
    site.restart()
    site.look({"1": 91})
    assert site.sentences == [("device 1", "fired")]
    site.restart()
    site.look({"1": 70})
    assert site.sentences == [("device 1", "fired"), ("device 1", "resolved")]


def test_an_event_stays_for_a_while_and_each_new_one_prolongs_it() -> None:
    site = Site([replace(hot(clear=None), keep_s=60)])
    site.look({"1": 91})
    site.look({"1": 70}, after_s=50)
    site.look({"1": 91})
    site.look({"1": 70}, after_s=50)
    assert len(site.firing) == 1
    site.look({"1": 70}, after_s=10)
    assert site.sentences == [("device 1", "fired"), ("device 1", "resolved")]


def test_a_reading_that_jumps_about_its_threshold_fires_again_after_a_while_alone() -> None:
    site = Site([hot(clear=None)])
    for number in range(61):
        site.look({"1": 86 if number % 2 == 0 else 85})
    assert len(site.fired) == 1
    site.look({"1": 86})
    assert len(site.fired) == 2


def test_an_event_fires_again_at_any_time() -> None:
    site = Site([replace(hot(clear=None), keep_s=5)])
    for degrees in (91, 70, 91):
        site.look({"1": degrees})
    assert len(site.fired) == 2


def test_a_rule_fires_for_a_bounded_number_of_subjects_and_the_others_are_counted() -> None:
    site = Site([hot()])
    temperatures: dict[str, float | None] = {str(number): 91 for number in range(MOST_OF_A_RULE + 50)}
    site.look(temperatures)
    assert (len(site.firing), site.memory.left_out) == (MOST_OF_A_RULE, {"hot": 50})
    site.look(dict.fromkeys(temperatures, 70))
    assert (site.firing, site.memory.left_out, len(site.resolved)) == ([], {}, MOST_OF_A_RULE)


def test_all_rules_together_fire_for_a_bounded_number_of_subjects() -> None:
    site = Site([replace(hot(), name=f"hot-{number}") for number in range(12)])
    site.look({str(number): 91 for number in range(MOST_OF_A_RULE)})
    assert (len(site.firing), site.memory.left_out) == (MOST_FIRING, {"hot-10": 200, "hot-11": 200})


def test_alerts_that_are_over_are_kept_for_a_time_and_not_more_than_some() -> None:
    site = Site([hot()])
    for _ in range(MOST_KEPT + 20):
        site.look({"1": 91}, after_s=AGAIN_AFTER_S)
        site.look({"1": 70})
    assert len(site.known.alerts) == MOST_KEPT
    site.look({"1": 70}, after_s=KEPT_S)
    assert site.known.alerts == {}
