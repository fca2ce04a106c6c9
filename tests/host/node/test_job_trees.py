"""Directories of jobs on a node: made of contents that were sent, run in, and what a job leaves is kept."""

import base64
import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed, NodeLacks, Refused
from corral.core.model.files.tree import Entry, Tree
from corral.core.model.files.upload import Upload
from corral.core.ports.node import GatherState, TreeOrder
from corral.host.node.files import job_trees
from corral.host.node.files.job_trees import JobTrees
from corral.trees.text import digest_of, tree_of, tree_text
from tests.host.node.conftest import a_launch, until

CONTENTS = {digest_of(content): content for content in (b"print(1)\n", b"data")}
TREE = Tree(
    (
        Entry("link", link="sub/data"),
        Entry("sub", 0o750, 1000),
        Entry("sub/data", 0o640, 1000, 4, (digest_of(b"data"),)),
        Entry("train.py", 0o755, 1000, 9, (digest_of(b"print(1)\n"),)),
    )
)


def an_order(tree: Tree = TREE, **fields: object) -> TreeOrder:
    order = TreeOrder("7", "mark of 7", "ann", digest_of(tree_text(tree)), download="out")
    return replace(order, **fields)  # type: ignore[arg-type]


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[JobTrees]:
    with closing(a_node(tmp_path)) as made:
        yield made


def a_node(tmp_path: Path, *, most_bytes: int = 10_000) -> JobTrees:
    root, scratch = tmp_path / "trees", tmp_path / "scratch"
    return JobTrees(root, scratch, most_bytes=most_bytes, most_bytes_of_user=100_000, keep_s=1e6)


def send(trees: JobTrees, order: TreeOrder, tree: Tree = TREE) -> int:
    """Send what the node asks for until it asks for nothing. How many contents that were."""
    known, count = {**CONTENTS, order.tree: tree_text(tree)}, 0
    while missing := trees.missing(order):
        trees.add(order.user, tuple(base64.b64encode(known[digest]).decode() for digest in missing))
        count += len(missing)
    return count


def make(trees: JobTrees, order: TreeOrder) -> Path:
    until(lambda: trees.lay_out(order).done, "the directory is made")
    return trees.directory_of(order.job_id)


def test_a_directory_is_made_of_what_was_sent_and_the_next_job_is_sent_nothing(trees: JobTrees) -> None:
    assert send(trees, an_order()) == 3
    there = make(trees, an_order())
    assert (there / "train.py").read_bytes() == b"print(1)\n"
    assert os.access(there / "train.py", os.X_OK)
    assert (there / "train.py").stat().st_mtime == 1000
    assert (there / "link").read_bytes() == b"data"
    assert send(trees, an_order(job_id="8")) == 0
    (make(trees, an_order(job_id="8")) / "train.py").write_text("changed by job 8")
    assert (there / "train.py").read_bytes() == b"print(1)\n"
    assert send(trees, an_order(job_id="9", user="bob")) == 3


def test_each_call_may_be_repeated_and_a_directory_of_an_earlier_attempt_stays_as_it_is(trees: JobTrees) -> None:
    send(trees, an_order())
    there = make(trees, an_order())
    (there / "checkpoint").write_text("1000 steps")
    assert trees.lay_out(an_order()).done
    assert (there / "checkpoint").exists()


@pytest.mark.parametrize("path", ["../escaped", "/tmp/escaped", "a/../../escaped"])
def test_a_hostile_tree_is_refused_and_writes_nothing(trees: JobTrees, tmp_path: Path, path: str) -> None:
    tree = Tree((Entry(path, 0o644, size_bytes=4, chunks=(digest_of(b"data"),)),))
    with pytest.raises(Refused, match="cannot be in a directory of files"):
        send(trees, an_order(tree), tree)
    trees.lay_out(an_order(tree))
    with pytest.raises(Refused):
        make(trees, an_order(tree))
    assert list(tmp_path.rglob("escaped")) == []


def test_a_tree_beyond_the_limit_or_contents_that_are_none_are_refused(tmp_path: Path) -> None:
    with closing(a_node(tmp_path, most_bytes=10)) as small, pytest.raises(Refused, match="is the limit of this node"):
        send(small, an_order())
    with closing(a_node(tmp_path)) as node:
        for content in ("no base64!", "x" * 23_000_000):
            with pytest.raises(Refused):
                node.add("ann", (content,))
        for job_id in ("../7", "", "7/..", "7.1"):
            with pytest.raises(Refused, match="not the id of a job"):
                node.lay_out(an_order(job_id=job_id))


def test_a_failure_is_told_once_and_the_next_call_begins_anew(trees: JobTrees) -> None:
    trees.lay_out(an_order())
    with pytest.raises(NodeLacks, match="not kept here any more"):
        make(trees, an_order())
    send(trees, an_order())
    assert make(trees, an_order()).is_dir()


