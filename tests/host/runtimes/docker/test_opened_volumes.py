"""A container sees the directory that its user could reach when it was looked at, whatever the path leads to later."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.host.runtimes.docker import as_user, opened_volumes
from corral.host.runtimes.docker.daemon_calls import process
from corral.host.runtimes.docker.opened_volumes import STAGE, NotShown, Wanted, release, stage, wanted_of
from corral.host.runtimes.docker.records import HostUser
from tests.docker.daemon import DockerDaemon
from tests.docker.image import IMAGE

ALICE = HostUser(65534, 65533, [])
NAME = "corral-test-volumes"


@pytest.fixture
def shown(open_directory: Path, docker_host: DockerDaemon) -> Iterator[Path]:
    """What the site shows; anyone may write in it. Nothing stays staged."""
    directory = open_directory / "shown"
    directory.mkdir()
    directory.chmod(0o777)
    yield directory
    release(NAME, process())
    assert f"{STAGE}/{NAME}" not in mounts_of_docker()


def mounts_of_docker() -> str:
    return Path(f"/proc/{process()}/mountinfo").read_text()


def within_docker(*command: str) -> None:
    """Run a command in the mount namespace of the daemon."""
    subprocess.run(["nsenter", "--mount", f"--target={process()}", *command], check=True)


def alices(path: Path, *files: str) -> Path:
    path.mkdir(parents=True)
    for name in files:
        (path / name).write_text(f"{name} of {path.name}")
    for each in (path, *path.iterdir()):
        os.chown(each, ALICE.uid, ALICE.gid)
    return path


def staged(volume: Wanted, shown: Path) -> str:
    (place,) = stage(NAME, [volume], ALICE, [str(shown)], process())
    return place


def seen(docker: DockerDaemon, place: str, file: str) -> str:
    return docker.docker("run", "--rm", "--mount", f"type=bind,src={place},dst=/in", IMAGE, "cat", f"/in/{file}")


@pytest.mark.parametrize("swapped", ["mine/data", "mine"])
def test_a_name_that_becomes_a_link_after_the_look_leads_nowhere_else(
    docker_host: DockerDaemon, shown: Path, swapped: str
) -> None:
    alices(shown / "mine" / "data", "file")
    secret = shown / "closed" / "data"
    secret.mkdir(parents=True)
    (secret / "file").write_text("a secret of others")
    (shown / "closed").chmod(0o700)
    place = staged(Wanted(str(shown / "mine" / "data")), shown)
    (shown / swapped).rename(shown / "moved")
    (shown / swapped).symlink_to(secret if swapped == "mine/data" else shown / "closed")
    # By its path Docker would now be led there.
    assert seen(docker_host, str(shown / "mine" / "data"), "file") == "a secret of others"
    assert seen(docker_host, place, "file") == "file of data"


def test_a_container_keeps_its_volume_when_what_was_staged_is_released(docker_host: DockerDaemon, shown: Path) -> None:
    place = staged(Wanted(str(alices(shown / "data", "file"))), shown)
    docker_host.docker(
        *("run", "--detach", "--name", "keeps", "--mount", f"type=bind,src={place},dst=/in", IMAGE),
        *("sh", "-c", "until [ -e /in/go ]; do sleep 0.05; done; cat /in/file"),
    )
    try:
        release(NAME, process())
        assert STAGE + "/" + NAME not in mounts_of_docker()
        (shown / "data" / "go").touch()
        docker_host.docker("wait", "keeps")
        assert docker_host.docker("logs", "keeps") == "file of data"
    finally:
        docker_host.docker("rm", "--force", "keeps")


def test_what_is_mounted_below_a_volume_is_shown_and_stays_mounted_on_the_host(
    docker_host: DockerDaemon, shown: Path
) -> None:
    data = alices(shown / "data")
    (data / "disk").mkdir()
    disk = str(data / "disk")
    within_docker("mount", "-t", "tmpfs", "tmpfs", disk)
    try:
        within_docker("mount", "--make-shared", disk)
        within_docker("sh", "-c", f"mkdir {disk}/in && mount -t tmpfs tmpfs {disk}/in && echo there > {disk}/in/file")
        place = staged(Wanted(str(data)), shown)
        assert seen(docker_host, place, "disk/in/file") == "there\n"
        release(NAME, process())
        assert f" {disk}/in " in mounts_of_docker()
    finally:
        within_docker("umount", "--recursive", disk)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("closed/data", "is no directory here that you can reach"),
        ("nothing", "is no directory here that you can reach"),
        ("to-closed", "is no directory here that you can reach"),
        ("out", r"leads to /etc, which is not shown to jobs here"),
        ("out/../../etc", "leads to /etc|is no directory here"),
    ],
)
def test_what_the_user_cannot_reach_or_the_site_does_not_show_is_refused(shown: Path, source: str, words: str) -> None:
    (shown / "closed" / "data").mkdir(parents=True)
    (shown / "closed").chmod(0o700)
    (shown / "to-closed").symlink_to(shown / "closed" / "data")
    (shown / "out").symlink_to("/etc")
    with pytest.raises(NotShown, match=words):
        staged(Wanted(str(shown / source)), shown)


def test_a_volume_may_be_a_file_and_of_a_link_what_it_leads_to(docker_host: DockerDaemon, shown: Path) -> None:
    alices(shown / "data", "file")
    (shown / "link").symlink_to("data")
    assert seen(docker_host, staged(Wanted(str(shown / "link")), shown), "file") == "file of data"
    place = staged(Wanted(str(shown / "data" / "file")), shown)
    said = docker_host.docker("run", "--rm", "--mount", f"type=bind,src={place},dst=/in", IMAGE, "cat", "/in")
    assert said == "file of data"


def test_directories_for_what_else_is_mounted_are_made_by_the_user_and_not_by_root(shown: Path) -> None:
    data = alices(shown / "data")
    staged(Wanted(str(data), inner=("a/b", "c"), workdir="w/x"), shown)
    made = {path.relative_to(data).as_posix(): path.stat().st_uid for path in data.rglob("*")}
    assert made == dict.fromkeys(("a", "a/b", "c", "w", "w/x"), ALICE.uid)


@pytest.mark.parametrize(
    "volume",
    [{"inner": ("a",)}, {"workdir": "a/b"}, {"inner": ("link",)}, {"inner": ("link/a",)}, {"workdir": "link/a"}],
)
def test_where_the_user_may_make_none_root_makes_none(shown: Path, volume: dict[str, tuple[str, ...] | str]) -> None:
    data = shown / "data"
    data.mkdir()
    (data / "link").symlink_to("/elsewhere")
    before = sorted(data.rglob("*"))
    with pytest.raises(NotShown, match="for what is to be there in the container, and it cannot be made"):
        staged(Wanted(str(data), **volume), shown)  # type: ignore[arg-type]
    assert sorted(data.rglob("*")) == before


def test_a_volume_that_is_only_read_must_have_them(shown: Path) -> None:
    data = alices(shown / "data")
    with pytest.raises(NotShown, match="make it first"):
        staged(Wanted(str(data), inner=("a",), read_only=True), shown)
    (data / "a").mkdir()
    (data / "w").symlink_to("a")
    staged(Wanted(str(data), inner=("a",), workdir="w", read_only=True), shown)


def test_a_path_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_user, "_ANSWER_S", 0.3)
    # A child that is stopped stands for one that hangs in the kernel.
    monkeypatch.setattr(os.path, "realpath", lambda path, **_: signal.raise_signal(signal.SIGSTOP))
    assert as_user.opened_as(ALICE, lambda: (0, os.path.realpath("/", strict=True).encode())) is None


def test_mounting_that_never_ends_is_not_waited_for(
    docker_host: DockerDaemon, shown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_volumes, "_MOUNTED_S", 0.2)
    monkeypatch.setattr(opened_volumes, "_make_place", lambda name: signal.pause())
    with pytest.raises(NotShown, match=r"could not be mounted within 0\.4 s"):
        staged(Wanted(str(alices(shown / "data"))), shown)


def test_each_place_within_the_container_belongs_to_the_innermost_volume_around_it() -> None:
    mounts: list[dict[str, Any]] = [
        {"Source": "/a", "Target": "/work"},
        {"Source": "/b", "Target": "/work/sets/", "ReadOnly": True},
        {"Source": "/c", "Target": "/workshop"},
    ]
    assert wanted_of(mounts, ["/work/sets/scratch/7", "/elsewhere"], "/work/run") == [
        Wanted("/a", ("sets",), "run"),
        Wanted("/b", ("scratch/7",), read_only=True),
        Wanted("/c"),
    ]
