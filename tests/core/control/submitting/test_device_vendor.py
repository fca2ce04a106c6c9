"""A request is for one maker's devices: the one that it names or means, else the site's."""

from dataclasses import replace

import pytest

from corral.core.control.submitting.device_vendor import with_vendor
from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request

A100 = Device("GPU-n", 0, "NVIDIA A100-SXM4-80GB", 81920)
MI300X = Device("GPU-a", 1, "AMD Instinct MI300X", 196608, vendor="amd")
PART = replace(MI300X, uuid="GPU-p", mig_profile="cpx", parent_uuid="GPU-a")


def node(*devices: Device) -> Node:
    return Node("box", devices, 8000, 65536)


MIXED = node(A100, MI300X, PART)


def vendor_of(request: Request, *nodes: Node, default: str | None = None, resources: tuple[str, ...] = ()) -> str:
    return with_vendor(request, resources, nodes, default).vendor or "nvidia"


@pytest.mark.parametrize(
    ("nodes", "default", "vendor"),
    [
        ((node(A100),), None, "nvidia"),
        ((node(MI300X),), None, "amd"),
        ((node(A100), node(MI300X)), None, "nvidia"),
        ((node(A100), node(MI300X)), "amd", "amd"),
        ((), None, "nvidia"),
        ((node(),), "amd", "amd"),
    ],
)
def test_a_request_that_names_no_vendor_gets_the_sites(
    nodes: tuple[Node, ...], default: str | None, vendor: str
) -> None:
    assert vendor_of(Request(), *nodes, default=default) == vendor


@pytest.mark.parametrize(
    "request_",
    [
        Request(models=("MI300X",)),
        Request(device_uuids=("GPU-a",)),
        Request(mig_profile="cpx"),
        Request(vendor="amd"),
    ],
)
def test_what_a_request_names_says_whose_it_is(request_: Request) -> None:
    assert vendor_of(request_, MIXED, default="nvidia") == "amd"
    assert vendor_of(replace(request_, gang_size=4), MIXED, default="nvidia") == "amd"


def test_cuda_means_nvidia_whatever_the_site_has_or_says() -> None:
    assert vendor_of(Request(min_cuda=(12, 1)), node(MI300X), default="amd") == "nvidia"
    assert vendor_of(Request(), node(MI300X), default="amd", resources=("cuda.shares",)) == "nvidia"
    assert vendor_of(Request(), MIXED, resources=("amd.com/gpu",)) == "amd"
    with pytest.raises(Refused, match="this request need GPUs made by nvidia, not by amd"):
        with_vendor(Request(vendor="amd", min_cuda=(12, 1)), (), [MIXED], None)


def test_a_vendor_that_nobody_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused, match="did you mean 'nvidia'") as refused:
        with_vendor(Request(vendor="nvdia"), (), [MIXED], None)
    assert refused.value.field == "vendor"


def test_a_request_for_the_first_vendor_or_no_device_is_left_as_it_is() -> None:
    for request in (Request(), Request(devices=0), Request(models=("A100",))):
        assert with_vendor(request, (), [MIXED], None) is request
    assert with_vendor(Request(devices=0), (), [node(MI300X)], "amd").vendor is None
