"""How the site's rules become the means of each device, and slices become devices."""

from dataclasses import replace

import pytest

from corral.core.model.devices.device import Device, Node, VirtualLayer
from corral.core.model.devices.means import Means
from corral.core.sharing.arrange import Arrangement, idle_rules


def test_without_rules_a_device_is_shared_by_time_slices(node: Node) -> None:
    assert Arrangement().node(node).devices[0].means is Means.TIMESLICE


@pytest.mark.parametrize(
    ("rules", "means"),
    [
        ((("*", Means.EXCLUSIVE),), Means.EXCLUSIVE),
        ((("A100", Means.MPS), ("*", Means.EXCLUSIVE)), Means.MPS),
        ((("A100", Means.MPS), ("0", Means.TIMESLICE)), Means.TIMESLICE),
        ((("0", Means.TIMESLICE), ("GPU-a", Means.EXCLUSIVE)), Means.EXCLUSIVE),
        ((("H100", Means.MPS),), Means.TIMESLICE),
        ((("A100", Means.MPS), ("A100", Means.EXCLUSIVE)), Means.MPS),
    ],
)
def test_the_closest_rule_counts(node: Node, rules: tuple[tuple[str, Means], ...], means: Means) -> None:
    assert Arrangement(rules).node(node).devices[0].means is means


def test_a_device_that_mps_cannot_run_on_is_given_whole_and_that_is_said(node: Node, device: Device) -> None:
    old = replace(node, devices=(replace(device, compute_capability=(6, 1)),))
    arranged = Arrangement((("*", Means.MPS),))
    assert arranged.node(old).devices[0].means is Means.EXCLUSIVE
    (why,) = arranged.refusals(old)
    assert "Volta" in why
    assert why.startswith("GPU 0: ")
    assert why.endswith("it is allocated whole")
    assert arranged.refusals(replace(node, devices=(device,))) == ()


@pytest.mark.parametrize(("multi_user", "one_user"), [(False, True), (True, False)])
def test_an_mps_device_serves_one_user_unless_several_may_meet(node: Node, multi_user: bool, one_user: bool) -> None:
    arranged = Arrangement((("0", Means.MPS),), one_user=lambda _: not multi_user).node(node)
    assert arranged.devices[0].one_user is one_user


def test_slices_are_devices_after_those_that_they_are_cut_from(node: Node) -> None:
    devices = Arrangement().node(node).devices
    assert [(device.uuid, device.index, device.mig_profile) for device in devices] == [
        ("GPU-a", 0, None),
        ("GPU-m", 1, None),
        ("MIG-1", 2, "1g.10gb"),
        ("MIG-2", 3, "1g.10gb"),
        ("MIG-3", 4, "3g.40gb"),
    ]
    assert [device.means for device in devices[1:]] == [Means.MIG] * 4
    assert {device.parent_uuid for device in devices[2:]} == {"GPU-m"}


def test_what_the_machine_lacks_for_mps_counts_like_what_the_device_lacks(node: Node) -> None:
    arranged = Arrangement((("0", Means.MPS),), unfit=lambda _, device: f"{device.uuid} has no control program")
    assert arranged.node(node).devices[0].means is Means.EXCLUSIVE
    assert arranged.refusals(node) == ("GPU 0: GPU-a has no control program; it is allocated whole",)


def test_what_several_devices_lack_is_said_once_and_of_a_sliced_one_that_its_slices_are_handed_out(
    node: Node, device: Device
) -> None:
    several = replace(node, devices=(*node.devices, replace(device, uuid="GPU-b", index=2)))
    arranged = Arrangement((("*", Means.MPS),), unfit=lambda _, __: "there is no program")
    assert arranged.refusals(several) == (
        "GPU 0, 2: there is no program; they are allocated whole",
        "GPU 1: there is no program; only slices are allocated",
    )


def test_the_closest_layer_of_virtual_gpus_counts(node: Node) -> None:
    manager, hami = VirtualLayer("gpu-manager", (12, 2)), VirtualLayer("hami", (12, 4))
    assert {device.virtual for device in Arrangement().node(node).devices} == {None}
    devices = Arrangement(layers=(("*", hami), ("GPU-a", manager))).node(node).devices
    assert [device.virtual for device in devices[:2]] == [manager, hami]


def test_a_rule_that_is_for_no_device_here_is_idle(node: Node) -> None:
    devices = Arrangement().node(node).devices
    assert idle_rules(["0", "GPU-a", "A100", "*", "9", "H100", "GPU-x"], devices) == ("9", "H100", "GPU-x")
