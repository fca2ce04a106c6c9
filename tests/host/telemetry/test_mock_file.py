"""mock-accelerator.toml: Backend.ai's format with keys of our own, and errors that help."""

from pathlib import Path

import pytest

from corral.core.model.devices.device import DeviceProcess, Link, Partition
from corral.core.model.errors import Refused
from corral.host.telemetry.mock_cluster import read_mock_cluster
from corral.host.telemetry.mock_file import Load, MockBox

BACKEND_AI = """\
slot_name = "cuda"
device_plugin_name = "CUDADevice"
devices = [
  { mother_uuid = "c59395cd-01", model_name = "CUDA GPU", numa_node = 0, subproc_count = 108, memory_size = "2G", is_mig_device = false },
  { mother_uuid = "c59395cd-02", model_name = "CUDA GPU", numa_node = -1, subproc_count = 108, memory_size = "40G", is_mig_device = false },
  { mother_uuid = "c59395cd-03", model_name = "MIG-20g", numa_node = 0, subproc_count = 56, memory_size = "20G", is_mig_device = true },
  { mother_uuid = "c59395cd-03", model_name = "MIG-10g", numa_node = 0, subproc_count = 28, memory_size = "10G", is_mig_device = true },
]

[attributes]
nvidia_driver = "450.0.0"
cuda_runtime = "11.0"

[formats.shares]
human_readable_name = "fGPU"
number_format = { binary = false, round_length = 2 }
"""  # noqa: E501


def read(tmp_path: Path, text: str) -> MockBox:
    path = tmp_path / "mock.toml"
    path.write_text(text)
    return read_mock_cluster(path).nodes[0].box


def row(extra: str, uuid: str = "a") -> str:
    return f'[[devices]]\nmother_uuid = "{uuid}"\nmodel_name = "GPU"\nmemory_size = "8G"\n{extra}\n'


def test_a_file_of_backend_ai_is_read_as_it_is(tmp_path: Path) -> None:
    box = read(tmp_path, BACKEND_AI)
    assert [mock.device.uuid for mock in box.devices] == ["c59395cd-01", "c59395cd-02", "c59395cd-03"]
    assert [mock.device.index for mock in box.devices] == [0, 1, 2]
    assert [mock.device.numa_node for mock in box.devices] == [0, None, 0]
    assert (box.driver_version, box.cuda_version) == ("450.0.0", (11, 0))


def test_slices_that_share_a_mother_are_one_device_with_partitions(tmp_path: Path) -> None:
    device = read(tmp_path, BACKEND_AI).devices[2].device
    assert device.mig_enabled
    assert device.memory_mib == 30 * 1024
    assert device.partitions == (
        Partition("MIG-c59395cd-03/2/0", "20g", 20 * 1024),
        Partition("MIG-c59395cd-03/3/0", "10g", 10 * 1024),
    )


@pytest.mark.parametrize(
    ("name", "model", "profile"),
    [
        ("NVIDIA A100-SXM4-80GB-1g.10gb", "NVIDIA A100-SXM4-80GB", "1g.10gb"),
        ("NVIDIA H100-1g.12gb+me", "NVIDIA H100", "1g.12gb+me"),
        ("MIG-20g", "MIG", "20g"),
        ("CUDA GPU-small", "CUDA GPU", "small"),
    ],
)
def test_the_model_of_a_slice_may_have_hyphens_of_its_own(tmp_path: Path, name: str, model: str, profile: str) -> None:
    text = row("is_mig_device = true").replace('model_name = "GPU"', f'model_name = "{name}"')
    device = read(tmp_path, text).devices[0].device
    assert (device.model, device.partitions[0].profile) == (model, profile)


