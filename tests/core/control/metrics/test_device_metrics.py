from dataclasses import fields
from typing import Any

from corral.core.control.metrics.device_metrics import device_metrics
from corral.core.control.metrics.exposition import text_of
from corral.core.model.devices.device import Device, DeviceCondition, DeviceSample, Node
from corral.core.model.fact import ConditionObserved, NodeObserved
from corral.core.model.view import View
from tests.core.control.metrics.reading import Rows, named, rows_of

NOW = 1000.0
FULL: dict[str, Any] = {
    "utilization_pct": 97,
    "memory_used_mib": 1000,
    "memory_free_mib": 15384,
    "memory_total_mib": 16384,
    "temperature_c": 61,
    "power_mw": 250_500,
    "ecc_errors": 0,
    "memory_bandwidth_pct": 12,
    "sm_clock_mhz": 1410,
    "mem_clock_mhz": 1593,
    "xid": 79,
    "throttle": 0,
}
CARD = Device("GPU-a", 3, "NVIDIA H100", 16384, pci_bus_id="00000000:0B:00.0", power_limit_mw=700_000)
BARE = Device("GPU-a", 0, "A", None)


def read(*samples: DeviceSample, devices: tuple[Device, ...] = (CARD,), label: str = "hostname") -> Rows:
    view = View().advance([NodeObserved(Node("gpu-01", devices, 8000, 1024))])
    view = view.advance([ConditionObserved(DeviceCondition(device.uuid)) for device in devices])
    found = {sample.uuid: sample for sample in samples}
    return rows_of(text_of(device_metrics(view, found, NOW - 10, label)))


def test_a_device_has_the_names_labels_and_units_of_dcgm_exporter() -> None:
    rows = read(DeviceSample("GPU-a", NOW, **FULL))
    labels = {
        "gpu": "3",
        "UUID": "GPU-a",
        "pci_bus_id": "00000000:0B:00.0",
        "device": "nvidia3",
        "modelName": "NVIDIA H100",
        "hostname": "gpu-01",
    }
    for name, value in {
        "DCGM_FI_DEV_GPU_UTIL": 97,
        "DCGM_FI_DEV_FB_USED": 1000,
        "DCGM_FI_DEV_FB_FREE": 15384,
        "DCGM_FI_DEV_GPU_TEMP": 61,
        "DCGM_FI_DEV_POWER_USAGE": 250.5,
        "DCGM_FI_DEV_POWER_MGMT_LIMIT": 700,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
        "DCGM_FI_DEV_MEM_COPY_UTIL": 12,
        "DCGM_FI_DEV_SM_CLOCK": 1410,
        "DCGM_FI_DEV_MEM_CLOCK": 1593,
        "DCGM_FI_DEV_XID_ERRORS": 79,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 0,
    }.items():
        assert named(rows, name) == [(labels, value)]


def test_what_could_not_be_read_is_absent_and_never_0() -> None:
    for missing in FULL:
        rows = read(DeviceSample("GPU-a", NOW, **{**FULL, missing: None}))
        there = read(DeviceSample("GPU-a", NOW, **FULL))
        assert len(there) - len(rows) == 1, missing
        assert there.items() >= rows.items()
    assert len(read(DeviceSample("GPU-a", NOW), devices=(BARE,))) == 1


def test_each_reason_that_throttles_a_device_has_a_row_and_idle_clocks_have_none() -> None:
    rows = named(read(DeviceSample("GPU-a", NOW, throttle=0x1 | 0x4 | 0x40)), "corral_device_throttled")
    assert [labels["reason"] for labels, _ in rows] == ["power_cap", "hw_thermal"]


def test_a_sample_that_is_too_old_or_failed_tells_nothing_but_the_state() -> None:
    for sample in (DeviceSample("GPU-a", NOW - 11, **FULL), DeviceSample("GPU-a", NOW, fault="fell off the bus")):
        assert {name for name, _ in read(sample)} == {"corral_device_state"}
    assert len(read(DeviceSample("GPU-a", NOW - 9, **FULL))) > 1


def test_a_sample_of_a_device_that_has_left_is_not_told() -> None:
    assert {name for name, _ in read(DeviceSample("GPU-gone", NOW, **FULL))} == {"corral_device_state"}


def test_a_slice_has_its_profile_and_older_dashboards_find_their_label() -> None:
    part = Device("MIG-a", 3, "NVIDIA H100", 4864, mig_profile="1g.10gb", parent_uuid="GPU-a")
    rows = read(DeviceSample("MIG-a", NOW, memory_used_mib=5), devices=(CARD, part), label="Hostname")
    ((labels, used),) = named(rows, "DCGM_FI_DEV_FB_USED")
    assert (labels["UUID"], labels["GPU_I_PROFILE"], labels["Hostname"], used) == ("MIG-a", "1g.10gb", "gpu-01", 5)
    assert "hostname" not in labels


def test_a_device_that_was_not_sampled_yet_is_unreadable() -> None:
    view = View().advance([NodeObserved(Node("gpu-01", (CARD,), 8000, 1024))])
    rows = rows_of(text_of(device_metrics(view, {}, 0.0, "hostname")))
    assert [labels["state"] for labels, _ in named(rows, "corral_device_state")] == ["unreadable"]


def test_every_reading_of_a_sample_has_a_metric() -> None:
    # Whoever adds a reading adds its metric, or says here why it has none.
    known_without_reading = {"metered", "counted", "pod", "parts", "illness"}
    of_health = {"failure", "errors", "vitals", "signs"}
    without = {"uuid", "taken_at", "processes", "fault"} | known_without_reading | of_health
    for field in fields(DeviceSample):
        if field.name not in without:
            reading: dict[str, Any] = {field.name: 1}
            assert len(read(DeviceSample("GPU-a", NOW, **reading), devices=(BARE,))) == 2, field.name
