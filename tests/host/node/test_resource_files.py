"""The resource file of a job says what of its node's disk it may fill, and what its container sees of the host."""

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
    files = ResourceFiles(scratch)
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
