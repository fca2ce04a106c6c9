"""What the containers of a pod ask for by the names of others, or the sentence by which the pod is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.core.sharing.definitions import load_catalogue
from corral.engines.kubernetes.inventory.occupants import keep_occupant
from corral.engines.kubernetes.shares.pod_shares import OWN_NAMES, VISIBLE, HeldShare, PodShares
from corral.engines.kubernetes.shares.share_layers import share_layers

CORE, MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
MPS_CORE, MPS_MEMORY = "nvidia.com/mps-core", "nvidia.com/mps-memory"
GPU, GPUMEM, PERCENT, CORES = (f"nvidia.com/{word}" for word in ("gpu", "gpumem", "gpumem-percentage", "gpucores"))
NUMBER, VGPU_MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"
REF = {"fieldRef": {"fieldPath": f"metadata.annotations['{VISIBLE}']"}}
TAKES: dict[str, Any] = {"name": "main", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": REF}]}


def containers(*limits: dict[str, Any], **more: Any) -> dict[str, Any]:
    named = [{"name": f"c{place}", "resources": {"limits": each}, **more} for place, each in enumerate(limits)]
    return {"containers": named}


def request(spec: dict[str, Any], notes: dict[str, str] | None = None) -> Request:
    asked = OWN_NAMES.asked(spec, notes or {})
    assert asked is not None
    return asked.request(Request(devices=0))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({CORE: "50", MEMORY: "80"}, (1, 500, 20480, CORE)),
        ({CORE: 200}, (2, 1000, None, CORE)),
        ({MPS_CORE: "30", MPS_MEMORY: "4000"}, (1, 300, 4000, MPS_CORE)),
        ({GPU: "1", GPUMEM: "4000", CORES: "30"}, (1, 300, 4000, GPUMEM)),
        ({GPU: "2", PERCENT: "50"}, (2, 500, None, GPUMEM)),
        ({NUMBER: "1", VGPU_MEMORY: "4000", "volcano.sh/vgpu-cores": "25"}, (1, 250, 4000, NUMBER)),
        ({NUMBER: "2"}, (2, 1000, None, NUMBER)),
    ],
)
def test_each_name_is_an_ordinary_request_for_a_part(limits: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = request(containers({"cpu": "1"}, limits))
    assert (found.devices, found.share_milli, found.memory_mib, found.offered_as) == expected


def test_mps_is_for_volta_or_newer_and_cuda_11_5() -> None:
    found = request(containers({MPS_CORE: "30"}))
    assert (found.means, found.min_compute, found.min_cuda) == (Means.MPS, (7, 0), (11, 5))


def test_memory_alone_decides_the_share_once_the_device_is_known() -> None:
    found = request(containers({GPU: "1", GPUMEM: "4000"}))
    assert (found.share_of_memory, found.memory_mib) == (True, 4000)


def test_a_site_says_what_a_unit_is(tmp_path: Any) -> None:
    names = tmp_path / "names.toml"
    names.write_text(
        f'[[resource]]\nkey = "{MPS_MEMORY}"\ndataType = "integer"\ngroup = "mps"\nlimits = "optional"\n'
        f'requests = "fromLimits"\n[resource.grants]\nquantity = "memory"\nunit = 1024\nneeds = "{MPS_CORE}"\n'
    )
    asked = PodShares(load_catalogue([names])).asked(containers({MPS_CORE: "30", MPS_MEMORY: "4"}), {})
    assert asked is not None
    assert asked.ask.memory_mib == 4096


def test_annotations_ask_for_a_part_that_the_container_takes_itself() -> None:
    half = request({"containers": [{"name": "side"}, TAKES]}, {"gpu-fraction": "0.5"})
    assert (half.devices, half.share_milli, half.offered_as) == (1, 500, "corral.dev/devices")
    memory = request({"containers": [TAKES]}, {"gpu-memory": "2000", "gpu-fraction-num-devices": "2"})
    assert (memory.devices, memory.memory_mib, memory.share_of_memory) == (2, 2000, True)


def test_a_pod_without_such_names_asks_for_no_part() -> None:
    assert OWN_NAMES.asked(containers({GPU: "2"}, {"cpu": "1"}, {CORE: "0"}), {}) is None


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({CORE: "50"}, f"{CORE}: needs {MEMORY}, too; give both"),
        ({CORE: "150", MEMORY: "1"}, f"{CORE}: 150 is neither below 100 nor a multiple of it; ask for 100 or 200"),
        ({MEMORY: "10"}, f"{MEMORY}: needs {CORE}, too"),
        ({MPS_CORE: "101"}, f"{MPS_CORE}: 101 is too much; the most that can be asked for is 100"),
        ({MPS_MEMORY: "10"}, f"{MPS_MEMORY}: needs {MPS_CORE}, too"),
        ({GPUMEM: "10"}, f"{GPUMEM}: HAMi counts GPUs by {GPU}; add {GPU}: 1"),
        ({GPU: "1", GPUMEM: "10", PERCENT: "10"}, "cannot be used together with"),
        ({VGPU_MEMORY: "10"}, f"{VGPU_MEMORY}: Volcano counts GPUs by {NUMBER}; add {NUMBER}: 1"),
        ({CORE: "50", MEMORY: "1", MPS_CORE: "50"}, "are of different software; ask for those of one"),
        ({CORE: "-50", MEMORY: "1"}, f"{CORE}: -50 is below zero"),
        ({CORE: "lots", MEMORY: "1"}, f"{CORE}: 'lots' is no quantity"),
        ({CORE: "9" * 30, MEMORY: "1"}, "is not a number"),
        ({CORE: ["50"], MEMORY: "1"}, "is no quantity"),
        ({CORE: "50", MEMORY: "1", GPU: "1"}, f"{CORE}: it asks for whole GPUs, too ({GPU}); remove one of the two"),
    ],
)
def test_what_cannot_be_given_is_refused_in_words(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as refused:
        OWN_NAMES.asked(containers(limits), {})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({"gpu-fraction": "1"}, "gpu-fraction: 1 is no part of a GPU; write a number above 0 and below 1"),
        ({"gpu-fraction": "0"}, "is no part of a GPU"),
        ({"gpu-fraction": "-0.5"}, "is not above zero"),
        ({"gpu-fraction": "half"}, "'half' is not a number"),
        ({"gpu-fraction": "0.001"}, "shares are multiples of 0.01 GPU"),
        ({"gpu-memory": "2Gi"}, "gpu-memory: '2Gi' is no number from 1 to"),
        ({"gpu-memory": "9" * 5000}, "is no number from 1 to"),
        ({"gpu-fraction": "0.5", "gpu-memory": "1"}, "gpu-memory asks for a part, too; remove one"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, "is no number from 1 to 256"),
        ({"gpu-fraction-num-devices": "2"}, "it needs gpu-fraction or gpu-memory"),
    ],
)
def test_annotations_without_sense_are_refused_in_words(notes: dict[str, str], words: str) -> None:
    with pytest.raises(Refused) as refused:
        OWN_NAMES.asked({"containers": [TAKES]}, notes)
    assert words in str(refused.value)


def test_an_annotation_alone_would_give_a_container_nothing_and_says_what_to_ask_for() -> None:
    with pytest.raises(Refused, match="asks the kubelet for no GPU") as refused:
        OWN_NAMES.asked(containers({}), {"gpu-fraction": "0.5"})
    assert f"{CORE}: 50 with {MEMORY}: 40" in str(refused.value)
    assert f"NVIDIA_VISIBLE_DEVICES with valueFrom.fieldRef.fieldPath metadata.annotations['{VISIBLE}']" in str(
        refused.value
    )


def test_one_container_has_all_that_a_pod_asks_for_and_no_init_container_has_any() -> None:
    half = {CORE: "50", MEMORY: "1"}
    with pytest.raises(Refused, match="containers c0 and c1 both ask for parts of GPUs"):
        OWN_NAMES.asked(containers(half, half), {})
    with pytest.raises(Refused, match="its init container c0 asks for it"):
        OWN_NAMES.asked({"initContainers": containers(half)["containers"]}, {})
    with pytest.raises(Refused, match="gpu-fraction: its containers ask for"):
        OWN_NAMES.asked(containers(half), {"gpu-fraction": "0.5"})


def test_gpu_manager_divides_gpus_for_cuda_below_12_4_only() -> None:
    new = {"env": [{"name": "CUDA_VERSION", "value": "12.4.1"}]}
    with pytest.raises(Refused, match="and GPU-Manager divides GPUs for CUDA below"):
        OWN_NAMES.asked(containers({CORE: "50", MEMORY: "1"}, **new), {})
    assert OWN_NAMES.asked(containers({CORE: "100"}, **new), {}) is not None
    old = {"env": [{"name": "CUDA_VERSION", "value": "12.3.2"}]}
    assert OWN_NAMES.asked(containers({CORE: "50", MEMORY: "1"}, **old), {}) is not None


def test_what_a_pod_has_is_read_by_the_same_reader_with_the_devices_that_its_annotations_name() -> None:
    spec = containers({CORE: "50", MEMORY: "4"}, {CORE: "200"})
    notes = {"tencent.com/predicate-gpu-idx-0": "3", "tencent.com/predicate-gpu-idx-1": "0,1"}
    assert OWN_NAMES.held(spec, notes) == (
        HeldShare("3", 500, 1024),
        HeldShare("0", 1000, None),
        HeldShare("1", 1000, None),
    )
    assert OWN_NAMES.held(spec, {}) == (HeldShare(None, 500, 1024), HeldShare(None, 1000, None))
    hami = containers({}, {GPU: "1", GPUMEM: "4000"})
    given = {"hami.io/vgpu-devices-allocated": ";GPU-a,NVIDIA,4000,0:;"}
    assert OWN_NAMES.held(hami, given) == (HeldShare("GPU-a", None, 4000),)


AMOUNT = st.one_of(
    st.integers(-(10**40), 10**40), st.text(max_size=30), st.none(), st.booleans(), st.lists(st.integers(), max_size=2)
)
NAMES = st.sampled_from([GPU, "cpu", *(name for layer, _ in share_layers() for name in layer.resources)])
LIMITS = st.dictionaries(NAMES, AMOUNT, max_size=4)
NOTES = st.dictionaries(
    st.sampled_from(
        [
            *("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "tencent.com/predicate-gpu-idx-0"),
            *("hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new"),
        ]
    ),
    st.text(max_size=40),
    max_size=4,
)


def request_or_words(spec: dict[str, Any], notes: dict[str, str]) -> Request | str | None:
    try:
        asked = OWN_NAMES.asked(spec, notes)
    except Refused as refused:
        return str(refused)
    return None if asked is None else asked.request(Request(devices=0))


@given(st.lists(st.one_of(LIMITS, st.text(max_size=3)), max_size=3), NOTES)
def test_whatever_a_pod_says_is_a_bounded_request_or_a_sentence(limits: list[Any], notes: dict[str, str]) -> None:
    spec = containers(*limits)
    found = request_or_words(spec, notes)
    if isinstance(found, str):
        assert found.isprintable()
        assert len(found) < 600
    elif found is not None:
        assert found.devices >= 0
        assert 0 < found.share_milli <= 1000
        assert found.memory_mib is None or 0 < found.memory_mib < 10**18
    item = {"metadata": {"name": "p", "namespace": "n", "annotations": notes}, "spec": {**spec, "nodeName": "x"}}
    occupant = keep_occupant(item)
    assert occupant is not None
    for share in occupant.shares:
        assert share.share_milli is None or 0 < share.share_milli <= 1000
