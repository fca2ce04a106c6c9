"""Directories as trees: what is read is what is written, and nothing hostile gets out of its directory."""

import os
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.errors import Refused
from corral.core.model.files import tree as limits
from corral.core.model.files.tree import CHUNK_BYTES, Entry, Tree, check_tree, fault_of_link
from corral.host.contents.tree_layout import lay_out
from corral.trees import walking
from corral.trees.text import digest_of, packed, packs, tree_of, tree_text, unpacked
from corral.trees.walking import Walk

DIGEST = digest_of(b"x")


def read(directory: Path, **how: object) -> tuple[Tree, dict[str, bytes], list[tuple[str, str]]]:
    """The tree of a directory, its contents, and what cannot be in it."""
    contents: dict[str, bytes] = {}

    def take(content: bytes) -> str:
        contents[digest_of(content)] = content
        return digest_of(content)

    walk = Walk(take=take, most_bytes=how.pop("most_bytes", 2**40), **how)  # type: ignore[arg-type]
    fd = os.open(directory, os.O_RDONLY)
    try:
        return walk.of(fd), contents, walk.faults
    finally:
        os.close(fd)


def write(tree: Tree, contents: dict[str, bytes], directory: Path) -> None:
    directory.mkdir()
    fd = os.open(directory, os.O_RDONLY)
    try:
        lay_out(tree, contents.__getitem__, fd, None, lambda count: None)
    finally:
        os.close(fd)


def a_file(path: str, **fields: object) -> Entry:
    return Entry(path, 0o644, size_bytes=1, chunks=(DIGEST,), **fields)  # type: ignore[arg-type]


NAMES = st.text(st.characters(blacklist_characters="/\0", codec="utf-8"), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..") and len(name.encode()) <= 200
)
KINDS = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=50), st.sampled_from([0o600, 0o644, 0o755, 0o400])),
    st.tuples(st.just("directory"), st.none(), st.sampled_from([0o700, 0o755])),
    st.tuples(st.just("link"), NAMES, st.none()),
)


