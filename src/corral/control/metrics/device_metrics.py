"""Devices, under the names, labels and units of NVIDIA's dcgm-exporter, so that a site's dashboards show them."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from corral.control.metrics.exposition import Row, family, labelled
from corral.control.querying.listing_rows import standing_of
from corral.model.device import Device, DeviceSample
from corral.model.view import View

Reading = Callable[[Device, DeviceSample], float | None]


class DeviceMetric(NamedTuple):
    """A name of dcgm-exporter's, and how to read its value: None where there is none."""

    name: str
    kind: str
    about: str
    read: Reading


def _watts(power_mw: int | None) -> float | None:
    return None if power_mw is None else power_mw / 1000


DEVICE_METRICS = (
    DeviceMetric(
        "DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", lambda device, sample: sample.utilization_pct
    ),
    DeviceMetric(
        "DCGM_FI_DEV_FB_TOTAL", "gauge", "Total framebuffer memory (in MiB).", lambda _, sample: sample.memory_total_mib
    ),
    DeviceMetric(
        "DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", lambda _, sample: sample.memory_used_mib
    ),
    DeviceMetric(
        "DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", lambda _, sample: sample.memory_free_mib
    ),
    DeviceMetric("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", lambda _, sample: sample.temperature_c),
    DeviceMetric("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", lambda _, sample: _watts(sample.power_mw)),
    DeviceMetric(
        "DCGM_FI_DEV_POWER_MGMT_LIMIT",
        "gauge",
        "Power limit (in W).",
        lambda device, _: _watts(device.power_limit_mw),
    ),
    DeviceMetric(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "counter",
        "Memory errors beyond correction since the driver was loaded.",
        lambda _, sample: sample.ecc_errors,
    ),
)


def device_metrics(
    view: View, samples: Mapping[str, DeviceSample], oldest: float, hostname_label: str
) -> Iterator[str]:
    """The lines of all devices. What was not read, or before `oldest` (Unix seconds), is left out."""
    labels = _labels_by_uuid(view, hostname_label)
    devices = {device.uuid: device for node in view.nodes.values() for device in node.devices}
    read = [
        (labels[uuid], devices[uuid], sample)
        for uuid, sample in samples.items()
        if uuid in devices and sample.fault is None and sample.taken_at >= oldest
    ]
    for name, kind, about, value_of in DEVICE_METRICS:
        found = ((own, value_of(device, sample)) for own, device, sample in read)
        yield from family(name, kind, about, (Row(own, value) for own, value in found if value is not None))
    yield from family(
        "corral_device_state", "gauge", "1 for the state that the device is in.", _states(view, hostname_label)
    )


def _states(view: View, hostname_label: str) -> Iterator[Row]:
    for name, node in view.nodes.items():
        for device in node.devices:
            _, state = standing_of(view, name, device)
            yield Row(labelled(**_labels(name, device, device.index, hostname_label), state=state.value), 1)


def _labels_by_uuid(view: View, hostname_label: str) -> dict[str, str]:
    return {
        device.uuid: labelled(**_labels(name, device, device.index, hostname_label))
        for name, node in view.nodes.items()
        for device in node.devices
    }


def _labels(node: str, device: Device, index: int, hostname_label: str) -> dict[str, str]:
    return {
        "gpu": str(index),
        "UUID": device.uuid,
        "pci_bus_id": device.pci_bus_id or "",
        "device": f"nvidia{index}",
        "modelName": device.model,
        "GPU_I_PROFILE": device.mig_profile or "",
        hostname_label: node,
    }
