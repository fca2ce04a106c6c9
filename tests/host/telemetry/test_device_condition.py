"""What a measurement means for handing a device out."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.config import Settings
from corral.core.model.devices.device import Device, DeviceProcess, DeviceSample, DeviceState, HoldingPod, LastUse
from corral.core.model.devices.health import DeviceHealth, Health, HealthSign, SignKind, Verdict
from corral.host.telemetry.device_condition import Standing, is_news, judge

SETTINGS = Settings(stale_after_s=100.0, max_temperature_c=90)
DEVICE = Device("a", 0, "GPU", 1000)
IDLE = DeviceSample(
    "a",
    50.0,
    utilization_pct=0,
    memory_used_mib=0,
    memory_free_mib=1000,
    memory_total_mib=1000,
    temperature_c=40,
    processes=(),
)
STRANGER = DeviceProcess(7, 100, "alice", "python", started_at=20.0)
USED = replace(IDLE, processes=(STRANGER,))


def standing(
    sample: DeviceSample, before: Standing | None = None, jobs: tuple[str, ...] = (), now_s: float = 0.0
) -> Standing:
    return judge(DEVICE, sample, before, jobs, SETTINGS, now_s=now_s)


def without(name: str) -> DeviceSample:
    changes: dict[str, Any] = {name: None}
    return replace(IDLE, **changes)


def state_of(sample: DeviceSample) -> DeviceState:
    return standing(sample).condition.state()


def test_an_idle_device_is_free() -> None:
    assert state_of(IDLE) is DeviceState.FREE


@pytest.mark.parametrize("missing", ["utilization_pct", "memory_free_mib", "memory_total_mib", "processes"])
def test_a_device_whose_use_cannot_be_read_is_unreadable(missing: str) -> None:
    assert state_of(without(missing)) is DeviceState.UNREADABLE


@pytest.mark.parametrize("missing", ["power_mw", "temperature_c", "memory_used_mib", "ecc_errors"])
def test_a_reading_that_says_nothing_of_its_use_may_be_missing(missing: str) -> None:
    assert state_of(without(missing)) is DeviceState.FREE


def test_a_sliced_device_has_no_utilisation_and_is_readable_all_the_same() -> None:
    sliced = replace(DEVICE, mig_enabled=True)
    condition = judge(sliced, replace(IDLE, utilization_pct=None), None, (), SETTINGS, now_s=0.0).condition
    assert condition.unreadable is None


def test_a_fault_is_the_reason_why_it_is_unreadable() -> None:
    assert standing(DeviceSample("a", 0.0, fault="gone")).condition.unreadable == "gone"


def test_a_process_of_nobodys_job_is_a_stranger() -> None:
    assert state_of(USED) is DeviceState.IN_USE


def test_a_process_of_the_job_that_holds_the_device_is_none() -> None:
    ours = replace(IDLE, processes=(replace(STRANGER, job_id="5"),))
    assert standing(ours, jobs=("5",)).condition.strangers == ()


def test_a_job_that_uses_a_device_it_was_not_given_is_a_stranger_there() -> None:
    trespasser = replace(IDLE, processes=(replace(STRANGER, job_id="5"),))
    assert standing(trespasser, jobs=("6",)).condition.state() is DeviceState.IN_USE


def test_strangers_found_at_the_first_look_are_there_since_the_oldest_started() -> None:
    assert standing(USED).condition.strangers_since == 20.0


def test_strangers_that_come_later_are_there_since_they_were_seen() -> None:
    assert standing(USED, standing(IDLE)).condition.strangers_since == 50.0


def test_other_strangers_in_their_place_begin_anew() -> None:
    others = replace(USED, taken_at=60.0, processes=(replace(STRANGER, pid=8),))
    assert standing(others, standing(USED)).condition.strangers_since == 60.0


def test_strangers_that_do_not_use_what_they_hold_become_stale() -> None:
    first = standing(USED, now_s=0.0)
    assert standing(USED, first, now_s=99.0).condition.state() is DeviceState.IN_USE
    assert standing(USED, first, now_s=100.0).condition.state() is DeviceState.STALE


def test_any_use_ends_staleness() -> None:
    stale = standing(USED, standing(USED, now_s=0.0), now_s=200.0)
    assert stale.condition.stale
    assert not standing(replace(USED, utilization_pct=1), stale, now_s=201.0).condition.stale


def test_a_newcomer_among_strangers_starts_the_wait_again() -> None:
    first = standing(USED, now_s=0.0)
    joined = replace(USED, processes=(STRANGER, replace(STRANGER, pid=8)))
    second = standing(joined, first, now_s=90.0)
    assert not standing(joined, second, now_s=150.0).condition.stale


def test_a_site_may_lend_what_a_stale_device_has_left() -> None:
    settings = replace(SETTINGS, lend_stale=True, stale_after_s=60.0)
    joined = judge(DEVICE, USED, None, (), settings, now_s=0.0)
    assert not joined.condition.lendable
    assert judge(DEVICE, USED, joined, (), settings, now_s=60.0).condition.lendable


def test_a_site_may_lend_what_strangers_have_left_while_they_are_at_work() -> None:
    settings = replace(SETTINGS, accept_in_use=True)
    assert judge(DEVICE, USED, None, (), settings, now_s=0.0).condition.lendable


def test_small_moves_are_no_news_and_small_moves_that_add_up_are() -> None:
    told = standing(IDLE).condition
    assert not is_news(told, replace(told, utilization_pct=9, memory_free_mib=985), 1000)
    assert is_news(told, replace(told, utilization_pct=11), 1000)
    assert is_news(told, replace(told, memory_free_mib=979), 1000)


def test_the_first_word_and_every_change_of_state_are_news() -> None:
    told = standing(IDLE).condition
    assert is_news(None, told, 1000)
    assert is_news(told, replace(told, unreadable="gone"), 1000)
    assert is_news(told, replace(told, unhealthy="hot"), 1000)
    assert is_news(told, replace(told, strangers=(STRANGER,)), 1000)


def test_a_stranger_that_takes_a_little_more_memory_is_no_news() -> None:
    told = standing(USED).condition
    assert not is_news(told, replace(told, strangers=(replace(STRANGER, memory_mib=101),)), 1000)


readings = st.none() | st.integers(0, 100)
processes = st.none() | st.lists(
    st.builds(DeviceProcess, st.integers(1, 5), st.none(), job_id=st.sampled_from([None, "1", "2"])), max_size=3
).map(tuple)


@given(readings, readings, readings, processes, st.sampled_from([(), ("1",), ("2",)]))
def test_a_device_is_free_only_when_its_use_is_known_and_nobody_elses(
    utilization: int | None,
    free: int | None,
    total: int | None,
    running: tuple[DeviceProcess, ...] | None,
    jobs: tuple[str, ...],
) -> None:
    sample = DeviceSample("a", 0.0, utilization, None, free, total, processes=running)
    if standing(sample, jobs=jobs).condition.state() is DeviceState.FREE:
        assert utilization is not None
        assert free is not None
        assert total is not None
        assert running is not None
        assert all(process.job_id in jobs for process in running)


HOT = HealthSign(SignKind.TEMPERATURE, Verdict.QUARANTINE, "it is at 97°C", 0.0, lasts=True)
BROKEN = replace(HOT, kind=SignKind.REMAP_FAILED, detail="a row could not be replaced")


def trusting(*kinds: SignKind) -> DeviceHealth:
    return DeviceHealth(Health.HEALTHY, "root trusts it", 0.0, trusted=kinds)


def test_a_grave_sign_that_lasts_quarantines_a_device_before_its_health_is_recorded() -> None:
    condition = standing(replace(IDLE, signs=(HOT, BROKEN), taken_at=5.0)).condition
    state = condition.state(allocated=True)
    assert (state, condition.reason(state), condition.since(state)) == (DeviceState.QUARANTINED, "it is at 97°C", 5.0)
    recorded = replace(condition, health=DeviceHealth(Health.QUARANTINED, "Xid 79", 3.0))
    assert (recorded.reason(state), recorded.since(state)) == ("Xid 79", 3.0)


@pytest.mark.parametrize("sign", [replace(HOT, verdict=Verdict.SUSPECT), replace(HOT, lasts=False)])
def test_no_other_sign_says_that_a_device_is_at_fault_now(sign: HealthSign) -> None:
    assert state_of(replace(IDLE, signs=(sign,))) is DeviceState.FREE


def test_a_device_is_open_again_once_all_its_signs_are_trusted() -> None:
    condition = standing(replace(IDLE, signs=(HOT, BROKEN))).condition
    one = replace(condition, health=trusting(SignKind.TEMPERATURE))
    both = replace(condition, health=trusting(SignKind.TEMPERATURE, SignKind.REMAP_FAILED))
    assert (one.state(), both.state()) == (DeviceState.QUARANTINED, DeviceState.FREE)
    clusters = standing(replace(UNMETERED, illness="1 of 8 is unhealthy")).condition
    assert replace(clusters, health=trusting(*SignKind)).state() is DeviceState.UNHEALTHY


def test_a_device_is_ill_since_it_was_first_seen_so_and_each_illness_has_its_own_beginning() -> None:
    def ill_since(*samples: DeviceSample) -> list[float | None]:
        before, since = None, []
        for sample in samples:
            before = standing(sample, before)
            since.append(before.condition.ill_since)
        return since

    hot, lost = replace(IDLE, signs=(HOT,)), replace(without("temperature_c"), fault="it is lost")
    days = [replace(sample, taken_at=float(at)) for at, sample in enumerate((IDLE, hot, hot, lost, lost, hot, IDLE))]
    assert ill_since(*days) == [None, 1.0, 1.0, 3.0, 3.0, 5.0, None]


UNMETERED = DeviceSample("a", 50.0, metered=False)
POD = HoldingPod("ml", "train-x7k", "Job/train", created_at=20.0)


def test_a_device_that_nothing_reads_is_free_where_nobody_was_given_it() -> None:
    assert state_of(UNMETERED) is DeviceState.FREE
    assert standing(UNMETERED).condition.memory_free_mib is None


def test_a_device_that_nothing_reads_may_still_be_at_fault() -> None:
    assert state_of(replace(UNMETERED, fault="its node is not known")) is DeviceState.UNREADABLE


def test_a_device_that_its_cluster_takes_for_sick_is_unhealthy() -> None:
    condition = standing(replace(UNMETERED, illness="1 of 8 is unhealthy")).condition
    assert (condition.state(), condition.unhealthy) == (DeviceState.UNHEALTHY, "1 of 8 is unhealthy")


def test_a_device_that_a_pod_was_given_is_in_use_since_the_pod_was_made() -> None:
    condition = standing(replace(UNMETERED, pod=POD)).condition
    assert (condition.state(), condition.strangers, condition.strangers_since) == (DeviceState.IN_USE, (), 20.0)
    assert is_news(standing(UNMETERED).condition, condition, 1000)
    other = replace(POD, name="train-b2c", created_at=40.0)
    after = standing(replace(UNMETERED, pod=other, taken_at=60.0), Standing(condition)).condition
    assert after.strangers_since == 40.0
    assert is_news(condition, after, 1000)


def test_a_pod_of_a_clock_that_is_ahead_was_not_made_in_the_future() -> None:
    sample = replace(UNMETERED, pod=replace(POD, created_at=3650.0))
    assert standing(sample).condition.strangers_since == 50.0


def test_what_a_pod_was_given_is_lent_to_nobody_however_idle_it_is() -> None:
    lavish = replace(SETTINGS, lend_stale=True, accept_in_use=True)
    sample, before = replace(IDLE, pod=POD), None
    for now_s in (0.0, 1000.0, 2000.0):
        before = judge(DEVICE, sample, before, (), lavish, now_s=now_s)
        assert (before.condition.state(), before.condition.lendable) == (DeviceState.IN_USE, False)


def test_the_use_of_a_device_that_its_cluster_counts_ranks_its_node_and_small_moves_of_it_are_no_news() -> None:
    read = replace(IDLE, counted=True, memory_used_mib=250, memory_total_mib=1000, utilization_pct=40)
    before = standing(read).condition
    assert (before.use, before.utilization_pct, before.memory_free_mib) == (LastUse(40, 25), None, None)
    assert standing(replace(read, metered=False, utilization_pct=None)).condition.use is None
    assert not is_news(before, standing(replace(read, utilization_pct=45)).condition, 1000)
    assert is_news(before, standing(replace(read, utilization_pct=55)).condition, 1000)
    assert is_news(before, standing(replace(read, memory_used_mib=500)).condition, 1000)