def test_what_the_job_leaves_is_kept_as_a_tree_with_its_own_files_alone(trees: JobTrees) -> None:
    send(trees, an_order())
    there = make(trees, an_order())
    (there / "out").mkdir()
    (there / "out" / "result").write_text("42")
    (there / "out" / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(there / "out" / "pipe")
    assert trees.gathered("7", "mark of 7").state is GatherState.WAITING
    trees.gather("7")
    found = trees.gathered("7", "mark of 7")
    assert found.state is GatherState.READY
    assert abs(found.now - time.time()) < 60
    assert [line.split(":")[0] for line in found.left_out] == ["passwd", "pipe"]
    (text,) = trees.read("7", "mark of 7", (found.tree or "",))
    (result,) = tree_of(base64.b64decode(text)).entries
    (content,) = trees.read("7", "mark of 7", result.chunks or ())
    assert base64.b64decode(content) == b"42"
    assert trees.gathered("7", "mark of another job 7").state is GatherState.UNKNOWN
    with pytest.raises(NodeLacks):
        trees.read("7", "mark of another job 7", result.chunks or ())


@pytest.mark.parametrize("link", ["/etc", "..", "sub"])
def test_a_directory_to_keep_that_is_a_link_is_not_followed(trees: JobTrees, link: str) -> None:
    send(trees, an_order())
    (make(trees, an_order()) / "out").symlink_to(link)
    trees.gather("7")
    assert trees.gathered("7", "mark of 7").state is GatherState.NOTHING


def test_a_directory_to_keep_that_is_deeper_than_any_tree_is_not_looked_for(trees: JobTrees) -> None:
    send(trees, an_order(download="a/" * 2000))
    make(trees, an_order(download="a/" * 2000))
    trees.gather("7")
    found = trees.gathered("7", "mark of 7")
    assert found.state is GatherState.FAILED
    assert "cannot be kept" in (found.reason or "")


def test_a_full_disk_while_what_a_job_left_is_noted_is_a_reason(
    trees: JobTrees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(trees, an_order())
    make(trees, an_order()).joinpath("out").mkdir()
    with monkeypatch.context() as disk:
        disk.setattr(job_trees, "write_whole", lambda *_: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
        with pytest.raises(BackendFailed, match="No space left"):
            trees.gather("7")
    trees.gather("7")
    assert trees.gathered("7", "mark of 7").state is GatherState.READY


def test_what_jobs_left_whose_end_no_agent_has_seen_is_kept_by_the_next(tmp_path: Path) -> None:
    with closing(a_node(tmp_path)) as first:
        for job_id in ("7", "8"):
            send(first, an_order(job_id=job_id))
            make(first, an_order(job_id=job_id)).joinpath("out").mkdir()
    with closing(a_node(tmp_path)) as node:
        for step in node.unfinished({"8"}):
            step()
        assert node.gathered("7", "mark of 7").state is GatherState.READY
        assert node.gathered("8", "mark of 7").state is GatherState.WAITING


def test_a_launch_runs_at_the_same_place_in_its_directory(trees: JobTrees) -> None:
    launch = a_launch(7, "true")
    assert trees.in_its_directory(launch) is launch
    upload = Upload("/home/ann/project", tree="0" * 64)
    spec = replace(launch.job.spec, upload=upload, workdir="/home/ann/project/sub")
    env = (("HOME", "/home/ann"), ("PWD", "/home/ann/project/sub"))
    own = replace(
        launch, job=replace(launch.job, spec=spec), env=env, output="/home/ann/project/log", error="/var/log/e"
    )
    with pytest.raises(BackendFailed, match="not on this node"):
        trees.check_made(own)
    moved, here = trees.in_its_directory(own), trees.directory_of("7")
    assert moved.job.spec.workdir == f"{here}/sub"
    assert (moved.output, moved.error) == (f"{here}/log", "/var/log/e")
    assert dict(moved.env) == {"HOME": "/home/ann", "PWD": f"{here}/sub"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes directories of others")
def test_root_gives_all_to_the_user_of_the_job_and_nobody_else_can_enter(trees: JobTrees) -> None:
    order = an_order(uid=65534, gid=65534)
    send(trees, order)
    there = make(trees, order)
    assert {path.lstat().st_uid for path in (there, *there.rglob("*"))} == {65534}
    assert there.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [b"", b"[" * 100_000, b'{"order": 5}', b"\xff", b'{"order": {}, "made_at": NaN}'])
def test_a_damaged_record_costs_its_job_what_it_left_and_no_more(
    trees: JobTrees, tmp_path: Path, damage: bytes
) -> None:
    send(trees, an_order())
    make(trees, an_order())
    (tmp_path / "trees" / "jobs" / "7.json").write_bytes(damage)
    assert trees.gathered("7", "mark of 7").state is GatherState.UNKNOWN
    trees.gather("7")
    with pytest.raises(NodeLacks):
        trees.read("7", "mark of 7", (digest_of(b"data"),))


def test_a_fifo_in_the_place_of_a_record_makes_nothing_wait(trees: JobTrees, tmp_path: Path) -> None:
    (tmp_path / "trees" / "jobs").mkdir(parents=True)
    os.mkfifo(tmp_path / "trees" / "jobs" / "7.json")
    assert trees.gathered("7", "mark of 7").state is GatherState.UNKNOWN


def test_a_directory_leaves_the_room_on_the_disk_that_is_kept_for_everything_else(
    trees: JobTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(trees, an_order())
    disk = os.statvfs("/")
    free = disk.f_bavail * disk.f_frsize
    monkeypatch.setattr(job_trees, "LEAST_FREE_BYTES", 2 * free)
    with pytest.raises(NodeLacks, match=r"free, they need 13 bytes, and .* is kept free"):
        until(lambda: trees.lay_out(an_order()).done, "the directory is refused")
    assert not trees.directory_of("7").exists()
    monkeypatch.setattr(job_trees, "LEAST_FREE_BYTES", 0)
    make(trees, an_order())
