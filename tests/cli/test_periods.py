"""Moments of the past and months, in the time zone of whoever asks."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from corral.cli.periods import Period, months_of, parse_past
from corral.core.model.errors import Refused

NOW = datetime(2026, 11, 22, 7, 0, tzinfo=UTC).timestamp()


@pytest.fixture(params=["UTC", "Europe/Zurich", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def told(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"  # noqa: DTZ006 - the zone of this machine is meant


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-10", "2026-10-01 00:00"),
        ("2026-10-15", "2026-10-15 00:00"),
        ("2026-10-15T08:30", "2026-10-15 08:30"),
        ("2026-10-15T08:30:59", "2026-10-15 08:30"),
    ],
)
def test_a_month_or_a_day_begins_at_its_midnight_here(zone: str, text: str, moment: str) -> None:
    assert told(parse_past(text, NOW, field="--from")) == moment


def test_a_duration_is_so_long_ago() -> None:
    assert parse_past("30d", NOW, field="--from") == NOW - 30 * 86400
    assert parse_past("now", NOW, field="--until") == NOW


@pytest.mark.parametrize("text", ["soon", "2026-13", "2026-02-30", "", "9999999999999999-01", "2026", "1e9", "-3d"])
def test_what_is_no_moment_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(Refused, match=r"--from: .* is not a time; write one such as 2026-10"):
        parse_past(text, NOW, field="--from")


def test_months_follow_each_other_without_a_gap(zone: str) -> None:
    since = parse_past("2025-12-15", NOW, field="--from")
    months = list(months_of(Period(since, NOW)))
    assert [one.month for one in months] == ["2025-12", *(f"2026-{number:02d}" for number in range(1, 12))]
    assert (months[0].since, months[-1].until) == (since, NOW)
    assert all(before.until == after.since for before, after in pairwise(months))
    assert {told(one.since)[8:] for one in months[1:]} == {"01 00:00"}


def test_more_months_than_anybody_means_are_refused() -> None:
    with pytest.raises(Refused, match="more than 600 months"):
        list(months_of(Period(-4e9, NOW)))


@pytest.mark.parametrize("text", ["0:00", "06:59", "07:00:00", "23:59", "12:30:59"])
def test_a_time_without_a_day_is_the_last_that_was_so_late(zone: str, text: str) -> None:
    at = parse_past(text, NOW, field="--since")
    assert told(at).endswith(text[:5].rjust(5, "0"))
    assert NOW - 25 * 3600 < at <= NOW


@pytest.mark.parametrize("text", ["24:00", "7:5", "12:60", "12:30:60"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="is not a time"):
        parse_past(text, NOW, field="--since")
