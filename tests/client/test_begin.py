"""When a job may begin, as people write it for sbatch."""

import time

import pytest

from corral.client.submitting.begin import parse_begin
from corral.client.submitting.request import submission
from corral.core.model.errors import Refused


def at(*when: int) -> float:
    """The moment on this machine's calendar: year, month, day, hour, minute, second."""
    year, month, day, hour, minute, second = (*when, 0, 0, 0)[:6]
    return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))


NOW = at(2026, 11, 22, 15, 30)
TODAY, TOMORROW = (2026, 11, 22), (2026, 11, 23)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", NOW),
        ("now+90", NOW + 90),
        ("now + 2", NOW + 2),
        ("now+1hour", NOW + 3600),
        ("now+2hours", NOW + 7200),
        ("now+30min", NOW + 1800),
        ("now+30minutes", NOW + 1800),
        ("now+1day", NOW + 86400),
        ("now+2weeks", NOW + 14 * 86400),
        ("16:00", at(*TODAY, 16)),
        ("16:00:30", at(*TODAY, 16, 0, 30)),
        ("15:30", at(*TOMORROW, 15, 30)),
        ("08:15", at(*TOMORROW, 8, 15)),
        ("4:10pm", at(*TODAY, 16, 10)),
        ("12:05 AM", at(*TOMORROW, 0, 5)),
        ("teatime", at(*TODAY, 16)),
        ("midnight", at(*TOMORROW)),
        ("noon", at(*TOMORROW, 12)),
        ("today", at(*TODAY)),
        ("tomorrow", at(*TOMORROW)),
        ("2026-12-01", at(2026, 12, 1)),
        ("2026-12-01T08:00", at(2026, 12, 1, 8)),
        ("2026-12-01t08:00:09", at(2026, 12, 1, 8, 0, 9)),
        ("12/01/26", at(2026, 12, 1)),
        ("12/1/2026", at(2026, 12, 1)),
        ("120126", at(2026, 12, 1)),
        (1_800_000_000, 1_800_000_000.0),
        (None, None),
    ],
)
def test_a_moment_is_written_as_for_sbatch(text: str | float | None, moment: float | None) -> None:
    assert parse_begin(text, NOW) == moment


@pytest.mark.parametrize(
    "text",
    ["", "soon", "25:00", "13:00pm", "0:10am", "now-1hour", "now+1fortnight", "2026-13-01", "2026-02-30", "12:60",
     "2026-12-01T", "tomorrowT8:00", "now+9999999999", float("nan"), float("inf")],
)  # fmt: skip
def test_what_is_no_moment_is_refused_by_name(text: str | float) -> None:
    with pytest.raises(Refused, match=r"^--begin: .* not a time") as refused:
        parse_begin(text, NOW, field="--begin")
    assert refused.value.field == "--begin"


def test_the_begin_time_reaches_the_server_in_seconds() -> None:
    before = time.time()
    begins = submission(["true"], {"begin": "now+1hour"}).begin_at
    assert begins is not None
    assert before + 3600 <= begins <= time.time() + 3600
