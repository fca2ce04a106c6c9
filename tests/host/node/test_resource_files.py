"""The resource file of a job says what of its node's disk it may fill, and what its container sees of the host."""

import os
from pathlib import Path

import pytest

from corral.core.model.jobs.container import Container, Volume, VolumeKind
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.runs.launch import Launch
from corral.core.sharing.resource_txt import ResourceFile, parse
from corral.host.node.files.resource_files import ResourceFiles

VOLUMES = (
    Volume(VolumeKind.HOST_PATH, "/data/sets", "/sets", read_only=True),
    Volume(VolumeKind.HOST_PATH, "/data/out", "/out"),
    # A comma parts two entries, so this is none.
    Volume(VolumeKind.HOST_PATH, "/data/a,/etc:/etc:rw", "/odd"),
)


def written(scratch: Path, *launches: Launch) -> ResourceFile:
    files = ResourceFiles(scratch, 60.0)
    for launch in launches:
        files.write(launch)
    text = (scratch / "1" / "config" / "resource.txt").read_text()
    file = parse(text)
    assert isinstance(file, ResourceFile), text
    return file


def launches(container: Container | None, members: int, disk_mib: int = 0) -> list[Launch]:
    spec = JobSpec("alice", ("true",), request=Request(disk_mib=disk_mib), container=container, workdir="/")
    return [Launch(f"1.{rank}", Job("1", 1, spec, 0.0), (), rank=rank, members=members) for rank in range(members)]


@pytest.mark.parametrize(("members", "size"), [(1, "2048m"), (2, "4096m")])
def test_the_size_of_the_scratch_is_the_disk_that_the_members_here_have_asked_for(
    tmp_path: Path, members: int, size: str
) -> None:
    assert written(tmp_path, *launches(None, members, disk_mib=2048)).scratch_size == size


def test_the_mounts_are_the_volumes_of_the_container(tmp_path: Path) -> None:
    file = written(tmp_path, *launches(Container("repo/train:1", VOLUMES), 1))
    assert file.mounts == ("/data/sets:/sets:ro", "/data/out:/out:rw")


def test_a_process_that_asked_for_no_disk_has_neither(tmp_path: Path) -> None:
    file = written(tmp_path, *launches(None, 1))
    assert (file.scratch_size, file.mounts) == ("0m", ())


def finished(files: ResourceFiles, scratch: Path, *, keep: bool) -> None:
    """A job has run, has saved a checkpoint, and has ended."""
    (launch,) = launches(None, 1)
    files.write(launch)
    (scratch / "1/checkpoint").mkdir(exist_ok=True)
    (scratch / "1/checkpoint/latest").write_text("state")
    (scratch / "1/cache").write_text("large")
    files.drop(launch.id, "1")
    files.tidy("1", keep_checkpoints=keep)


def names(scratch: Path) -> list[str]:
    return sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*"))


KEPT = [".1.kept", "1", "1/checkpoint", "1/checkpoint/latest"]


def test_only_the_checkpoints_of_a_job_that_ended_are_kept_and_for_their_time(tmp_path: Path) -> None:
    files = ResourceFiles(tmp_path, 60.0)
    finished(files, tmp_path, keep=True)
    files.remove_expired()
    assert names(tmp_path) == KEPT
    assert (tmp_path / "1").stat().st_mode & 0o777 == 0o700
    os.utime(tmp_path / ".1.kept", (0, 0))
    files.remove_expired(every_s=3600.0)
    assert names(tmp_path) == KEPT
    files.remove_expired()
    assert names(tmp_path) == []


def test_nothing_is_kept_of_a_job_that_succeeded_or_on_a_site_that_keeps_nothing(tmp_path: Path) -> None:
    finished(ResourceFiles(tmp_path, 60.0), tmp_path, keep=False)
    assert names(tmp_path) == []
    finished(ResourceFiles(tmp_path, 0.0), tmp_path, keep=True)
    assert names(tmp_path) == []


def test_the_next_agent_keeps_what_is_kept_and_of_a_job_whose_end_it_does_not_know(tmp_path: Path) -> None:
    finished(ResourceFiles(tmp_path, 60.0), tmp_path, keep=True)
    (tmp_path / "2/checkpoint").mkdir(parents=True)
    (tmp_path / "3/cache").mkdir(parents=True)
    for step in ResourceFiles(tmp_path, 60.0).leftovers(()):
        step()
    assert names(tmp_path) == [".1.kept", ".2.kept", *KEPT[1:], "2", "2/checkpoint"]


def test_an_agent_that_ended_while_it_kept_checkpoints_has_not_lost_them(tmp_path: Path) -> None:
    finished(ResourceFiles(tmp_path, 60.0), tmp_path, keep=True)
    (tmp_path / "1").rename(tmp_path / ".1.123")
    for step in ResourceFiles(tmp_path, 60.0).leftovers(()):
        step()
    assert names(tmp_path) == KEPT


def test_a_job_that_runs_again_finds_what_was_kept_and_keeps_it_while_it_runs(tmp_path: Path) -> None:
    files = ResourceFiles(tmp_path, 60.0)
    finished(files, tmp_path, keep=True)
    os.utime(tmp_path / ".1.kept", (0, 0))
    files.write(launches(None, 1)[0])
    files.remove_expired()
    assert (tmp_path / "1/checkpoint/latest").read_text() == "state"
    assert not (tmp_path / ".1.kept").exists()


@pytest.mark.parametrize("kind", ["link", "file", "none"])
def test_a_link_or_a_file_in_place_of_the_directory_is_not_kept(tmp_path: Path, kind: str) -> None:
    outside, scratch = tmp_path / "outside", tmp_path / "scratch"
    outside.mkdir()
    (outside / "mine").touch()
    (scratch / "1").mkdir(parents=True)
    if kind == "link":
        (scratch / "1/checkpoint").symlink_to(outside)
    elif kind == "file":
        (scratch / "1/checkpoint").touch()
    else:
        (scratch / "1/other").touch()
    ResourceFiles(scratch, 60.0).tidy("1", keep_checkpoints=True)
    assert names(scratch) == []
    assert (outside / "mine").exists()