@settings(max_examples=60, deadline=None)
@given(entries=st.dictionaries(st.lists(NAMES, min_size=1, max_size=4).map(tuple), KINDS, max_size=12))
def test_what_is_written_from_a_directory_is_read_as_the_same_tree(
    entries: dict[tuple[str, ...], tuple[str, object, int | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("round")
    source = top / "source"
    source.mkdir()
    for names, (kind, what, mode) in entries.items():
        path = source.joinpath(*names)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file" and not path.exists():
                path.write_bytes(what)  # type: ignore[arg-type]
                path.chmod(mode or 0)
            elif kind == "directory":
                path.mkdir(exist_ok=True)
            elif kind == "link" and not os.path.lexists(path):
                path.symlink_to(str(what))
        except (FileExistsError, NotADirectoryError, FileNotFoundError):
            continue
    tree, contents, faults = read(source)
    assert faults == []
    text = tree_text(tree)
    assert tree_of(text) == tree
    write(tree_of(text), contents, top / "copy")
    again, _, _ = read(top / "copy")
    assert [(one.path, one.chunks, one.link, one.mode) for one in again.entries] == [
        (one.path, one.chunks, one.link, one.mode | (0o700 if one.chunks is None and one.link is None else 0))
        for one in tree.entries
    ]


@pytest.mark.parametrize(
    "entries",
    [
        [a_file("../out")],
        [a_file("/etc/passwd")],
        [a_file("a/../../b")],
        [a_file("./a")],
        [a_file("a//b")],
        [a_file("")],
        [a_file("a\0b")],
        [a_file("a" * 300)],
        [a_file("no/parent")],
        [a_file("a"), a_file("a")],
        [a_file("b"), a_file("a")],
        [a_file("a"), a_file("a/b")],
        [Entry("l", link="sub"), a_file("l/under-a-link")],
        [Entry("l", link="/etc")],
        [Entry("l", link="..")],
        [Entry("l", link="a/../..")],
        [Entry("l", link="")],
        [Entry("l", link="a\0b")],
        [Entry("l", link="a", chunks=())],
        [a_file("a", link="b")],
        [Entry("a", 0o4755, size_bytes=1, chunks=(DIGEST,))],
        [Entry("a", 0o644, size_bytes=1, chunks=("../../secret",))],
        [Entry("a", 0o644, size_bytes=CHUNK_BYTES + 1, chunks=(DIGEST,))],
        [Entry("a", 0o644, size_bytes=-1, chunks=())],
        [Entry("a", 0o755, size_bytes=5)],
        [Entry("a", 0o644, modified_at=2**60, size_bytes=0, chunks=())],
        [Entry("/".join("d" * (end + 1)), 0o755) for end in range(limits.MAX_DEPTH + 1)],
    ],
)
def test_a_hostile_tree_is_refused(entries: list[Entry]) -> None:
    with pytest.raises(Refused):
        check_tree(Tree(tuple(entries)))


@settings(max_examples=200, deadline=None)
@given(
    links=st.dictionaries(
        st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a"]),
        st.lists(st.sampled_from(["..", "a", "b", "d", "e", "."]), min_size=1, max_size=4).map("/".join),
        max_size=5,
    )
)
def test_links_that_are_accepted_never_lead_out_whatever_other_links_there_are(
    links: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("links")
    inner = top / "inner"
    (inner / "d" / "e").mkdir(parents=True)
    for path, target in links.items():
        if fault_of_link(path, target) is None:
            (inner / path).symlink_to(target)
    for path in links:
        try:
            led_to = (inner / path).resolve(strict=True)
        except (OSError, RuntimeError):
            continue
        assert led_to == inner or inner in led_to.parents


def test_a_tree_with_too_many_entries_or_too_long_a_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ENTRIES", 3)
    with pytest.raises(Refused, match="at most 3 entries, and this one has 4"):
        check_tree(Tree(tuple(a_file(str(number)) for number in range(4))))
    for text in (b"", b"[]", b'{"entries": 5}', b"[" * 100_000, b'{"entries": [], "more": 1}', b"\xff"):
        with pytest.raises(Refused):
            tree_of(text)


def test_what_has_no_contents_and_what_leads_out_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to("/etc/passwd")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "in").symlink_to("good")
    (tmp_path / "good").write_text("x")
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(tmp_path / "sock"))
        tree, _, faults = read(tmp_path)
    assert [entry.path for entry in tree.entries] == ["good", "in"]
    told = dict(faults)
    assert sorted(told) == ["out", "pipe", "sock", "up"]
    assert "fifo" in told["pipe"]
    assert "/etc/passwd, which may lead out" in told["out"]


def test_a_directory_beyond_a_limit_is_refused_and_what_is_large_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "large").write_bytes(bytes(3000))
    (tmp_path / "small").write_bytes(bytes(10))
    with pytest.raises(Refused, match=r"more than 2 KiB.* most of it is in data/"):
        read(tmp_path, most_bytes=2048)
    monkeypatch.setattr(walking, "MAX_ENTRIES", 2)
    with pytest.raises(Refused, match="more than 2 files and directories"):
        read(tmp_path)


def test_names_that_cannot_be_in_a_tree_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        os.mkfifo(tmp_path / f"pipe-{number}")
    monkeypatch.setattr(walking, "MAX_ENTRIES", 2)
    with pytest.raises(Refused, match="more than 2 files and directories"):
        read(tmp_path)
    monkeypatch.setattr(walking, "MOST_NAMES", 2)
    with pytest.raises(Refused, match="has more than 2 files, the limit for one"):
        read(tmp_path)


def test_a_file_that_changes_while_it_is_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 10)

    def grow(content: bytes) -> str:
        with path.open("ab") as file:
            file.write(b"more")
        return digest_of(content)

    walk = Walk(take=grow, most_bytes=2**30)
    fd = os.open(tmp_path, os.O_RDONLY)
    assert walk.of(fd).entries == ()
    os.close(fd)
    ((named, why),) = walk.faults
    assert named == "log"
    assert "changes while it is read" in why


