"""A disk that nothing can be written to is told from one that has room, and what is wrong with it by name."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.host.runtimes.disk import Disks, explained


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small file system of its own, with these options."""
    places: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"disk{len(places)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(command, stderr=subprocess.DEVNULL).returncode:
            pytest.skip("this process may not mount a file system")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", place], check=True)


def test_a_disk_with_room_is_no_trouble_and_keeps_nothing_of_the_trial(tmp_path: Path) -> None:
    assert Disks((tmp_path, tmp_path / "gone")).trouble() is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_until_there_is_room(mounted: Callable[[str], Path], tmp_path: Path) -> None:
    place = mounted("size=256k")
    disks = Disks((tmp_path, place))
    assert disks.trouble() is None
    (place / "fill").write_bytes(bytes(240 * 1024))
    assert disks.trouble() == f"the disk that {place} is on is full; free some space there"
    assert [path.name for path in place.iterdir()] == ["fill"]
    (place / "fill").unlink()
    assert disks.trouble() is None


def test_a_disk_without_inodes_is_not_called_full(mounted: Callable[[str], Path]) -> None:
    place = mounted("size=1m,nr_inodes=4")
    for number in range(3):
        (place / str(number)).touch()
    assert Disks((place,)).trouble() == (
        f"the disk that {place} is on has no inodes left; remove files there, many small ones best"
    )


def test_a_read_only_file_system_is_told(mounted: Callable[[str], Path]) -> None:
    place = mounted("size=1m,ro")
    assert str(Disks((place,)).trouble()).startswith(f"{place} is on a read-only file system; find out why")


def test_a_quota_that_is_used_up_is_told(tmp_path: Path) -> None:
    told = explained(tmp_path, OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert told.startswith("the disk quota of ")
    assert f"is used up where {tmp_path} is" in told
