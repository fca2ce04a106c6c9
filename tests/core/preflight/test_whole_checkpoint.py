import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.checkpoint import name_latest
from corral.core.preflight.whole_checkpoint import whole_checkpoint
from tests.hung_mount import hung_mount


def named(directory: Path, step: str, at: float) -> None:
    """A checkpoint that was named at this time."""
    directory.mkdir(exist_ok=True)
    (directory / step).write_text("state")
    name_latest(directory / step)
    os.utime(directory / "latest", (at, at), follow_symlinks=False)


def found(*directories: Path) -> tuple[str, ...] | None:
    checkpoint = whole_checkpoint([str(directory) for directory in directories])
    return None if checkpoint is None else checkpoint.paths


def test_a_checkpoint_is_whole_once_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "step-1").mkdir()
    assert found(tmp_path) is None
    (tmp_path / "latest").symlink_to("step-1")
    assert found(tmp_path) == (f"{tmp_path}/step-1",)


@pytest.mark.parametrize("link", ["step-1", "./step-1", "step-1/", "{dir}/step-1"])
def test_a_link_may_name_it_in_any_way_that_stays_in_the_directory(tmp_path: Path, link: str) -> None:
    (tmp_path / "step-1").mkdir()
    (tmp_path / "latest").symlink_to(link.format(dir=tmp_path))
    assert found(tmp_path) == (f"{tmp_path}/step-1",)


def test_a_file_that_is_replaced_whole_is_a_checkpoint_itself(tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("state")
    assert found(tmp_path) == (f"{tmp_path}/latest",)
    (tmp_path / "latest").write_text("")
    assert found(tmp_path) is None


@pytest.mark.parametrize(
    "link", ["..", ".", "/", "/etc/passwd", "../out/state", "step-1/../../out", "out", "missing", "latest", "empty"]
)
def test_what_leads_out_of_the_directory_or_nowhere_is_no_checkpoint(tmp_path: Path, link: str) -> None:
    outside, directory = tmp_path / "out", tmp_path / "in"
    outside.mkdir()
    (outside / "state").write_text("secret")
    directory.mkdir()
    (directory / "step-1").mkdir()
    (directory / "empty").touch()
    (directory / "out").symlink_to(outside / "state")
    (directory / "latest").symlink_to(link)
    assert found(directory) is None


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_a_name_that_is_a_pipe_is_none_and_nobody_waits_for_it(tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / "latest")
    else:
        (tmp_path / "latest").mkdir()
    assert found(tmp_path) == (None if kind == "pipe" else (f"{tmp_path}/latest",))


def test_a_directory_that_is_missing_or_a_file_has_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert found(tmp_path / "missing") is None
    assert found(tmp_path / "file") is None
    assert found(Path("/bad\0path")) is None


def test_a_gang_goes_on_from_what_its_slowest_member_has_named(tmp_path: Path) -> None:
    fast, slow = tmp_path / "0", tmp_path / "1"
    named(fast, "step-1", 1.0)
    assert found(fast, slow) is None
    named(slow, "step-1", 2.0)
    named(fast, "step-2", 3.0)
    assert found(fast, slow) == (f"{fast}/step-1", f"{slow}/step-1")
    (slow / "step-2").write_text("half of it")
    assert found(fast, slow) == (f"{fast}/step-1", f"{slow}/step-1")
    named(slow, "step-2", 4.0)
    assert found(fast, slow) == (f"{fast}/step-2", f"{slow}/step-2")


def test_a_member_that_has_removed_what_the_slowest_needs_leaves_no_checkpoint(tmp_path: Path) -> None:
    fast, slow = tmp_path / "0", tmp_path / "1"
    for step, at in (("step-1", 1.0), ("step-2", 3.0)):
        named(fast, step, at)
    named(slow, "step-1", 2.0)
    (fast / "step-1").unlink()
    assert found(fast, slow) is None


@given(named_so_far=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_a_gang_in_step_never_goes_on_from_a_step_that_a_member_has_not_named(
    tmp_path_factory: pytest.TempPathFactory, named_so_far: list[int]
) -> None:
    """Each member has named its steps in order, and has written half of the next."""
    root = tmp_path_factory.mktemp("gang")
    for rank, last in enumerate(named_so_far):
        for step in range(1, last + 1):
            named(root / str(rank), f"step-{step}", 100.0 * step + rank)
        (root / str(rank) / f"step-{last + 1}").write_text("half")
    steps = min(named_so_far)
    assert found(*(root / str(rank) for rank in range(len(named_so_far)))) == tuple(
        f"{root}/{rank}/step-{steps}" for rank in range(len(named_so_far))
    )


def test_the_age_is_that_of_the_name_and_never_negative(tmp_path: Path) -> None:
    named(tmp_path, "step-1", 4e9)
    checkpoint = whole_checkpoint([str(tmp_path)])
    assert checkpoint is not None
    assert checkpoint.age_s == 0


def test_nobody_looks_into_what_the_name_leads_out_to(tmp_path: Path) -> None:
    """A mount that never answers holds nobody up as long as no link is followed."""
    outside, directory = tmp_path / "hung", tmp_path / "in"
    outside.mkdir()
    directory.mkdir()
    (directory / "step").symlink_to(outside)
    (directory / "latest").symlink_to("step")
    with hung_mount(outside):
        assert found(directory) is None