def test_a_file_that_grows_as_fast_as_it_is_read_ends(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x")

    def grow(content: bytes) -> str:
        os.truncate(tmp_path / "log", 2**40)
        return digest_of(b"")

    walk = Walk(take=grow, most_bytes=2**30)
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(Refused, match="more than 1024 MiB"):
        walk.of(fd)
    os.close(fd)


def test_a_large_file_has_several_contents_and_a_change_concerns_one(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"a" * CHUNK_BYTES + b"b" * 5)
    tree, contents, _ = read(tmp_path)
    (before,) = tree.entries
    assert [len(contents[digest]) for digest in before.chunks or ()] == [CHUNK_BYTES, 5]
    path.write_bytes(b"a" * CHUNK_BYTES + b"c" * 5)
    (after,) = read(tmp_path)[0].entries
    assert (before.chunks or ())[0] == (after.chunks or ())[0]
    assert before.chunks != after.chunks


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of two users")
def test_a_file_of_another_user_is_not_read_through_a_hard_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of root")
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("x")
    os.chown(home / "mine", 65534, 65534)
    os.link(secret, home / "theirs")
    tree, _, faults = read(home, owner=65534)
    assert [entry.path for entry in tree.entries] == ["mine"]
    assert "belongs to user 0" in dict(faults)["theirs"]


def test_a_name_that_differs_in_case_alone_is_another_name(tmp_path: Path) -> None:
    tree = check_tree(Tree((a_file("A"), a_file("a"))))
    write(tree, {DIGEST: b"x"}, tmp_path / "copy")
    assert sorted(os.listdir(tmp_path / "copy")) == ["A", "a"]


def test_no_bit_beyond_the_permissions_is_kept(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("x")
    (tmp_path / "tool").chmod(0o6755)
    tree, contents, _ = read(tmp_path)
    write(tree, contents, tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy" / "tool").stat().st_mode) == 0o755


@settings(max_examples=100, deadline=None)
@given(contents=st.lists(st.binary(max_size=100), max_size=20))
def test_contents_in_a_message_come_out_as_they_went_in(contents: list[bytes]) -> None:
    assert unpacked(packed(contents)) == tuple(contents)
    assert [content for pack in packs(contents) for content in pack] == contents


@pytest.mark.parametrize("message", [b"\0", b"\0\0\0\5abc", b"\xff\xff\xff\xff", bytes(4 * 2001)])
def test_a_message_that_breaks_off_or_announces_too_much_is_refused(message: bytes) -> None:
    with pytest.raises(Refused):
        unpacked(message)


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_becomes_a_link_after_the_first_look_is_not_followed(tmp_path: Path, kind: str) -> None:
    elsewhere, top = tmp_path / "elsewhere", tmp_path / "top"
    top.mkdir()
    for place in (elsewhere, top / "x"):
        if kind == "directory":
            place.mkdir()
        (place / "secret" if kind == "directory" else place).write_text(f"of {place.name}")

    def swap(path: str, is_directory: bool) -> bool:
        (top / path).rename(tmp_path / "before")
        (top / path).symlink_to(elsewhere)
        return False

    tree, contents, faults = read(top, leaves_out=swap)
    assert (tree.entries, contents) == ((), {})
    assert [path for path, _ in faults] == ["x"]


def test_a_directory_that_vanishes_meanwhile_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "z").write_text("x")

    def take(content: bytes) -> str:
        (tmp_path / "z").unlink(missing_ok=True)
        return digest_of(content)

    walk = Walk(take=take, most_bytes=2**30)
    fd = os.open(tmp_path, os.O_RDONLY)
    assert [entry.path for entry in walk.of(fd).entries] == ["a"]
    os.close(fd)
    assert walk.faults == []
