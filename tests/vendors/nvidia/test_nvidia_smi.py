"""The nvidia-smi source: what the command prints, in all its forms."""

from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.model.errors import BackendFailed
from corral.vendors.nvidia.nvidia_smi import NvidiaSmiSource, open_nvidia_smi
from tests.host.telemetry.rigs import smi_rig, smi_uuid, write_smi

READINGS = "0, GPU-a, NVIDIA A100, 81920, 10, 81910, 5, 40, 61.5, 400.00, Default, 7, 1410, 1593, 0x0000000000000004\n"


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    write_smi(tmp_path)
    (tmp_path / "readings.csv").write_text(READINGS)
    return tmp_path


def source_of(directory: Path) -> NvidiaSmiSource:
    return NvidiaSmiSource(ManualClock(), command=str(directory / "nvidia-smi"))


def test_the_inventory_holds_what_the_command_tells(tmp_path: Path) -> None:
    node = smi_rig(tmp_path).source.node()
    device = node.devices[1]
    assert (node.driver_version, node.cuda_version) == ("550.54.15", (12, 4))
    assert (device.uuid, device.compute_capability, device.pci_bus_id) == (smi_uuid(1), (8, 0), "00000000:11:00.0")
    assert (device.persistence, device.ecc, device.mig_enabled, device.power_limit_mw) == (True, True, False, 400_000)


@pytest.mark.parametrize("form", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "ERR!", "", "nan", "what?"])
def test_every_unreadable_form_is_none(smi: Path, form: str) -> None:
    (smi / "readings.csv").write_text(
        f"0, GPU-a, NVIDIA A100, 81920, {', '.join([form] * 5)}, 400, Default, {', '.join([form] * 4)}\n"
    )
    sample = source_of(smi).sample()[0]
    assert sample.fault is None
    assert sample.memory_total_mib == 81920
    assert {
        sample.memory_used_mib, sample.memory_free_mib, sample.utilization_pct, sample.temperature_c, sample.power_mw,
        sample.memory_bandwidth_pct, sample.sm_clock_mhz, sample.mem_clock_mhz, sample.throttle, sample.xid,
    } == {None}  # fmt: skip


def test_a_release_that_does_not_know_the_newer_fields_is_asked_for_fewer(smi: Path) -> None:
    (smi / "details.csv").write_text('Field "compute_cap" is not a valid field to query.\n')
    (smi / "fewer-details.csv").write_text("GPU-a, 470.1.2, 00000000:41:00.0, Enabled\n")
    (smi / "nvidia-smi").write_text(
        (smi / "nvidia-smi").read_text().replace("cat details.csv ;;", "cat details.csv; exit 2 ;;")
    )
    device = source_of(smi).found().devices[0]
    assert (device.pci_bus_id, device.compute_capability) == ("00000000:41:00.0", None)


@pytest.mark.parametrize(
    ("code", "words"), [(9, "driver is not loaded"), (6, "no such device"), (15, "fallen off the bus"), (3, "exit 3")]
)
def test_an_exit_code_is_explained(smi: Path, code: int, words: str) -> None:
    (smi / "readings.csv").write_text("NVIDIA-SMI has failed\n")
    (smi / "exit-code").write_text(str(code))
    with pytest.raises(BackendFailed, match=words):
        source_of(smi).found()


def test_when_the_driver_goes_the_known_devices_say_why(smi: Path) -> None:
    source = source_of(smi)
    source.found()
    (smi / "readings.csv").write_text("")
    (smi / "exit-code").write_text("9")
    assert source.sample()[0].fault == "the NVIDIA driver is not loaded (nvidia-smi exit 9)"


def test_rows_printed_beside_a_lost_device_are_still_read(smi: Path) -> None:
    source = source_of(smi)
    source.found()
    (smi / "exit-code").write_text("15")
    assert source.sample()[0].memory_used_mib == 10


def test_processes_that_cannot_be_listed_are_not_taken_for_none(smi: Path) -> None:
    script = (smi / "nvidia-smi").read_text().replace("cat apps.csv ;;", "echo Insufficient Permissions; exit 4 ;;")
    (smi / "nvidia-smi").write_text(script)
    sample = source_of(smi).sample()[0]
    assert sample.processes is None
    assert sample.utilization_pct == 5


def test_a_process_whose_memory_is_not_told_is_listed_without_it(smi: Path) -> None:
    (smi / "apps.csv").write_text("GPU-a, 4213, [N/A]\n")
    processes = source_of(smi).sample()[0].processes
    assert processes is not None
    assert [(process.pid, process.memory_mib) for process in processes] == [(4213, None)]


def test_a_missing_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendFailed, match="no nvidia-smi on the PATH"):
        open_nvidia_smi(ManualClock())


def test_a_command_on_the_path_is_found(monkeypatch: pytest.MonkeyPatch, smi: Path) -> None:
    monkeypatch.setenv("PATH", f"{smi}:/usr/bin:/bin")
    assert [device.uuid for device in open_nvidia_smi(ManualClock()).found().devices] == ["GPU-a"]


def test_clocks_and_why_they_are_not_higher_are_read(smi: Path) -> None:
    sample = source_of(smi).sample()[0]
    assert (sample.memory_bandwidth_pct, sample.sm_clock_mhz, sample.mem_clock_mhz) == (7, 1410, 1593)
    assert sample.throttle == 4
    assert sample.xid is None


def test_a_release_without_the_newer_readings_gives_the_older_ones(smi: Path) -> None:
    refuse = 'case "$1" in *clocks*) echo "Field \\"clocks.sm\\" is not a valid field to query."; exit 2 ;; esac'
    script = (smi / "nvidia-smi").read_text().replace('case "$1"', f'{refuse}\ncase "$1"', 1)
    (smi / "nvidia-smi").write_text(script)
    (smi / "readings.csv").write_text("0, GPU-a, NVIDIA A100, 81920, 10, 81910, 5, 40, 61.5, 400.00, Default\n")
    sample = source_of(smi).sample()[0]
    assert (sample.utilization_pct, sample.sm_clock_mhz, sample.throttle) == (5, None, None)
