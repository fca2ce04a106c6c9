from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.lifecycle.device_health import (
    FORGOTTEN_AFTER_S,
    MOST_SUSPECTS,
    HealthPolicy,
    HealthStep,
    Look,
    after_test,
    looked_at,
    put_on_probation,
    trusted,
)
from corral.core.model.devices.health import WELL, DeviceHealth, Health, HealthSign, SignKind, Verdict

POLICY = HealthPolicy(watch_s=600.0, longest_watch_s=86400.0)
LONG = 1e6


def sign(
    kind: SignKind, verdict: Verdict = Verdict.QUARANTINE, at: float = 100.0, *, lasts: bool = False
) -> HealthSign:
    return HealthSign(kind, verdict, f"{kind} of {at:g}", at, lasts=lasts)


def lost(at: float = 100.0) -> HealthSign:
    return sign(SignKind.LOST, at=at, lasts=True)


def suspicion(at: float, kind: SignKind = SignKind.XID, *, lasts: bool = False) -> HealthSign:
    return sign(kind, Verdict.SUSPECT, at, lasts=lasts)


def xid(at: float = 100.0) -> HealthSign:
    return sign(SignKind.XID, at=at)


def now(
    health: DeviceHealth,
    *signs: HealthSign,
    at: float = 100.0,
    quiet_s: float = 0.0,
    was_reset: bool = False,
    boot: str | None = None,
    unread: bool = False,
) -> DeviceHealth:
    change = looked_at(health, Look(at, signs, boot, was_reset, quiet_s, unread), POLICY)
    return health if change is None else change.health


def test_a_grave_sign_quarantines_the_device_with_its_reason_and_evidence() -> None:
    change = looked_at(WELL, Look(100.0, (xid(), suspicion(90.0))), POLICY)
    assert change is not None
    assert change.health.state is Health.QUARANTINED
    assert change.health.reason == "xid of 100"
    assert (change.health.since, change.health.kinds, change.health.relapses) == (100.0, (SignKind.XID,), 1)
    assert change.evidence == ("xid of 100", "xid of 90")


@pytest.mark.parametrize("verdict", [Verdict.BLAMES_JOB, Verdict.TOLD])
def test_a_sign_that_blames_a_job_or_is_only_told_changes_nothing(verdict: Verdict) -> None:
    assert looked_at(WELL, Look(100.0, (sign(SignKind.XID, verdict),)), POLICY) is None


def test_a_lost_device_is_tested_once_it_is_back_for_a_while() -> None:
    sick = now(WELL, lost(), xid())
    assert now(sick, lost(), at=1000.0) == sick
    assert now(sick, at=1000.0, quiet_s=1.0) == sick
    back = now(sick, at=1000.0, quiet_s=5.0)
    assert (back.state, back.tested, back.until) == (Health.PROBATION, False, None)
    assert back.reason == f"its fault is gone, which was: {sick.reason}"


def test_a_device_that_cannot_be_read_neither_is_well_again_nor_loses_an_administrators_trust() -> None:
    sick = now(WELL, lost())
    assert now(sick, at=9999.0, quiet_s=LONG, unread=True) == sick
    suspected = now(WELL, suspicion(100.0))
    assert now(suspected, at=1e6, unread=True) == suspected
    watched = DeviceHealth(Health.PROBATION, "back", 100.0, relapses=1, until=200.0, tested=True)
    assert now(watched, at=300.0, unread=True) == watched
    accepted = trusted(sick, [lost()], "root", 200.0).health
    assert now(accepted, at=300.0, unread=True) == accepted


def test_an_error_without_an_end_of_its_own_lasts_until_a_reset_or_another_boot() -> None:
    sick = now(WELL, xid(), boot="boot-1")
    assert now(sick, at=LONG, quiet_s=LONG, boot="boot-1") == sick
    assert now(sick, at=LONG, quiet_s=LONG, boot="boot-2").state is Health.PROBATION
    assert now(sick, at=LONG, quiet_s=LONG, boot="boot-1", was_reset=True).state is Health.PROBATION
    assert now(sick, at=LONG, quiet_s=LONG, boot=None).state is Health.QUARANTINED


def test_counters_that_began_anew_show_a_reset() -> None:
    sick = now(WELL, xid(), sign(SignKind.ECC_UNCORRECTABLE, lasts=True))
    assert now(sick, sign(SignKind.ECC_UNCORRECTABLE, lasts=True), at=LONG).state is Health.QUARANTINED
    assert now(sick, at=LONG, quiet_s=LONG).state is Health.PROBATION


