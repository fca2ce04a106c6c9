"""What a person asks for on the command line, and what that comes to on a device."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.requested_devices import Ask, ask
from corral.core.model.units import parse_share_milli


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
        ({"gpus": "0.005"}, "--gpus", "multiples of 0.01 GPU; ask for 0.01"),
        ({"gpus": "0.333"}, "--gpus", "ask for 0.33 or 0.34"),
        ({"gpus": "-1"}, "--gpus", "not above zero"),
        ({"gpus": "-0.5"}, "--gpus", "not above zero"),
        ({"gpus": "half"}, "--gpus", "is not a number"),
        ({"gpus": "1", "memory": "20G"}, "--gpu-mem", "use --min-memory"),
        ({"gpus": "0", "memory": "20G"}, "--gpu-mem", "--gpus 0 asks for no GPU"),
        ({"gpus": "2", "cores": "50"}, "--gpu-cores", "ask for a fraction"),
        ({"cores": "100", "memory": "20G"}, "--gpu-mem", "a whole GPU has all its memory and compute"),
        ({"profile": " "}, "--mig", "the profile is missing"),
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
        ({"profile": "1g.10gb", "memory": "5G"}, "--gpu-mem", "fixes memory and compute"),
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
    ("asked", "request_"),
    [
        (Ask(devices=2, share_milli=1000), Request(devices=2)),
        (Ask(devices=0, share_milli=1000), Request(devices=0)),
        (Ask(total_milli=500, memory_mib=20480), Request(share_milli=500, split_milli=500, memory_mib=20480)),
        (Ask(total_milli=1200), Request(share_milli=1000, split_milli=1200)),
        (Ask(devices=2, memory_mib=3000), Request(devices=2, share_milli=10, share_of_memory=True, memory_mib=3000)),
        (Ask(devices=1, share_milli=500, cores_percent=50), Request(share_milli=500, cores_percent=50)),
        (
            Ask(devices=1, share_milli=1000, profile="1g.10gb", means=Means.MIG),
            Request(mig_profile="1g.10gb", means=Means.MIG),
        ),
    ],
    ids=str,
)
def test_what_is_asked_makes_a_request_under_the_conditions_given(asked: Ask, request_: Request) -> None:
    conditions = Request(models=("A100",), cpu_milli=2000)
    assert asked.request(conditions) == replace(request_, models=("A100",), cpu_milli=2000)
