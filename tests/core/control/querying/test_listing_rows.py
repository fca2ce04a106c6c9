"""What listings show of devices."""

from dataclasses import replace

from corral.core.control.querying.listing_rows import device_rows, node_rows
from corral.core.model.answers.devices import DeviceRow
from corral.core.model.devices.device import DeviceCondition, DeviceProcess, DeviceSample, HoldingPod
from corral.core.model.fact import ConditionObserved, DeviceCordoned, NodeObserved
from tests.core.control.strategies import box


def row(condition: DeviceCondition, sample: DeviceSample | None) -> DeviceRow:
    view = box(1).advance([ConditionObserved(condition)])
    return device_rows(view, {} if sample is None else {sample.uuid: sample})[0]


def test_what_could_be_read_of_an_unreadable_device_is_shown() -> None:
    sample = DeviceSample("GPU-0", 1.0, memory_used_mib=4096, memory_free_mib=77824, temperature_c=41, power_mw=61_500)
    shown = row(DeviceCondition("GPU-0", unreadable="its utilisation cannot be read"), sample)
    assert (shown.state, shown.state_reason) == ("unreadable", "its utilisation cannot be read")
    assert (shown.memory_used_mib, shown.utilization_pct, shown.temperature_c, shown.power_w) == (4096, None, 41, 61.5)


def test_nothing_is_shown_of_a_device_that_was_never_sampled() -> None:
    shown = row(DeviceCondition("GPU-0", unreadable="it has not answered"), None)
    assert (shown.memory_used_mib, shown.utilization_pct, shown.temperature_c) == (None, None, None)


def test_a_cordon_without_a_reason_has_none() -> None:
    view = box(1).advance([DeviceCordoned("GPU-0", "", by="alice", at=1.0)])
    (shown,) = device_rows(view, {})
    assert (shown.state, shown.state_reason) == ("cordoned", None)


def test_since_when_a_device_is_in_its_state_is_told_where_it_is_known() -> None:
    stranger = DeviceProcess(7)
    ill = row(
        DeviceCondition("GPU-0", unhealthy="hot", ill_since=5.0, strangers=(stranger,), strangers_since=3.0), None
    )
    assert (ill.state, ill.state_since, ill.since) == ("unhealthy", 5.0, 3.0)
    used = row(DeviceCondition("GPU-0", strangers=(stranger,), strangers_since=3.0), None)
    assert (used.state, used.state_since) == ("in_use", 3.0)
    assert row(DeviceCondition("GPU-0"), None).state_since is None


def test_a_pod_that_has_a_device_is_shown_as_what_it_is_and_no_process_is_made_up() -> None:
    pod = HoldingPod("ml", "train-x7k", "Job/train", created_at=3.0)
    shown = row(
        DeviceCondition("GPU-0", pod=pod, strangers_since=3.0), DeviceSample("GPU-0", 5.0, metered=False, pod=pod)
    )
    assert (shown.state, shown.processes, shown.metered, shown.since) == ("in_use", (), False, 3.0)
    assert str(shown.pod) == "pod ml/train-x7k (Job/train)"


def test_the_devices_of_a_node_that_its_cluster_has_cordoned_are_cordoned_for_its_reason() -> None:
    view = box(1)
    (node,) = view.nodes.values()
    view = view.advance(
        [NodeObserved(replace(node, cordoned="cordoned in Kubernetes")), ConditionObserved(DeviceCondition("GPU-0"))]
    )
    (shown,) = device_rows(view, {})
    assert (shown.state, shown.state_reason) == ("cordoned", "cordoned in Kubernetes")
    (listed,) = node_rows(view, ())
    assert (listed.state, listed.reason) == ("cordoned", "cordoned in Kubernetes")