def test_an_error_of_a_device_that_falls_off_the_bus_later_is_gone_with_its_return() -> None:
    sick = now(now(WELL, xid()), lost(110.0), at=110.0)
    assert sick.kinds == (SignKind.LOST, SignKind.XID)
    assert now(sick, at=LONG, quiet_s=LONG).state is Health.PROBATION


def test_a_device_that_passes_its_test_is_watched_and_then_healthy() -> None:
    probation = now(now(WELL, lost()), at=200.0, quiet_s=5.0)
    watched = after_test(probation, None, Look(210.0), POLICY).health
    assert (watched.state, watched.tested, watched.until) == (Health.PROBATION, True, 810.0)
    assert watched.reason == "its fault is gone, which was: lost of 100; it passed its test, and is watched"
    assert now(watched, at=809.0) == watched
    assert now(watched, at=810.0).state is Health.HEALTHY


def test_a_device_that_fails_its_test_waits_for_a_reset() -> None:
    probation = now(now(WELL, lost()), at=200.0, quiet_s=5.0)
    change = after_test(probation, "it exited with 1", Look(210.0, boot="boot-1"), POLICY)
    assert change.health.state is Health.QUARANTINED
    assert change.health.reason == "it failed its test: it exited with 1"
    assert now(change.health, at=LONG, quiet_s=LONG, boot="boot-1") == change.health
    assert now(change.health, at=LONG, quiet_s=LONG, boot="boot-2").state is Health.PROBATION


def test_a_sign_on_probation_is_a_relapse_and_each_relapse_doubles_the_watch() -> None:
    watched = after_test(DeviceHealth(Health.PROBATION, "", 0.0, relapses=1), None, Look(0.0), POLICY).health
    relapsed = now(watched, suspicion(10.0), at=10.0)
    assert (relapsed.state, relapsed.relapses) == (Health.QUARANTINED, 2)
    again = now(relapsed, at=LONG, quiet_s=LONG, was_reset=True)
    assert after_test(again, None, Look(LONG), POLICY).health.until == LONG + 1200.0


def test_the_watch_is_bounded_however_often_a_device_falls_sick() -> None:
    probation = DeviceHealth(Health.PROBATION, "", 0.0, relapses=10_000)
    assert after_test(probation, None, Look(0.0), POLICY).health.until == POLICY.longest_watch_s


def test_a_suspect_device_is_healthy_after_a_watch_without_signs() -> None:
    suspect = now(WELL, suspicion(100.0))
    assert (suspect.state, suspect.until) == (Health.SUSPECT, 700.0)
    assert now(suspect, at=699.0) == suspect
    assert now(suspect, at=700.0).state is Health.HEALTHY


def test_a_suspicion_that_lasts_has_no_end_until_it_is_gone() -> None:
    throttled = suspicion(100.0, SignKind.THROTTLE, lasts=True)
    suspect = now(WELL, throttled)
    assert suspect.until is None
    assert now(suspect, throttled, at=LONG) == suspect
    assert now(suspect, at=LONG).until == LONG + 600.0


def test_a_device_that_is_suspected_again_and_again_is_quarantined() -> None:
    health = WELL
    for number in range(1, MOST_SUSPECTS + 1):
        health = now(health, suspicion(100.0 * number), at=100.0 * number)
        assert health.state is Health.SUSPECT
    health = now(health, suspicion(1000.0), at=1000.0)
    assert health.state is Health.QUARANTINED
    assert health.reason == "a fault was suspected 4 times, now: xid of 1000"


def test_an_error_that_is_shown_for_minutes_counts_once() -> None:
    suspect = now(WELL, suspicion(100.0))
    assert now(suspect, suspicion(100.0), at=160.0) == suspect


def test_suspicions_of_one_burst_count_once_and_a_grave_error_among_them_counts() -> None:
    suspect = now(WELL, suspicion(100.0))
    assert now(suspect, suspicion(100.0), suspicion(105.0, SignKind.NVLINK), at=105.0) == suspect
    assert now(suspect, suspicion(100.0), xid(105.0), at=105.0).state is Health.QUARANTINED
    assert now(suspect, suspicion(111.0), at=111.0).relapses == 2


def test_old_faults_are_forgotten() -> None:
    healthy = DeviceHealth(Health.HEALTHY, "it has proved itself", 1000.0, relapses=5, noted=900.0)
    assert now(healthy, at=1000.0 + FORGOTTEN_AFTER_S) == WELL
    sick = now(healthy, suspicion(LONG), at=1000.0 + FORGOTTEN_AFTER_S)
    assert (sick.state, sick.relapses) == (Health.SUSPECT, 1)


