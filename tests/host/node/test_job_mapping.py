"""What dcgm-exporter's `--hpc-job-mapping-dir` reads, and a directory that is not as it should be."""

import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.config import load_settings
from corral.core.model.devices.device import Device
from corral.core.model.errors import Refused
from corral.core.model.home import Home
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.core.model.runs.launch import DeviceUse, Launch, LaunchPhase
from corral.core.ports.node import Keep
from corral.host.node.files.job_mapping import JobMapping
from tests.host.node.conftest import CONFIG, Host, a_launch, ended, until

WHOLE = Device("GPU-3", 3, "Mock A100", 81920)
SLICE = Device("MIG-1", 7, "Mock A100", 20480, mig_profile="2g.20gb", parent_uuid="GPU-3")


def on(number: int, *indices: int, rank: int = 0) -> Launch:
    """A launch of the job with this number, on the devices with these indices."""
    launch = a_launch(number, "true", rank=rank)
    devices = [replace(WHOLE, uuid=f"GPU-{index}", index=index) for index in indices]
    return replace(launch, uses=tuple(use(device, launch) for device in devices))


def use(device: Device, launch: Launch, whole: Device | None = None) -> DeviceUse:
    return DeviceUse(device, whole, (), Tenant(launch.job.id, "alice", Grant(device.uuid, 500)))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


@pytest.fixture
def mapping(directory: Path) -> JobMapping:
    return JobMapping(directory)


def told(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(directory.iterdir())}


def test_each_device_has_the_ids_of_its_jobs_a_line_each(mapping: JobMapping, directory: Path) -> None:
    mapping.add(on(17, 0, 2))
    mapping.add(on(18, 2))
    assert told(directory) == {"0": "17\n", "2": "17\n18\n"}


def test_a_device_that_is_free_again_has_no_file(mapping: JobMapping, directory: Path) -> None:
    mapping.add(on(17, 0))
    mapping.add(on(18, 0))
    mapping.drop(on(17).id)
    assert told(directory) == {"0": "18\n"}
    mapping.drop(on(18).id)
    mapping.drop(on(18).id)
    assert told(directory) == {}


def test_members_of_a_gang_on_one_device_are_one_job(mapping: JobMapping, directory: Path) -> None:
    mapping.add(on(17, 0))
    mapping.add(on(17, 0, rank=1))
    assert told(directory) == {"0": "17\n"}
    mapping.drop(on(17).id)
    assert told(directory) == {"0": "17\n"}


def test_a_job_on_a_slice_is_told_of_the_whole_device(mapping: JobMapping, directory: Path) -> None:
    launch = a_launch(17, "true")
    mapping.add(replace(launch, uses=(use(SLICE, launch, WHOLE),)))
    assert told(directory) == {"3": "17\n"}


def test_what_was_told_before_and_holds_no_more_is_removed(mapping: JobMapping, directory: Path) -> None:
    mapping.add(on(17, 0, 1))
    JobMapping(directory).restore([on(19, 1, 2)])
    assert told(directory) == {"1": "19\n", "2": "19\n"}


def test_files_of_others_are_left(mapping: JobMapping, directory: Path) -> None:
    directory.mkdir()
    others = {"5": "a diary\n", "notes": "17\n", "8": "17", "-1": "17\n"}
    for name, text in others.items():
        (directory / name).write_text(text)
    (directory / "6").symlink_to(directory / "notes")
    (directory / "7").mkdir()
    os.mkfifo(directory / "9")
    mapping.restore([])
    assert {path.name for path in directory.iterdir()} == {*others, "6", "7", "9"}


def test_everyone_can_read_the_files_whatever_the_umask_of_the_server(mapping: JobMapping, directory: Path) -> None:
    before = os.umask(0o077)
    try:
        mapping.add(on(17, 0))
    finally:
        os.umask(before)
    assert stat.S_IMODE((directory / "0").stat().st_mode) == 0o644
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755


def test_a_draft_that_was_left_and_a_link_in_its_place_lead_nowhere(mapping: JobMapping, directory: Path) -> None:
    directory.mkdir()
    precious = directory.parent / "precious"
    precious.write_text("kept")
    for name in (".corral-draft", "0"):
        (directory / name).symlink_to(precious)
    mapping.add(on(17, 0))
    assert precious.read_text() == "kept"
    assert told(directory) == {"0": "17\n"}
    assert not (directory / "0").is_symlink()


@pytest.mark.parametrize("wrong", ["link", "writable", "file", "missing", "another's"])
def test_a_directory_that_others_may_have_made_is_refused_once_and_in_words(
    wrong: str, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    real = directory.parent / "real"
    real.mkdir()
    match wrong:
        case "link":
            directory.symlink_to(real)
        case "writable":
            directory.mkdir()
            directory.chmod(0o777)
        case "file":
            directory.write_text("")
        case "missing":
            directory = directory / "deeper"
        case _:
            if os.geteuid() != 0:
                pytest.skip("only root can make a directory another's")
            directory.mkdir()
            os.chown(directory, 65534, 65534)
    mapping = JobMapping(directory)
    with caplog.at_level(logging.WARNING):
        for number in (17, 18):
            mapping.add(on(number, 0))
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(f"jobs are not listed in {directory} (job_mapping_dir): ")
    assert list(real.iterdir()) == []
    assert not directory.is_dir() or list(directory.iterdir()) == []


def test_once_the_directory_is_as_it_should_be_the_next_change_is_told(directory: Path) -> None:
    directory.symlink_to(directory.parent)
    mapping = JobMapping(directory)
    mapping.add(on(17, 0))
    directory.unlink()
    mapping.add(on(18, 0))
    assert told(directory) == {"0": "17\n18\n"}


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "x" * 300])
def test_a_name_that_no_directory_can_have_keeps_no_job_from_starting(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    mapping = JobMapping(tmp_path / name)
    with caplog.at_level(logging.WARNING):
        mapping.add(on(17, 0))
        mapping.restore([])
    assert len(caplog.messages) == 1
    assert caplog.messages[0].isprintable()


def test_without_the_setting_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mapping = JobMapping(None)
    mapping.restore([on(17, 0)])
    mapping.add(on(18, 0))
    mapping.drop(on(18).id)
    assert list(tmp_path.iterdir()) == []


def test_the_setting_is_a_path_from_the_root_on(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("job_mapping_dir: /run/corral-jobs\n")
    assert load_settings(file).job_mapping_dir == "/run/corral-jobs"
    file.write_text("job_mapping_dir: corral-jobs\n")
    with pytest.raises(Refused, match="'corral-jobs' is not an absolute path; write it from / on"):
        load_settings(file)


@pytest.fixture
def host(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr("tests.host.node.conftest.CONFIG", f"{CONFIG}job_mapping_dir: {home.root}/jobs\n")
    (home.root / "jobs").mkdir()
    host = Host(home)
    yield host
    ended(host)


def test_a_node_tells_of_a_launch_from_its_start_to_its_end_and_over_a_restart(host: Host) -> None:
    directory = host.home.root / "jobs" / "here"
    launch = a_launch(17, "sleep", "100", uuid="GPU-0")
    host.node.launches.launch(launch)
    host.wait(launch.id, LaunchPhase.RUNNING)
    assert told(directory) == {"0": "17\n"}
    host.end()
    (directory / "1").write_text("16\n")
    host.start()
    host.node.launches.reconcile((launch,), ())
    assert told(directory) == {"0": "17\n"}
    host.node.launches.stop(launch.id)
    until(lambda: host.phase(launch.id).over, "it ends")
    host.node.launches.forget(launch.id, keep=Keep.NOTHING)
    assert told(directory) == {}
