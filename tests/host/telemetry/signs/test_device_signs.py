"""What readings of a device say of its health."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import CLOCK_REASONS, Device, DeviceProcess, DeviceSample
from corral.core.model.devices.health import HealthSign, SignKind, Verdict
from corral.core.model.devices.vitals import DriverError, ReadFailure, RecoveryAction, Vitals
from corral.host.telemetry.signs.device_signs import ERRORS_KEPT_S, WINDOW_S, signs_of
from corral.host.telemetry.signs.reading import NOTHING_BEFORE, SignMemory
from corral.host.telemetry.signs.sign_rules import COOL_DOWN_C, LASTS_S, MOST_PCIE_REPLAYS, RULES
from corral.vendors.nvidia.xid_errors import XID_ERRORS

GPU = Device("GPU-a", 0, "A100", 81920)
LIMIT_C = 95
WELL = DeviceSample(
    "GPU-a",
    0.0,
    utilization_pct=90,
    temperature_c=60,
    ecc_errors=0,
    xid=0,
    throttle=0,
    processes=(),
    vitals=Vitals(
        0.0,
        RecoveryAction.NONE,
        remap_pending=False,
        remap_failed=False,
        below_slowdown_c=30,
        below_shutdown_c=35,
        pcie_lanes=16,
        most_pcie_lanes=16,
        pcie_generation=4,
        best_pcie_generation=4,
        links_down=0,
    ),
)
UNKNOWN_RECOVERY: dict[str, Any] = {"recovery": None}
THROTTLED = CLOCK_REASONS["hw_thermal"]


class Watch:
    """A device that is read again and again."""

    def __init__(self) -> None:
        self.memory: SignMemory = NOTHING_BEFORE

    def read(
        self, at: float, *, holders: Sequence[str] = (), vitals: dict[str, Any] | None = None, **changes: Any
    ) -> list[HealthSign]:
        """The signs of a reading that differs from a healthy one by these changes."""
        given_vitals = replace(WELL.vitals or Vitals(at), read_at=at, **(vitals or {}))
        sample = replace(WELL, taken_at=at, **{"vitals": given_vitals, **changes})
        signs, self.memory = signs_of(GPU, sample, self.memory, max_temperature_c=LIMIT_C, holders=holders)
        return list(signs)


@pytest.fixture
def watch() -> Watch:
    return Watch()


def verdicts(signs: Sequence[HealthSign]) -> list[tuple[SignKind, Verdict]]:
    return [(sign.kind, sign.verdict) for sign in signs]


def test_an_error_that_a_first_reading_tells_of_blames_no_job_that_holds_the_device_now(watch: Watch) -> None:
    assert watch.read(300.0, errors=xid(31), holders=("5",))[0].job_id is None


def test_a_healthy_device_has_no_signs(watch: Watch) -> None:
    assert watch.read(0.0) == []


def test_a_device_without_any_reading_of_its_health_has_no_signs() -> None:
    assert signs_of(GPU, DeviceSample("GPU-a", 0.0), NOTHING_BEFORE, max_temperature_c=LIMIT_C)[0] == ()


@pytest.mark.parametrize(
    ("changes", "kind", "verdict"),
    [
        ({"fault": "off the bus", "failure": ReadFailure.LOST}, SignKind.LOST, Verdict.QUARANTINE),
        ({"fault": "a call hangs", "failure": ReadFailure.HUNG}, SignKind.UNREADABLE, Verdict.SUSPECT),
        ({"fault": "no driver", "failure": ReadFailure.DRIVER}, SignKind.UNREADABLE, Verdict.TOLD),
        ({"ecc_errors": 1, "vitals": UNKNOWN_RECOVERY}, SignKind.ECC_UNCORRECTABLE, Verdict.QUARANTINE),
        ({"temperature_c": LIMIT_C + 1}, SignKind.TEMPERATURE, Verdict.QUARANTINE),
        ({"vitals": {"remap_pending": True}}, SignKind.REMAP_PENDING, Verdict.SUSPECT),
        ({"vitals": {"remap_failed": True}}, SignKind.REMAP_FAILED, Verdict.QUARANTINE),
        ({"vitals": {"below_slowdown_c": 0}}, SignKind.TEMPERATURE, Verdict.SUSPECT),
        ({"vitals": {"below_shutdown_c": 0}}, SignKind.TEMPERATURE, Verdict.QUARANTINE),
        ({"vitals": {"links_down": 1}}, SignKind.NVLINK, Verdict.SUSPECT),
        ({"vitals": {"recovery": RecoveryAction.RESET}}, SignKind.XID, Verdict.QUARANTINE),
        ({"vitals": {"recovery": RecoveryAction.DRAIN_P2P}}, SignKind.XID, Verdict.SUSPECT),
    ],
)
def test_each_fault_has_its_sign_at_once(
    watch: Watch, changes: dict[str, Any], kind: SignKind, verdict: Verdict
) -> None:
    (sign,) = watch.read(3.0, **changes)
    assert (sign.kind, sign.verdict, sign.at, sign.lasts) == (kind, verdict, 3.0, True)
    assert sign.detail
    assert not sign.detail.endswith(".")
    assert watch.read(4.0) == []


def test_memory_errors_beyond_correction_name_the_way_out(watch: Watch) -> None:
    (sign,) = watch.read(0.0, ecc_errors=1, vitals=UNKNOWN_RECOVERY)
    assert "nvidia-smi --gpu-reset -i GPU-a" in sign.detail


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"throttle": THROTTLED}, SignKind.THROTTLE),
        ({"throttle": CLOCK_REASONS["power_brake"]}, SignKind.POWER_BRAKE),
        ({"vitals": {"pcie_lanes": 8}}, SignKind.PCIE),
        ({"vitals": {"pcie_generation": 1}}, SignKind.PCIE),
    ],
)
def test_what_comes_with_work_is_a_sign_once_it_lasts_and_until_it_is_gone_for_as_long(
    watch: Watch, changes: dict[str, Any], kind: SignKind
) -> None:
    assert watch.read(0.0, **changes) == []
    assert watch.read(LASTS_S - 1, **changes) == []
    assert verdicts(watch.read(LASTS_S, **changes)) == [(kind, Verdict.SUSPECT)]
    assert len(watch.read(2 * LASTS_S - 1)) == 1
    assert watch.read(2 * LASTS_S) == []


def test_a_break_begins_the_time_anew(watch: Watch) -> None:
    watch.read(0.0, throttle=THROTTLED)
    watch.read(30.0)
    assert watch.read(LASTS_S, throttle=THROTTLED) == []


def test_a_link_that_rests_with_its_device_is_no_fault(watch: Watch) -> None:
    for at in (0.0, LASTS_S, 2 * LASTS_S):
        assert watch.read(at, utilization_pct=0, vitals={"pcie_generation": 1}) == []


def test_a_power_cap_is_no_sign(watch: Watch) -> None:
    for at in (0.0, LASTS_S, 2 * LASTS_S):
        assert watch.read(at, throttle=CLOCK_REASONS["power_cap"]) == []


def test_a_device_at_its_limit_does_not_flap(watch: Watch) -> None:
    told = [
        bool(watch.read(float(at), temperature_c=degrees))
        for at, degrees in enumerate((95, 96, 95, 96, 95, 95 - COOL_DOWN_C, 95, 96))
    ]
    assert told == [False, True, True, True, True, False, False, True]


def test_a_device_that_slows_itself_is_not_taken_for_one_about_to_switch_itself_off(watch: Watch) -> None:
    for at in (0.0, 1.0, 2.0):
        signs = watch.read(at, vitals={"below_slowdown_c": 0, "below_shutdown_c": COOL_DOWN_C})
        assert verdicts(signs) == [(SignKind.TEMPERATURE, Verdict.SUSPECT)]
    too_hot = watch.read(3.0, vitals={"below_slowdown_c": -5, "below_shutdown_c": 0})
    assert verdicts(too_hot) == [(SignKind.TEMPERATURE, Verdict.QUARANTINE)]
    still = watch.read(4.0, vitals={"below_slowdown_c": 0, "below_shutdown_c": COOL_DOWN_C})
    assert verdicts(still) == [(SignKind.TEMPERATURE, Verdict.QUARANTINE)]


def test_a_sign_that_lasts_keeps_its_time(watch: Watch) -> None:
    assert {watch.read(at, ecc_errors=1)[0].at for at in (5.0, 6.0, 7.0)} == {5.0}


def test_missing_readings_neither_begin_nor_end_a_sign(watch: Watch) -> None:
    watch.read(0.0, temperature_c=120)
    assert verdicts(watch.read(1.0, temperature_c=None)) == [(SignKind.TEMPERATURE, Verdict.QUARANTINE)]
    lost = watch.read(2.0, temperature_c=None, fault="gone", failure=ReadFailure.LOST, vitals={})
    assert {sign.kind for sign in lost} == {SignKind.TEMPERATURE, SignKind.LOST}


def test_replays_of_a_link_count_by_their_growth(watch: Watch) -> None:
    def read(minute: int, replays: int) -> list[HealthSign]:
        return watch.read(minute * WINDOW_S, vitals={"pcie_replays": replays})

    many = int(MOST_PCIE_REPLAYS) + 1
    assert read(0, 1000) == []
    assert read(1, 1000 + many - 1) == []
    assert verdicts(read(2, 1000 + 2 * many)) == [(SignKind.PCIE, Verdict.TOLD)]
    assert verdicts(read(3, 1000 + 3 * many - 3)) == [(SignKind.PCIE, Verdict.TOLD)]
    assert read(4, 1000 + 3 * many) == []
    assert read(5, 0) == []


def test_a_link_that_was_trained_again_is_a_sign_for_a_minute(watch: Watch) -> None:
    assert watch.read(0.0, vitals={"link_recoveries": 3}) == []
    assert verdicts(watch.read(60.0, vitals={"link_recoveries": 4})) == [(SignKind.NVLINK, Verdict.SUSPECT)]
    assert watch.read(120.0, vitals={"link_recoveries": 4}) == []


def xid(code: int, at: float = 1.0, pid: int | None = None, job_id: str | None = None) -> tuple[DriverError, ...]:
    return (DriverError(code, at, pid, job_id),)


@pytest.mark.parametrize(
    ("codes", "verdict"),
    [
        ((48, 64, 79, 95, 119, 120), Verdict.QUARANTINE),
        ((63, 74, 92, 94, 1234), Verdict.SUSPECT),
        ((13, 31, 43, 45, 68, 109), Verdict.BLAMES_JOB),
    ],
)
def test_errors_count_as_the_catalogue_says(watch: Watch, codes: tuple[int, ...], verdict: Verdict) -> None:
    for code in codes:
        (sign,) = Watch().read(2.0, errors=xid(code), vitals=UNKNOWN_RECOVERY)
        assert (sign.kind, sign.code, sign.verdict, sign.at, sign.lasts) == (SignKind.XID, code, verdict, 1.0, False)
        assert sign.detail.startswith(f"Xid {code}: ")


@pytest.mark.parametrize(
    ("recovery", "of_79", "of_63"),
    [
        (None, Verdict.QUARANTINE, Verdict.SUSPECT),
        (RecoveryAction.NONE, Verdict.SUSPECT, Verdict.SUSPECT),
        (RecoveryAction.RESET, Verdict.QUARANTINE, Verdict.QUARANTINE),
    ],
)
def test_the_recovery_action_goes_above_the_catalogue(
    recovery: RecoveryAction | None, of_79: Verdict, of_63: Verdict
) -> None:
    for code, verdict in ((79, of_79), (63, of_63), (31, Verdict.BLAMES_JOB)):
        signs = Watch().read(2.0, errors=xid(code), vitals={"recovery": recovery})
        assert [sign.verdict for sign in signs if sign.code == code] == [verdict]


def test_an_error_blames_the_job_of_the_process_that_the_driver_names(watch: Watch) -> None:
    (sign,) = watch.read(2.0, errors=xid(31, pid=77, job_id="5"), holders=("4", "5"))
    assert (sign.pid, sign.job_id) == (77, "5")


def test_without_a_process_the_only_job_on_a_device_is_blamed_and_none_of_several(watch: Watch) -> None:
    stranger = (DeviceProcess(9, job_id=None),)
    watch.read(0.0)
    assert watch.read(2.0, errors=xid(31, 2.0), holders=("5", "mps"))[0].job_id == "5"
    assert watch.read(3.0, errors=xid(31, 3.0), holders=("4", "5"))[0].job_id is None
    assert watch.read(4.0, errors=xid(31, 4.0), holders=("5",), processes=stranger)[0].job_id is None
    assert watch.read(5.0, errors=xid(31, 5.0, pid=77), holders=("5",))[0].job_id is None


def test_whoever_holds_the_device_later_is_not_blamed(watch: Watch) -> None:
    watch.read(0.0)
    first = watch.read(2.0, errors=xid(31), holders=("5",))
    assert watch.read(3.0, errors=xid(31), holders=("6",)) == first


def test_a_contained_memory_error_ends_its_job_and_makes_the_device_suspect(watch: Watch) -> None:
    signs = watch.read(2.0, errors=xid(94), ecc_errors=1, vitals=UNKNOWN_RECOVERY)
    assert {sign.verdict for sign in signs} == {Verdict.SUSPECT}
    assert [sign.ends_job for sign in signs if sign.code == 94] == [True]
    after = watch.read(ERRORS_KEPT_S + 2, ecc_errors=1, vitals=UNKNOWN_RECOVERY)
    assert verdicts(after) == [(SignKind.ECC_UNCORRECTABLE, Verdict.SUSPECT)]


def test_an_uncontained_memory_error_counts_whatever_comes_after_it_until_the_reset(watch: Watch) -> None:
    watch.read(2.0, errors=xid(95), ecc_errors=1, vitals=UNKNOWN_RECOVERY)
    later = watch.read(900.0, errors=xid(94, at=899.0), ecc_errors=2, vitals=UNKNOWN_RECOVERY)
    assert (SignKind.ECC_UNCORRECTABLE, Verdict.QUARANTINE) in verdicts(later)
    watch.read(2000.0)
    again = watch.read(3000.0, errors=xid(94, at=2999.0), ecc_errors=1, vitals=UNKNOWN_RECOVERY)
    assert (SignKind.ECC_UNCORRECTABLE, Verdict.SUSPECT) in verdicts(again)


def test_of_an_exporter_another_last_number_is_an_error_and_the_first_is_history(watch: Watch) -> None:
    assert watch.read(0.0, xid=31) == []
    assert watch.read(1.0, xid=31) == []
    (sign,) = watch.read(2.0, xid=79, vitals=UNKNOWN_RECOVERY)
    assert (sign.code, sign.at) == (79, 2.0)
    assert watch.read(3.0, xid=79, vitals=UNKNOWN_RECOVERY) == [sign]
    assert watch.read(2.0 + ERRORS_KEPT_S, xid=79, vitals=UNKNOWN_RECOVERY) == []


def test_every_error_of_the_catalogue_has_a_cause() -> None:
    assert all(meaning.cause for meaning in XID_ERRORS.values())


@given(st.lists(st.tuples(st.integers(30, 150), st.sampled_from([0, THROTTLED, None])), max_size=30))
def test_each_rule_has_one_sign_at_most_and_a_lasting_sign_keeps_its_begin(
    readings: list[tuple[int, int | None]],
) -> None:
    watch, before = Watch(), dict[tuple[SignKind, Verdict], float]()
    for number, (degrees, throttle) in enumerate(readings):
        now = 10.0 * number
        signs = watch.read(now, temperature_c=degrees, throttle=throttle)
        assert len(signs) <= len(RULES)
        begun = {(sign.kind, sign.verdict): sign.at for sign in signs}
        assert len(begun) == len(signs)
        assert all(at in (before.get(key, now), now) for key, at in begun.items())
        assert all(begun[key] == before[key] for key in begun.keys() & before.keys())
        before = begun
