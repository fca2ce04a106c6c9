"""What is asked in any words becomes a request that stands by itself."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.control.submitting.device_request import RequestRules, with_profile_named, with_vendor, with_whole_node
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import JobKind, Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.split import Strategy


def settled(request: Request | None = None, **resources: str) -> Request:
    named = {key.replace("_", "."): amount for key, amount in resources.items()}
    submission = Submission(command=("true",), request=request or Request(), resources=named)
    return RequestRules().settle(submission, "alice")[0].request


def test_a_neighbours_words_keep_the_other_conditions() -> None:
    request = settled(Request(models=("A100",), cpu_milli=2000), cuda_shares="1.2")
    assert (request.split_milli, request.models, request.cpu_milli) == (1200, ("A100",), 2000)


def test_a_neighbours_words_for_the_host_are_heard_and_not_twice() -> None:
    request = settled(Request(models=("A100",)), cpu="2", mem="4g")
    assert (request.devices, request.cpu_milli, request.host_memory_mib) == (0, 2000, 4096)
    with pytest.raises(Refused, match="--cpus and a resource name ask for the same"):
        settled(Request(cpu_milli=1000), cpu="2")


def test_who_asks_for_a_part_is_its_tenant_and_who_asks_for_a_whole_device_is_not() -> None:
    assert settled(cuda_shares="0.5").tenant == "alice"
    assert settled(cuda_device="1").tenant is None
    assert settled(Request(devices=0)).tenant is None


def test_what_is_rounded_down_is_told() -> None:
    submission = Submission(
        command=("true",), resources={"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "8"}
    )
    settled_, notes = RequestRules().settle(submission, "alice")
    assert (settled_.request.share_milli, settled_.request.memory_mib, notes) == (500, 2048, ())
    odd = Submission(command=("true",), resources={"cuda.shares": "0.555"})
    settled_, notes = RequestRules().settle(odd, "alice")
    assert settled_.request.split_milli == 550
    assert notes == ("cuda.shares: 0.555 is rounded down to 0.55 of a GPU",)


@pytest.mark.parametrize(
    ("wanted", "named"), [("10g", "1g.10gb"), ("1G.10GB", "1g.10gb"), ("40gb", "40gb"), ("7g.80gb", "7g.80gb")]
)
def test_a_slice_that_is_asked_for_by_its_memory_is_named_where_one_profile_alone_has_it(
    wanted: str, named: str
) -> None:
    profiles = ("1g.10gb", "1g.10gb", "3g.40gb", "4g.40gb")
    devices = tuple(Device(f"MIG-{n}", n, "A100", 9728, mig_profile=one) for n, one in enumerate(profiles))
    asked = Submission(command=("true",), request=Request(mig_profile=wanted))
    assert with_profile_named(asked, [Node("here", devices, 0, 0)]).request.mig_profile == named


def test_an_exclusive_job_takes_every_gpu_of_the_machine_that_it_may_use() -> None:
    a100 = tuple(Device(f"GPU-{n}", n, "NVIDIA A100", 81920) for n in range(4))
    t4 = (Device("GPU-9", 9, "Tesla T4", 15360), Device("GPU-8", 8, "Tesla T4", 15360, means=Means.MIG))
    nodes = [Node("small", a100[:1], 0, 0), Node("large", a100 + t4, 0, 0)]
    for models, count in (((), 5), (("A100",), 4), (("T4",), 1), (("H100",), 1)):
        asked = Submission(("true",), request=Request(models=models), exclusive=True)
        whole = with_whole_node(asked, nodes)
        assert (whole.request.devices, whole.exclusive) == (count, False)
    assert with_whole_node(Submission(("true",)), nodes).request.devices == 1


@pytest.mark.parametrize("request_", [Request(devices=2), Request(share_milli=500), Request(device_uuids=("GPU-1",))])
def test_an_exclusive_job_that_says_how_many_gpus_is_refused(request_: Request) -> None:
    with pytest.raises(Refused, match="remove the number of GPUs"):
        with_whole_node(Submission(("true",), request=request_, exclusive=True), [])


def test_devices_asked_for_twice_are_refused() -> None:
    with pytest.raises(Refused, match="the request already sets share_milli"):
        settled(Request(share_milli=500), cuda_shares="0.5")


def test_the_site_says_how_shares_are_split() -> None:
    asking = RequestRules(split=Strategy.FILL, may_fragment=False)
    request = asking.settle(Submission(command=("true",), resources={"cuda.shares": "1.2"}), "alice")[0].request
    assert (request.split, request.may_fragment) == (Strategy.FILL, False)


@pytest.mark.parametrize(
    ("site", "flag", "by_number", "by_name"),
    [
        (None, None, Strategy.FILL, Strategy.EVENLY),
        (Strategy.EVENLY, None, Strategy.EVENLY, Strategy.EVENLY),
        (Strategy.FILL, None, Strategy.FILL, Strategy.FILL),
        (Strategy.FILL, Strategy.EVENLY, Strategy.EVENLY, Strategy.EVENLY),
        (None, Strategy.EVENLY, Strategy.EVENLY, Strategy.EVENLY),
        (Strategy.EVENLY, Strategy.FILL, Strategy.FILL, Strategy.FILL),
    ],
)
def test_a_number_of_gpus_fills_devices_and_neighbours_names_split_evenly_unless_the_site_or_the_job_says_how(
    site: Strategy | None, flag: Strategy | None, by_number: Strategy, by_name: Strategy
) -> None:
    rules = RequestRules(split=site)
    number = Submission(("true",), request=Request(share_milli=1000, split_milli=1200, split=flag))
    name = Submission(("true",), request=Request(split=flag), resources={"cuda.shares": "1.2"})
    assert rules.settle(number, "alice")[0].request.split is by_number
    assert rules.settle(name, "alice")[0].request.split is by_name
    whole = Submission(("true",), request=Request(devices=2, split=flag))
    assert rules.settle(whole, "alice")[0].request.split is None


def test_a_resource_that_is_on_mps_by_name_is() -> None:
    submission = Submission(command=("true",), resources={"nvidia.com/mps-core": "25"})
    assert RequestRules().settle(submission, "alice")[0].request.means is Means.MPS


def test_a_reserved_part_is_by_time_slices_for_nothing_holds_a_session_to_more() -> None:
    reservation = Submission(kind=JobKind.RESERVE, resources={"cuda.shares": "0.5"})
    assert RequestRules().settle(reservation, "alice")[0].request.means is Means.TIMESLICE
    with pytest.raises(Refused, match="a reserved part of a GPU is always shared by timeslice"):
        RequestRules().settle(Submission(kind=JobKind.RESERVE, resources={"nvidia.com/mps-core": "25"}), "alice")


@pytest.mark.parametrize(("asked", "least"), [(None, (8, 0)), ((7, 5), (8, 0)), ((9, 0), (9, 0))])
def test_what_the_site_keeps_back_no_request_gets(asked: tuple[int, int] | None, least: tuple[int, int]) -> None:
    submission = Submission(command=("true",), request=Request(min_compute=asked))
    assert RequestRules(min_compute=(8, 0)).settle(submission, "alice")[0].request.min_compute == least


def test_a_job_without_gpus_is_asked_for_no_capability() -> None:
    submission = Submission(command=("true",), request=Request(devices=0))
    assert RequestRules(min_compute=(8, 0)).settle(submission, "alice")[0].request.min_compute is None


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


@pytest.mark.parametrize("field", [{"pack": "pack:alice 0 1/2"}, {"power_within_mw": 1}])
def test_what_the_scheduler_alone_sets_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="the scheduler sets it"):
        settled(replace(Request(), **field))
