import json
from pathlib import Path

import pytest

from corral.core.model.devices.device import FIRST_VENDOR
from corral.host.runtimes.docker.records import ContainerRecords, HostUser, OrderedDevice, RunnerOrders

DEVICE = OrderedDevice("amd", "GPU-1", ["/dev/kfd"])
ORDERS = RunnerOrders(
    name="corral-1", body={}, host_paths=[], scratch="", devices=[DEVICE], pull="never", owner=HostUser(0, 0, []),
    stop_s=1.0, notify=("", ""),
)  # fmt: skip


def records_with(directory: Path, **instead: object) -> ContainerRecords:
    """Records of a launch whose orders have these fields in place of their devices."""
    (records := ContainerRecords(directory)).write_orders(ORDERS)
    path = directory / "container.json"
    said = json.loads(path.read_text())
    del said["devices"]
    path.write_text(json.dumps(said | instead))
    return records


def test_a_runner_reads_the_orders_as_they_were_written(tmp_path: Path) -> None:
    (records := ContainerRecords(tmp_path)).write_orders(ORDERS)
    assert records.orders() == ORDERS


def test_gpus_that_an_earlier_version_ordered_by_their_uuids_are_nvidias(tmp_path: Path) -> None:
    records = records_with(tmp_path, device_uuids=["GPU-1", "GPU-2"])
    assert records.orders().devices == [OrderedDevice(FIRST_VENDOR, uuid, []) for uuid in ("GPU-1", "GPU-2")]


def test_orders_that_do_not_say_which_gpus_are_invalid(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="devices"):
        records_with(tmp_path).orders()
