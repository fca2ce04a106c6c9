"""Metrics of devices, with the names, labels and units of NVIDIA's dcgm-exporter: existing dashboards show them."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from corral.core.control.metrics.exposition import Row, family, labelled
from corral.core.control.querying.listing_rows import standing_of
from corral.core.model.devices.device import Device, DeviceSample, throttle_reasons
from corral.core.model.view import View

Reading = Callable[[Device, DeviceSample], float | None]


class DeviceMetric(NamedTuple):
    """A metric of dcgm-exporter, and the function that reads its value; None if there is no value."""

    name: str
    about: str
    read: Reading
    kind: str = "gauge"


def _watts(power_mw: int | None) -> float | None:
    return None if power_mw is None else power_mw / 1000


DEVICE_METRICS = (
    DeviceMetric("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", lambda _, read: read.utilization_pct),
    DeviceMetric("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", lambda _, read: read.memory_bandwidth_pct),
    DeviceMetric("DCGM_FI_DEV_SM_CLOCK", "SM clock (in MHz).", lambda _, read: read.sm_clock_mhz),
    DeviceMetric("DCGM_FI_DEV_MEM_CLOCK", "Memory clock (in MHz).", lambda _, read: read.mem_clock_mhz),
    DeviceMetric("DCGM_FI_DEV_FB_TOTAL", "Total framebuffer memory (in MiB).", lambda _, read: read.memory_total_mib),
    DeviceMetric("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", lambda _, read: read.memory_used_mib),
    DeviceMetric("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", lambda _, read: read.memory_free_mib),
    DeviceMetric("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", lambda _, read: read.temperature_c),
    DeviceMetric("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", lambda _, read: _watts(read.power_mw)),
    DeviceMetric(
        "DCGM_FI_DEV_POWER_MGMT_LIMIT", "Power limit (in W).", lambda device, _: _watts(device.power_limit_mw)
    ),
    DeviceMetric(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "Uncorrectable memory errors since the driver was loaded.",
        lambda _, read: read.ecc_errors,
        "counter",
    ),
    DeviceMetric("DCGM_FI_DEV_XID_ERRORS", "The last Xid error, 0 for none.", lambda _, read: read.xid),
    DeviceMetric(
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
        "Reasons for lower clocks, as bits.",
        lambda _, read: read.throttle,
    ),
)


def device_metrics(
    view: View, samples: Mapping[str, DeviceSample], oldest: float, hostname_label: str
) -> Iterator[str]:
    """Yield the lines of all devices. Missing readings, and samples before `oldest` (Unix seconds), are left out."""
    there = [(name, device) for name, node in view.nodes.items() for device in node.devices]
    read = [
        (_labels(name, device, hostname_label), device, sample)
        for name, device in there
        if (sample := samples.get(device.uuid)) is not None and sample.fault is None and sample.taken_at >= oldest
    ]
    joined = [(labelled(**labels), device, sample) for labels, device, sample in read]
    for name, about, value_of, kind in DEVICE_METRICS:
        found = ((labels, value_of(device, sample)) for labels, device, sample in joined)
        yield from family(name, kind, about, (Row(labels, value) for labels, value in found if value is not None))
    yield from family(
        "corral_device_throttled",
        "gauge",
        "1 for each reason that throttles the device.",
        (
            Row(labelled(**labels, reason=reason), 1)
            for labels, _, sample in read
            for reason in throttle_reasons(sample.throttle or 0)
        ),
    )
    yield from family(
        "corral_device_state",
        "gauge",
        "1 for the present state of the device.",
        (
            Row(labelled(**_labels(name, device, hostname_label), state=standing_of(view, name, device)[1].value), 1)
            for name, device in there
        ),
    )


def _labels(node: str, device: Device, hostname_label: str) -> dict[str, str]:
    return {
        "gpu": str(device.index),
        "UUID": device.uuid,
        "pci_bus_id": device.pci_bus_id or "",
        "device": f"{device.vendor}{device.index}",
        "modelName": device.model,
        "GPU_I_PROFILE": device.mig_profile or "",
        hostname_label: node,
    }