def test_a_trusted_device_takes_work_although_its_signs_last_until_they_were_gone_once() -> None:
    errors = sign(SignKind.ECC_UNCORRECTABLE, lasts=True)
    well = trusted(now(WELL, errors), (errors,), "root", 200.0).health
    assert (well.state, well.trusted) == (Health.HEALTHY, (SignKind.ECC_UNCORRECTABLE,))
    assert now(well, errors, at=300.0) == well
    without = now(well, at=400.0)
    assert without.trusted == ()
    assert now(without, replace(errors, at=500.0), at=500.0).state is Health.QUARANTINED


def test_trust_covers_no_other_fault() -> None:
    well = trusted(WELL, (), "root", 200.0).health
    assert now(well, xid(150.0), at=210.0) == well
    assert now(well, xid(220.0), at=220.0).state is Health.QUARANTINED


def test_an_administrator_ends_a_quarantine_whose_end_nobody_can_read() -> None:
    probation = put_on_probation(now(WELL, xid()), "root", 200.0).health
    assert (probation.state, probation.tested) == (Health.PROBATION, False)
    assert now(probation, xid(), at=201.0) == probation


def test_a_device_that_is_tested_on_demand_again_and_again_has_a_short_reason() -> None:
    tested = put_on_probation(now(WELL, xid()), "root", 200.0).health
    assert tested.reason == "root wants it tested: xid of 100"
    assert put_on_probation(tested, "root", 300.0).health.reason == "root wants it tested"


def test_a_device_that_flaps_every_minute_is_tested_seldom_and_writes_little() -> None:
    health, begun, changes, tests, back_at = WELL, 0.0, 0, 0, 0.0
    for second in range(0, 24 * 3600, 5):
        at = float(second)
        gone = second % 60 < 30
        begun = at if gone and second % 60 == 0 else begun
        back_at = at if gone else back_at
        look = Look(at, (lost(begun + 1),) if gone else (), None, False, at - back_at)
        if (change := looked_at(health, look, POLICY)) is not None:
            health, changes = change.health, changes + 1
        if health.state is Health.PROBATION and not health.tested:
            health, tests = after_test(health, None, Look(at), POLICY).health, tests + 1
    assert health.state is Health.QUARANTINED
    assert tests <= 4
    assert changes <= 10


signs = st.builds(
    HealthSign,
    st.sampled_from(SignKind),
    st.sampled_from(Verdict),
    st.just("a sign"),
    st.floats(0, 1000),
    lasts=st.booleans(),
)
steps = st.one_of(
    st.builds(
        Look,
        st.just(0.0),
        st.lists(signs, max_size=3).map(tuple),
        st.sampled_from([None, "boot-1", "boot-2"]),
        st.booleans(),
        st.floats(0, 10_000),
    ),
    st.sampled_from(["passed", "failed", "trusted", "probation"]),
)


@given(st.lists(st.tuples(steps, st.floats(0, 1000)), max_size=30))
def test_no_device_gets_out_of_quarantine_but_by_a_test_a_watch_or_an_administrator(
    life: list[tuple[Look | str, float]],
) -> None:
    health, at = WELL, 0.0
    for step, wait in life:
        at += wait
        before = health
        change = _taken(before, step, at)
        if change is None:
            continue
        health = change.health
        assert health != before or step in ("trusted", "probation")
        assert health.noted <= max(at, 1000.0)
        if before.state is Health.QUARANTINED and isinstance(step, Look):
            assert health.state in (Health.QUARANTINED, Health.PROBATION)
        if before.state is Health.PROBATION and health.state in (Health.HEALTHY, Health.SUSPECT):
            assert step == "trusted" or (before.tested and before.until is not None and at >= before.until)


def _taken(health: DeviceHealth, step: Look | str, at: float) -> HealthStep | None:
    if isinstance(step, Look):
        return looked_at(health, replace(step, at=at), POLICY)
    if step == "trusted":
        return trusted(health, (), "root", at)
    if step == "probation":
        return put_on_probation(health, "root", at)
    untested = health.state is Health.PROBATION and not health.tested
    return after_test(health, None if step == "passed" else "it hangs", Look(at), POLICY) if untested else None


@pytest.mark.parametrize("lasts", [True, False])
def test_one_sign_counts_once_also_by_the_time_of_a_real_clock(lasts: bool) -> None:
    real = 1_700_000_000.0
    first = now(WELL, suspicion(real, lasts=lasts), at=real)
    again = now(first, suspicion(real, lasts=lasts), at=real + 1)
    assert (first.state, first.relapses, again.relapses) == (Health.SUSPECT, 1, 1)
