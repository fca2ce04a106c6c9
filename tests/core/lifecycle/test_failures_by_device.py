"""Devices on which jobs of several users fail."""

from hypothesis import given
from hypothesis import strategies as st

from corral.core.lifecycle.failures_by_device import USERS, WINDOW_S, JobEnd, failing_devices
from corral.core.model.devices.health import SignKind, Verdict

NOW = 10_000.0
WELL_ELSEWHERE = [JobEnd(user, ("good",), False, 1.0) for user in "abcd"]


def failed(users: str, uuid: str = "bad", at: float = 100.0) -> list[JobEnd]:
    return [JobEnd(user, (uuid,), True, at + number) for number, user in enumerate(users)]


def signs(*ends: list[JobEnd], now: float = NOW) -> list[str]:
    return list(failing_devices([end for some in ends for end in some], now))


def test_a_device_on_which_jobs_of_three_users_fail_who_succeed_elsewhere_is_suspect() -> None:
    found = failing_devices([*WELL_ELSEWHERE, *failed("abca")], NOW)
    sign = found["bad"]
    assert list(found) == ["bad"]
    assert (sign.kind, sign.verdict, sign.at, sign.lasts) == (SignKind.JOB_FAILURES, Verdict.SUSPECT, 103.0, False)
    assert sign.detail == "4 jobs of 3 users failed on it one after the other, and theirs succeed on other GPUs"


def test_jobs_of_one_user_say_nothing_of_a_device() -> None:
    assert signs(WELL_ELSEWHERE, failed("a" * 100)) == []


def test_a_user_whose_jobs_fail_everywhere_does_not_count() -> None:
    assert signs(WELL_ELSEWHERE, failed("abxyz")) == []


def test_a_success_on_the_device_ends_what_was_counted() -> None:
    assert signs(WELL_ELSEWHERE, failed("abc"), [JobEnd("d", ("bad",), False, 200.0)], failed("ab", at=300.0)) == []


def test_a_success_elsewhere_may_come_later() -> None:
    assert signs(failed("abc"), WELL_ELSEWHERE) == ["bad"]


def test_what_is_long_past_does_not_count() -> None:
    assert signs(WELL_ELSEWHERE, failed("abc"), now=NOW + WINDOW_S) == []


ENDS = st.builds(
    JobEnd,
    st.sampled_from("abcdef"),
    st.lists(st.sampled_from(["g0", "g1", "g2"]), min_size=1, max_size=3, unique=True).map(tuple),
    st.booleans(),
    st.floats(0, NOW),
)


@given(st.lists(ENDS, max_size=40), st.sampled_from("abcdef"))
def test_no_user_alone_makes_a_device_suspect(ends: list[JobEnd], user: str) -> None:
    others = sorted((end for end in ends if end.user != user), key=lambda end: end.at)
    own = [end for end in ends if end.user == user]
    for uuid in failing_devices(sorted([*others, *own], key=lambda end: end.at), NOW):
        failing = {end.user for end in ends if end.failed and uuid in end.uuids}
        assert len(failing - {user}) >= USERS - 1
