"""What a person asks for on the command line, and what that comes to on a device."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.allocation import Grant
from corral.model.device import Device
from corral.model.errors import Refused
from corral.model.means import Means
from corral.model.units import parse_share_milli
from corral.sharing.ask import Ask, ask, grant_on, refuse_unservable


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ({}, Ask(devices=1, share_milli=1000)),
        ({"gpus": "0"}, Ask(devices=0, share_milli=1000)),
        ({"gpus": "2"}, Ask(devices=2, share_milli=1000)),
        ({"gpus": "2", "share": "exclusive"}, Ask(devices=2, share_milli=1000, means=Means.EXCLUSIVE)),
        ({"gpus": "0.5"}, Ask(total_milli=500)),
        ({"gpus": "1.2"}, Ask(total_milli=1200)),
        ({"gpus": "0.5", "memory": "20G", "cores": "30"}, Ask(total_milli=500, memory_mib=20480, cores_percent=30)),
        ({"memory": "20G"}, Ask(devices=1, memory_mib=20480)),
        ({"cores": "50"}, Ask(devices=1, share_milli=500, cores_percent=50)),
        ({"gpus": "0.25", "share": "mps"}, Ask(total_milli=250, means=Means.MPS)),
        ({"profile": "1g.10gb"}, Ask(devices=1, share_milli=1000, profile="1g.10gb", means=Means.MIG)),
        ({"profile": "1g.10gb", "gpus": "2"}, Ask(devices=2, share_milli=1000, profile="1g.10gb", means=Means.MIG)),
    ],
    ids=str,
)
def test_flags_are_understood(flags: dict[str, str], asked: Ask) -> None:
    assert ask(**flags) == asked


@pytest.mark.parametrize(
    ("flags", "field", "words"),
    [
        ({"gpus": "0.005"}, "--gpus", "hundredths of a GPU, 0.005 is none; ask for 0.01"),
        ({"gpus": "0.333"}, "--gpus", "ask for 0.33 or 0.34"),
        ({"gpus": "-1"}, "--gpus", "not above zero"),
        ({"gpus": "-0.5"}, "--gpus", "not above zero"),
        ({"gpus": "half"}, "--gpus", "is not a number"),
        ({"gpus": "1", "memory": "20G"}, "--gpu-mem", "use --min-memory"),
        ({"gpus": "2", "cores": "50"}, "--gpu-cores", "ask for a fraction"),
        ({"memory": "20"}, "--gpu-mem", "write a number and a unit"),
        ({"cores": "101"}, "--gpu-cores", "ask for 1 to 100"),
        ({"cores": "0"}, "--gpu-cores", "not above zero"),
        ({"gpus": "0.5", "share": "exclusive"}, "--share", "ask for --gpus 1 or more"),
        ({"gpus": "1.2", "share": "mps"}, "--share", "need more than one device"),
        ({"share": "mpss"}, "--share", "did you mean 'mps'?"),
        ({"share": "mig"}, "--share", "--mig 1g.10gb"),
        ({"profile": "1g.10gb", "share": "mps"}, "--share", "shared in hardware"),
        ({"profile": "1g.10gb", "gpus": "0.5"}, "--gpus", "counts slices"),
        ({"profile": "1g.10gb", "gpus": "0"}, "--gpus", "counts slices"),
        ({"profile": "1g.10gb", "memory": "5G"}, "--gpu-mem", "fixes memory and cores"),
    ],
    ids=str,
)
def test_flags_that_make_no_sense_are_refused_with_what_would(flags: dict[str, str], field: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        ask(**flags)
    assert refused.value.field == field
    assert words in str(refused.value)


@given(st.integers(0, 10_000))
def test_every_hundredth_is_a_share_and_nothing_between(thousandths: int) -> None:
    text = f"{thousandths / 1000:.3f}"
    if thousandths % 10:
        with pytest.raises(Refused):
            parse_share_milli(text)
    else:
        assert parse_share_milli(text) == thousandths


@pytest.mark.parametrize(
    ("wanted", "part", "granted"),
    [
        (Ask(devices=1, share_milli=1000), None, (1000, 81920)),
        (Ask(total_milli=330), 330, (330, 27033)),
        (Ask(total_milli=500, memory_mib=20480), 500, (500, 20480)),
        (Ask(devices=1, memory_mib=20480), None, (250, 20480)),
        (Ask(devices=1, memory_mib=100), None, (10, 100)),
        (Ask(devices=1, share_milli=250, memory_percent=33), None, (250, 27033)),
    ],
)
def test_a_grant_is_rounded_down_to_what_the_device_gives(
    device: Device, wanted: Ask, part: int | None, granted: tuple[int, int]
) -> None:
    assert grant_on(wanted, device, part) == Grant("GPU-a", *granted)


def test_more_memory_than_the_device_has_is_refused(device: Device) -> None:
    with pytest.raises(Refused, match="the most that can be granted on it is 80G"):
        grant_on(Ask(devices=1, memory_mib=90_000), device)


def test_a_device_of_unknown_memory_grants_what_needs_no_part_of_it(device: Device) -> None:
    unknown = replace(device, memory_mib=None)
    assert grant_on(Ask(total_milli=500), unknown, 500) == Grant("GPU-a", 500)
    with pytest.raises(Refused, match="does not say how much memory"):
        grant_on(Ask(devices=1, memory_mib=1024), unknown)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory_mib": 100_000}, "the most that can be asked for is 80G"),
        ({"profile": "7g.80gb"}, "they offer 1g.10gb, 3g.40gb"),
        ({"profile": "10g", "devices": 3}, "2 slices"),
    ],
)
def test_what_no_device_could_ever_serve_is_refused(
    device: Device, sliced: Device, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        refuse_unservable(replace(Ask(devices=1), **changes), [device, sliced])
    refuse_unservable(Ask(devices=2, profile="10g"), [device, sliced])


def test_where_nothing_is_sliced_the_refusal_says_so(device: Device) -> None:
    with pytest.raises(Refused, match="no device is sliced"):
        refuse_unservable(Ask(devices=1, profile="1g.10gb"), [device])
