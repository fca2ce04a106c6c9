import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from corral.cli.local import doctor
from corral.cli.local.doctor import (
    check_clock,
    check_devices,
    check_disk,
    check_home,
    check_killing,
    check_ledger,
    check_settings,
    check_supervisor,
)
from corral.cli.local.doctor_devices import devices_finding, nodes_finding
from corral.client import DeviceRow, NodeRow
from corral.core.ledger.store import open_ledger
from corral.core.model.home import Home
from corral.formatting.check_result import CheckResult
from corral.formatting.times import clock_time
from corral.host.runtimes.process import native_supervisor
from tests.vendors.nvidia.nvml_stub import NvmlStub, nvml_library, nvml_stub, stubbed_nvml

__all__ = ["nvml_library", "nvml_stub", "stubbed_nvml"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_gpus_that_a_driver_names_are_counted(home: Home, stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("devices 2")
    found = check_devices(home)
    assert (found.state, found.found.startswith("2 GPUs through nvml, driver ")) == ("ok", True)


def test_gpus_that_are_not_well_are_named_with_what_to_do(home: Home, stubbed_nvml: NvmlStub) -> None:
    home.config_file.write_text("max_temperature: 40\n")
    stubbed_nvml.say("devices 3", "gpu 0 lost 1", "gpu 1 temp 41", "gpu 2 temp 39")
    found = check_devices(home)
    assert found.state == "warning"
    assert re.match(
        r"2 GPUs through nvml, driver \S+; GPU 1 .* is quarantined: it is at 41°C; at most 40°C", found.found
    )
    assert "; GPU 0 cannot be opened: " in found.found
    assert "sudo dmesg | grep -i xid" in found.advice
    assert "check the cooling" in found.advice


def test_the_gpus_of_a_server_are_told_as_the_server_sees_them() -> None:
    rows = [
        DeviceRow("GPU-0", 0, "Mock", "cordoned", state_reason="fan"),
        DeviceRow("MIG-1", 1, "Mock", "unreadable", parent="GPU-1"),
        DeviceRow("GPU-1", 1, "Mock", "allocated"),
    ]
    found = devices_finding(rows, ", mock devices (--mock)", described=True)
    assert (found.state, found.found) == ("ok", "2 GPUs, mock devices (--mock); cordoned: GPU 0")
    lost = DeviceRow("GPU-2", 2, "Mock", "unreadable", state_reason="it is lost", state_since=1_800_000_000.0)
    found = devices_finding([*rows, lost], " through nvml")
    told = f"GPU 2 (Mock) is unreadable since {clock_time(1_800_000_000.0)}: it is lost"
    assert (found.state, found.found) == ("warning", f"3 GPUs through nvml; {told}")


def test_a_driver_that_hangs_does_not_hold_up_the_doctor(
    home: Home, stubbed_nvml: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "DRIVER_PATIENCE_S", 0.3)
    stubbed_nvml.say("devices 2", "gpu 0 hang 1")
    found = check_devices(home)
    assert (found.state, found.found) == ("warning", "the driver has not answered within 0.3 s")
    stubbed_nvml.say("devices 2")
    for late in [thread for thread in threading.enumerate() if thread.name == "driver"]:
        late.join(60)  # what it does when it comes back must not meet another test's driver


def test_a_home_that_is_not_there_yet_is_no_fault(tmp_path: Path) -> None:
    home = Home(tmp_path / "a" / "b")
    assert [check(home).state for check in (check_home, check_ledger, check_disk)] == ["ok"] * 3


def test_a_setting_that_no_server_would_take_is_a_fault_with_its_line(home: Home) -> None:
    assert check_settings(home).state == "ok"
    home.config_file.write_text("kill_grace: 5s\nstale_aftr: 30m\n")
    found = check_settings(home)
    assert (found.state, "line 2: stale_aftr is not a setting" in found.found) == ("failure", True)


def test_settings_that_cannot_be_meant_so_are_a_fault_and_ones_without_effect_are_told(home: Home) -> None:
    home.config_file.write_text("queues:\n- {name: a, parent: b}\n")
    found = check_settings(home)
    assert (found.state, "queue a: its parent 'b' does not exist" in found.found) == ("failure", True)
    home.config_file.write_text("alerts:\n- {name: hot, when: power_w > 300, to: [nobody]}\n")
    found = check_settings(home)
    assert (found.state, "alert hot: to: there is no channel 'nobody'" in found.found) == ("failure", True)
    home.config_file.write_text("channels: {ops: 'slack://x'}\n")
    home.config_file.chmod(0o600)
    found = check_settings(home)
    assert (found.state, "channels.ops: this URL is incomplete" in found.found) == ("failure", True)
    home.config_file.write_text("allocation:\n  strategy: hybrid\n")
    found = check_settings(home)
    assert (found.state, "reserved_ratio 0.3 has no effect yet" in found.found) == ("warning", True)


def test_another_number_of_gpus_than_expected_is_told(home: Home, stubbed_nvml: NvmlStub) -> None:
    stubbed_nvml.say("devices 2")
    home.config_file.write_text("cluster:\n  total_gpus: 32\n")
    found = check_settings(home)
    assert (found.state, "cluster.total_gpus expects 32 GPUs, but there are 2" in found.found) == ("warning", True)


def test_what_is_found_fits_the_terminal_and_paths_stay_whole(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = doctor.lines_of(CheckResult("GPUs", "warning", "some words and " * 9 + "/a/path-of/one", "do this " * 20))
    assert max(map(len, lines)) <= 80
    assert "/a/path-of/one" in "\n".join(lines)


def test_a_ledger_that_a_server_would_not_take_is_a_fault(home: Home) -> None:
    open_ledger(home.ledger_url).close()
    assert check_ledger(home).state == "ok"
    with closing(sqlite3.connect(home.root / "ledger.db")) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    newer = check_ledger(home)
    assert (newer.state, "written by a newer Corral" in newer.found) == ("failure", True)
    assert newer.advice.startswith("install that version again")
    with closing(sqlite3.connect(home.root / "ledger.db")) as raw, raw:
        raw.execute("DROP TABLE alembic_version")
    assert check_ledger(home).state == "failure"


def test_too_little_room_is_a_fault(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LEAST_FREE_MIB", 1 << 40)
    assert check_disk(home).state == "failure"


@pytest.mark.parametrize("check", [check_killing, check_clock])
def test_what_only_warns_says_what_to_do_when_it_does(check: doctor.Check, home: Home) -> None:
    found = check(home)
    assert found.state in ("ok", "warning")
    assert bool(found.advice) == (found.state == "warning")


def test_a_supervisor_that_is_not_compiled_is_a_fault_where_a_server_is_installed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (check_supervisor(home).state, check_supervisor(home).found) == ("ok", "compiled")
    monkeypatch.setattr(native_supervisor, "PATH", "/nowhere/corral-supervisor")
    missing = check_supervisor(home)
    assert (missing.state, missing.found) == (
        "failure",
        "the supervisor of jobs is not compiled: /nowhere/corral-supervisor is missing",
    )
    assert "make setup" in missing.advice
    monkeypatch.setattr(doctor, "missing_packages", lambda: ["uvicorn"])
    assert check_supervisor(home).state == "ok"


def test_nodes_that_take_no_jobs_are_named_with_what_to_do() -> None:
    ready = NodeRow("gpu-01")
    assert (nodes_finding([ready]).state, nodes_finding([ready]).found) == ("ok", "1 node, ready")
    closed = [NodeRow("gpu-02", "silent", "it has not answered"), NodeRow("gpu-03", "cordoned", "cordoned by root")]
    found = nodes_finding([ready, *closed])
    assert (found.state, found.found) == (
        "warning",
        "3 nodes; gpu-02 is silent: it has not answered; gpu-03 is cordoned: cordoned by root",
    )
    assert "corral agent" in found.advice
    assert "corral uncordon NODE" in found.advice
