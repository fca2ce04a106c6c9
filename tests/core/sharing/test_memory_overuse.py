"""The guard stops a job that breaks its own bounds, in time, and no job for what its neighbours do."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import DeviceProcess, DeviceSample
from corral.core.sharing.memory_overuse import Action, Bound, GuardPolicy, GuardState, Overuse, judge

TOTAL_MIB = 81920
POLICY = GuardPolicy(grace_s=10, reserve_mib=512)


@dataclass
class Watch:
    """One device watched once a second; `used` is what each job's process holds."""

    bounds: list[Bound]
    policy: GuardPolicy = POLICY
    state: GuardState = GuardState()  # noqa: RUF009
    second: float = 0

    def see(self, used: dict[str, int | None], *, processes: bool = True) -> list[tuple[str, str]]:
        self.second += 1
        return [(v.action.value, v.job_id) for v in self.judge(used, processes=processes)]

    def judge(self, used: dict[str, int | None], *, processes: bool = True) -> tuple[Overuse, ...]:
        listed = tuple(DeviceProcess(n, memory, job_id=job) for n, (job, memory) in enumerate(used.items()))
        sample = DeviceSample(
            "GPU-a",
            taken_at=1e9 + self.second,
            memory_free_mib=max(0, TOTAL_MIB - sum(memory or 0 for memory in used.values())),
            processes=listed if processes else None,
        )
        verdicts, self.state = judge(self.bounds, {"GPU-a": sample}, self.state, self.second, self.policy)
        return verdicts


@pytest.fixture
def watch() -> Watch:
    return Watch([Bound("1", "GPU-a", 20_000), Bound("2", "GPU-a", 20_000)])


def test_a_job_within_its_grant_hears_nothing(watch: Watch) -> None:
    assert watch.see({"1": 20_000, "2": 0}) == []


def test_a_job_over_its_grant_is_warned_once_and_stopped_when_the_grace_is_up(watch: Watch) -> None:
    heard = [watch.see({"1": 20_001, "2": 5_000}) for _ in range(14)]
    assert heard[0] == [("warn", "1")]
    assert heard[1:10] == [[]] * 9
    assert heard[10] == [("stop", "1")]
    assert heard[11:] == [[]] * 3


def test_a_site_without_grace_stops_at_the_second_sample(watch: Watch) -> None:
    watch.policy = GuardPolicy(grace_s=0)
    assert [watch.see({"1": 20_001}), watch.see({"1": 20_001})] == [[("warn", "1")], [("stop", "1")]]


def test_a_job_that_goes_back_is_clear_and_warned_afresh_later(watch: Watch) -> None:
    heard = [watch.see({"1": used}) for used in (20_001, 20_000, 20_001)]
    assert heard == [[("warn", "1")], [], [("warn", "1")]]


def test_a_device_about_to_run_out_ends_the_grace_at_the_second_sample(watch: Watch) -> None:
    crowd: dict[str, int | None] = {"1": 20_100, "2": 20_000, "stranger": 41_500}
    assert watch.see(crowd) == [("warn", "1")]
    assert watch.see(crowd) == [("stop", "1")]


def test_a_job_that_grows_into_the_last_of_the_device_is_stopped_at_once(watch: Watch) -> None:
    assert watch.see({"1": 10_000, "2": 20_000}) == []
    assert watch.see({"1": 41_000, "2": 20_000}) == [("stop", "1")]


def test_a_job_is_never_stopped_for_its_neighbours_memory(watch: Watch) -> None:
    full: dict[str, int | None] = {"1": 20_000, "2": 20_000, "stranger": TOTAL_MIB}
    assert [watch.see(full) for _ in range(20)] == [[]] * 20


def test_memory_that_cannot_be_read_neither_accuses_nor_clears(watch: Watch) -> None:
    assert watch.see({"1": 20_001}) == [("warn", "1")]
    assert watch.see({"1": None}) == []
    assert watch.see({"1": 20_001}, processes=False) == []
    watch.second += 10
    assert watch.see({"1": 20_001}) == [("stop", "1")]


def test_one_unreadable_process_does_not_hide_what_the_others_hold() -> None:
    sample = DeviceSample(
        "GPU-a", 1.0, processes=(DeviceProcess(1, None, job_id="1"), DeviceProcess(2, 30_000, job_id="1"))
    )
    verdicts, _ = judge([Bound("1", "GPU-a", 20_000)], {"GPU-a": sample}, GuardState(), 0, POLICY)
    assert [verdict.action for verdict in verdicts] == [Action.WARN]


def test_the_same_sample_again_is_no_new_evidence(watch: Watch) -> None:
    watch.see({"1": 20_001})
    taken_at = watch.second
    sample = DeviceSample("GPU-a", 1e9 + taken_at, processes=(DeviceProcess(0, 20_001, job_id="1"),))
    verdicts, _ = judge(watch.bounds, {"GPU-a": sample}, watch.state, taken_at + 100, POLICY)
    assert verdicts == ()


def test_the_messages_say_by_how_much_for_how_long_and_what_to_do(watch: Watch) -> None:
    watch.bounds = [Bound("1", "GPU-a", 20_000, "1.1", "GPU 3")]
    (warning,) = watch.judge({"1": 20_480})
    assert warning.message == (
        "job 1 uses 20G of GPU 3 and was granted 19.5G, 480M too much; "
        "it is stopped unless it is back within 10 s, sooner if the device runs out"
    )
    watch.second += 10
    (stop,) = watch.judge({"1": 20_480})
    assert stop.why == (
        "it held 20G of GPU 3 for 10 s, 480M more than its grant of 19.5G; ask for more next time: --gpu-mem 20480M"
    )
    assert stop.message == f"job 1 is stopped: {stop.why}"


def test_a_stop_because_the_device_runs_out_says_what_it_had_left(watch: Watch) -> None:
    watch.see({"1": 10_000, "2": 20_000})
    watch.second += 1
    (stop,) = watch.judge({"1": 41_000, "2": 20_000})
    assert "it held 40G of GPU-a, 20.5G more than its grant of 19.5G, and the device had 20.4G left" in stop.why


def test_a_second_attempt_is_judged_afresh(watch: Watch) -> None:
    watch.policy = GuardPolicy(grace_s=0)
    for attempt in ("1.1", "1.2"):
        watch.bounds = [Bound("1", "GPU-a", 20_000, attempt)]
        assert [watch.see({"1": 20_001}), watch.see({"1": 20_001})] == [[("warn", "1")], [("stop", "1")]]


@given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, TOTAL_MIB)), max_size=30))
def test_only_a_job_over_its_own_grant_is_ever_stopped_and_never_unwarned_unless_it_runs_away(
    rounds: list[tuple[int, int]],
) -> None:
    watch = Watch([Bound("1", "GPU-a", 20_000)])
    for own, neighbour in rounds:
        for action, job in watch.see({"1": own, "2": neighbour}):
            assert job == "1"
            assert own > 20_000
            assert action in ("warn", "stop")