def test_our_own_keys_describe_what_a_device_does(tmp_path: Path) -> None:
    box = read(
        tmp_path,
        row(
            'utilization_pct = 40\nmemory_used = "1G"\ntemperature_c = 55\npower_w = 120.5\n'
            'compute_capability = "8.6"\nunreadable = ["power_w"]\nlost = true\nload = "follow-jobs"\n'
            'processes = [{ pid = 42, user = "alice", memory = "2G" }]'
        ),
    )
    mock = box.devices[0]
    assert mock.device.compute_capability == (8, 6)
    assert (mock.utilization_pct, mock.temperature_c, mock.power_mw) == (40, 55, 120_500)
    assert mock.unreadable == {"power_w"}
    assert (mock.lost, mock.load) == (True, Load.FOLLOW_JOBS)
    assert mock.processes == (DeviceProcess(42, 2048, "alice"),)


def test_what_processes_hold_is_in_use_even_if_the_file_says_less(tmp_path: Path) -> None:
    box = read(tmp_path, row('processes = [{ pid = 42, memory = "2G" }, { pid = 43, memory = "1G" }]'))
    assert box.devices[0].memory_used_mib == 3072


def test_a_link_one_way_is_a_link_both_ways(tmp_path: Path) -> None:
    links = 'links = ["b", { peer = 2, kind = "pcie", lanes = 1 }]'
    box = read(tmp_path, row(links) + row("", "b") + row("links = [1]", "c"))
    assert [mock.device.links for mock in box.devices] == [
        (Link("b", "nvlink"), Link("c", "pcie")),
        (Link("a", "nvlink"), Link("c", "nvlink")),
        (Link("a", "pcie"), Link("b", "nvlink")),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (row("memory_usd = 3"), r"line 5: devices\[0\]: memory_usd is not a known key; did you mean 'memory_used'"),
        ("slot_nam = 'cuda'\n", r"line 1: slot_nam is not a known key; did you mean 'slot_name'"),
        (row("") + "[formts.shares]\nx = 1\n", r"line 6: formts is not a known key; did you mean 'formats'"),
        (row("") + row("utilization_pct = 140", "b"), r"line 10: devices\[1\]: utilization_pct must be a percentage"),
        (row('memory_used = "20"'), r"line 5: devices\[0\]: memory_used must be a size with a unit.*not '20'"),
        (row('memory_used = "9G"'), r"line 5: .*9216 MiB are in use on a device of 8192 MiB"),
        (row("") + row(""), r"line 7: devices\[1\]: a is there already"),
        (row('unreadable = ["power"]'), r"line 5: .*'power' is not a reading; did you mean 'power_w'"),
        (row('load = "busy"'), r"load must be one of idle, random, follow-jobs, not 'busy'"),
        (row('processes = [{ pid = 0 }]'), r"line 5: devices\[0\].processes\[0\]: pid must be a process id"),
        (row('processes = [{ pid = 1, usr = "x" }]'), r"processes\[0\]: usr is not a known key; did you mean 'user'"),
        (row('links = ["z"]'), r"line 5: .*a link must name .* not 'z'"),
        (row('links = ["a"]'), r"no link to itself"),
        (row("lost = 1"), r"lost must be true or false, not 1"),
        (row("compute_capability = 8"), r"compute_capability must be a version"),
        ('[[devices]]\nmodel_name = "GPU"\n', r"line 1: devices\[0\]: mother_uuid is missing"),
        (row("") + '\n[[devices]]\nmodel_name = "GPU"\n', r"line 7: devices\[1\]: mother_uuid is missing"),
        ('devices = [\n{ mother_uuid = "a", model_name = "b" },\n]', r"line 2: devices\[0\]: memory_size is missing"),
        (row("") + "[attributes]\ncuda_runtime = 12.4\n", r"line 7: attributes: cuda_runtime must be a version"),
        ("devices = 3", r"line 1: devices must be a list of tables, not 3"),
        ("devices = [3]", r"devices must be a list of tables, and 3 is none"),
        ("devices = ]", r"is not TOML: .*line 1"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_line_and_what_would_do(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        read(tmp_path, text)


def test_a_key_in_a_string_or_a_comment_does_not_mislead_the_line(tmp_path: Path) -> None:
    text = '# lst = 1\nslot_name = "lst = 2"\n' + row("lst = true")
    with pytest.raises(Refused, match=r"line 7: .*lst is not a known key"):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"nowhere\.toml cannot be read: No such file"):
        read_mock_cluster(tmp_path / "nowhere.toml")
