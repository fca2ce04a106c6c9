"""The means of sharing come to what the machine can do of what the site asks for, and what it cannot is said."""

from pathlib import Path

import pytest

from corral.config import Settings
from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Means
from corral.core.model.errors import BackendFailed
from corral.vendors.nvidia.nvidia_sharing import NvidiaSharing, process_mode_warning
from corral.vendors.vendor import Host

ASKED = Settings(exclusive_process_mode=True)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the machine's nvidia-smi, the only program there is, was called with."""
    calls = tmp_path / "calls"
    calls.touch()
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return calls


def prepare(device: Device, settings: Settings, *, described: bool, by_root: bool = True) -> None:
    host = Host(Path("/"), settings, described=described, by_root=by_root)
    NvidiaSharing(host).drivers[Means.EXCLUSIVE].prepare(device)


def test_a_process_mode_that_can_be_set_is_set_without_a_warning(device: Device, calls: Path) -> None:
    assert process_mode_warning(ASKED, described=False, by_root=True) is None
    prepare(device, ASKED, described=False)
    assert calls.read_text() == "-i GPU-a -c EXCLUSIVE_PROCESS\n"


def test_without_nvidia_smi_devices_are_given_whole_without_the_mode_and_it_is_said(
    device: Device, calls: Path
) -> None:
    calls.with_name("nvidia-smi").unlink()
    warning = process_mode_warning(ASKED, described=False, by_root=True)
    assert warning is not None
    assert warning.startswith("exclusive_process_mode: nvidia-smi is not installed here")
    prepare(device, ASKED, described=False)


def test_a_server_that_is_not_roots_gives_devices_whole_without_the_mode_and_says_so(
    device: Device, calls: Path
) -> None:
    warning = process_mode_warning(ASKED, described=False, by_root=False)
    assert warning is not None
    assert warning.startswith("exclusive_process_mode: only root may set a compute mode")
    prepare(device, ASKED, described=False, by_root=False)
    assert calls.read_text() == ""


def test_a_mode_that_the_driver_refuses_fails_the_launch_with_what_to_do(device: Device, calls: Path) -> None:
    calls.with_name("nvidia-smi").write_text("#!/bin/sh\necho not supported here >&2\nexit 3\n")
    with pytest.raises(BackendFailed, match="not supported here; without exclusive_process_mode in config"):
        prepare(device, ASKED, described=False)


def test_described_devices_are_nothing_to_tell_a_driver_of(device: Device, calls: Path) -> None:
    assert process_mode_warning(ASKED, described=True, by_root=True) == (
        "exclusive_process_mode: described devices have no compute mode; "
        "devices are allocated whole without it, to one job and all its processes"
    )
    prepare(device, ASKED, described=True)
    assert calls.read_text() == ""


def test_a_site_that_asks_for_no_process_mode_is_not_warned() -> None:
    assert process_mode_warning(Settings(), described=True, by_root=True) is None
