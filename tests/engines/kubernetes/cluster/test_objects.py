"""What is read of objects of every kind."""

import pytest

from corral.engines.kubernetes.cluster.objects import time_s


def test_times_have_their_fractions_and_their_zone() -> None:
    assert time_s("1970-01-01T00:01:00Z") == time_s("1970-01-01T01:01:00+01:00") == 60.0
    assert time_s("1970-01-01T00:00:01.250000Z") == 1.25


@pytest.mark.parametrize(
    "text", ["", "0001-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-02-01 00:00:00", None, 5, "²026-01-01T00:00:00Z"]
)
def test_what_is_no_time_is_unknown(text: object) -> None:
    assert time_s(text) is None
