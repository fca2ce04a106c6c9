"""What a neighbour's words ask for is what they mean where they come from, or they are refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.requested_devices import Ask
from corral.core.sharing.resources import to_ask

CONVERSIONS: list[tuple[dict[str, str], Ask]] = [
    ({}, Ask(devices=0, share_milli=1000)),
    ({"cpu": "4", "mem": "8g"}, Ask(devices=0, share_milli=1000, cpu_milli=4000, host_memory_mib=8192)),
    ({"cuda.shares": "0.2", "cpu": "1"}, Ask(total_milli=200, cpu_milli=1000)),
    ({"cuda.device": "1", "cpu": "0.5", "memory": "2Gi"}, Ask(1, 1000, cpu_milli=500, host_memory_mib=2048)),
    (
        {"cpu": "500m", "shmem": "1g"},
        Ask(0, 1000, cpu_milli=500, notes=("shmem has no meaning here and is ignored",)),
    ),
    ({"cuda.shares": "1.2"}, Ask(total_milli=1200)),
    ({"cuda.device": "2"}, Ask(devices=2, share_milli=1000)),
    ({"cuda.device:10g-mig": "1"}, Ask(devices=1, share_milli=1000, profile="10g", means=Means.MIG)),
    (
        {"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "40"},
        Ask(devices=1, share_milli=300, memory_mib=10240),
    ),
    ({"tencent.com/vcuda-core": "100"}, Ask(devices=1, share_milli=1000)),
    ({"tencent.com/vcuda-core": "300"}, Ask(devices=3, share_milli=1000)),
    ({"nvidia.com/gpu": "2"}, Ask(devices=2, share_milli=1000)),
    ({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000"}, Ask(devices=2, memory_mib=3000)),
    (
        {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        Ask(devices=2, share_milli=300, memory_mib=3000, cores_percent=30),
    ),
    ({"nvidia.com/gpumem-percentage": "25"}, Ask(devices=1, share_milli=250, memory_percent=25)),
    ({"nvidia.com/gpucores": "50"}, Ask(devices=1, share_milli=500, cores_percent=50)),
    ({"nvidia.com/mps-core": "50"}, Ask(devices=1, share_milli=500, means=Means.MPS)),
    (
        {"nvidia.com/mps-core": "50", "nvidia.com/mps-memory": "8192"},
        Ask(devices=1, share_milli=500, memory_mib=8192, means=Means.MPS),
    ),
]


@pytest.mark.parametrize(
    ("limits", "asked"), CONVERSIONS, ids=[" ".join(limits) or "nothing" for limits, _ in CONVERSIONS]
)
def test_neighbours_words_are_understood(limits: dict[str, str], asked: Ask) -> None:
    assert to_ask(limits) == asked


REFUSALS: list[tuple[dict[str, str], str, str]] = [
    ({"cpu": "two"}, "cpu", "cpu: 'two' is not a number"),
    ({"cpu": "0"}, "cpu", "cpu: 0 is not above zero"),
    ({"mem": "4096"}, "mem", "mem: '4096' is not a memory size"),
    ({"mem": "4g", "memory": "4g"}, "memory", "mem and memory both set the host memory"),
    (
        {"tencent.com/vcuda-core": "150"},
        "tencent.com/vcuda-core",
        "neither below 100 nor a multiple of it; ask for 100 or 200",
    ),
    ({"cuda.shares": "0.5", "cuda.device": "1"}, "cuda.device", "cannot be used together with cuda.shares"),
    ({"cuda.shares": "0.5", "cuda.device:10g-mig": "1"}, "cuda.device:10g-mig", "together with cuda.shares"),
    ({"cuda.device:10g-mig": "1", "cuda.device:20g-mig": "1"}, "cuda.device:10g-mig", "cuda.device:20g-mig"),
    ({"cuda.device:10g-mig": "2"}, "cuda.device:10g-mig", "the most that can be asked for is 1"),
    ({"cuda.shares": "0.005"}, "cuda.shares", "less than 0.01 of a GPU"),
    ({"cuda.shares": "0"}, "cuda.shares", "not above zero"),
    ({"cuda.shares": "-1"}, "cuda.shares", "not above zero"),
    ({"cuda.shares": "much"}, "cuda.shares", "is not a number"),
    ({"cuda.shares": "nan"}, "cuda.shares", "is not a number"),
    ({"cuda.device": "1.5"}, "cuda.device", "not a whole number; ask for 1"),
    ({"nvidia.com/gpucores": "101"}, "nvidia.com/gpucores", "the most that can be asked for is 100"),
    ({"nvidia.com/gpumem": "1", "nvidia.com/gpumem-percentage": "5"}, "nvidia.com/gpumem", "together with"),
    ({"cuda.shares": "1", "nvidia.com/gpu": "1"}, "nvidia.com/gpu", "belongs to hami and cuda.shares to backend.ai"),
    ({"nvidia.com/gpumem": ""}, "nvidia.com/gpumem", "no default amount; write nvidia.com/gpumem=AMOUNT"),
    ({"cuda.share": "1"}, "cuda.share", "did you mean 'cuda.shares'?"),
]


@pytest.mark.parametrize(("limits", "field", "words"), REFUSALS, ids=[f"{list(r[0].items())}" for r in REFUSALS])
def test_what_cannot_be_is_refused_by_name(limits: dict[str, str], field: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        to_ask(limits)
    assert refused.value.field == field
    assert words in str(refused.value)


def test_what_is_rounded_down_is_said() -> None:
    asked = to_ask({"cuda.shares": "0.337"})
    assert asked.total_milli == 330
    assert asked.notes == ("cuda.shares: 0.337 is rounded down to 0.33 of a GPU",)


def test_memory_beside_whole_devices_is_left_out_and_said() -> None:
    asked = to_ask({"tencent.com/vcuda-core": "200", "tencent.com/vcuda-memory": "16"})
    assert (asked.devices, asked.memory_mib) == (2, None)
    assert "whole GPU" in asked.notes[0]


@pytest.mark.parametrize("memory", ["nvidia.com/gpumem", "nvidia.com/gpumem-percentage"])
def test_all_the_cores_are_the_whole_device_with_all_its_memory(memory: str) -> None:
    asked = to_ask({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100", memory: "50"})
    assert (asked.share_milli, asked.memory_mib, asked.memory_percent) == (1000, None, None)
    assert memory in asked.notes[0]


@pytest.mark.parametrize(
    ("stated", "asked"),
    [
        ({"cuda.device": ""}, Ask(devices=1, share_milli=1000, notes=("cuda.device: 1, its default",))),
        (
            {"tencent.com/vcuda-core": "50"},
            Ask(devices=1, share_milli=500, memory_mib=5120, notes=("tencent.com/vcuda-memory: 20, its default",)),
        ),
        (
            {"tencent.com/vcuda-memory": "4"},
            Ask(devices=1, share_milli=200, memory_mib=1024, notes=("tencent.com/vcuda-core: 20, its default",)),
        ),
        (
            {"nvidia.com/mps-memory": "1"},
            Ask(
                devices=1,
                share_milli=200,
                memory_mib=1,
                means=Means.MPS,
                notes=("nvidia.com/mps-core: 20, its default",),
            ),
        ),
    ],
    ids=["named without an amount", "memory of a part", "part of a GPU", "part on MPS"],
)
def test_what_is_not_said_and_needed_is_the_default_and_told(stated: dict[str, str], asked: Ask) -> None:
    assert to_ask(stated) == asked


def test_a_default_is_for_what_is_needed_alone() -> None:
    assert to_ask({"tencent.com/vcuda-core": "100"}).notes == ()


def test_a_refusal_of_a_name_describes_it_in_each_language() -> None:
    with pytest.raises(Refused) as refused:
        to_ask({"cuda.device": "1.5"})
    assert refused.value.descriptions == {"en": "Whole GPUs", "zh": "整块 GPU 的数量"}


@given(st.integers(1, 5000))
def test_a_share_is_never_granted_above_what_was_asked(thousandths: int) -> None:
    try:
        asked = to_ask({"cuda.shares": f"{thousandths / 1000:.3f}"})
    except Refused:
        assert thousandths < 10
        return
    assert asked.total_milli is not None
    assert 0 <= thousandths - asked.total_milli < 10
