"""Contents of users: each has what they have sent, within a limit, and what is damaged counts as gone."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from corral.core.model.errors import NodeLacks, Refused
from corral.host.contents import content_store
from corral.host.contents.content_store import ContentStore
from corral.trees.text import digest_of


def a_store(
    root: Path, *, most_bytes: int = 1000, in_use: Callable[[str | None], tuple[str, ...]] = lambda user: ()
) -> ContentStore:
    return ContentStore(root, most_bytes=most_bytes, keep_s=1e6, in_use=in_use)


def test_a_user_who_knows_a_digest_alone_gets_nothing(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    digest = store.add("ann", b"secret")
    assert store.read("ann", digest) == b"secret"
    assert store.missing("bob", [digest]) == (digest,)
    with pytest.raises(NodeLacks, match="not kept here any more"):
        store.read("bob", digest)
    assert store.add("bob", b"secret") == digest
    assert store.read("bob", digest) == b"secret"


def test_contents_are_there_again_after_a_restart_and_nobody_else_can_enter(tmp_path: Path) -> None:
    digest = a_store(tmp_path / "s").add("ann/../..\0", b"x")
    assert a_store(tmp_path / "s").read("ann/../..\0", digest) == b"x"
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "s").rglob("*"))
    assert all((tmp_path / "s") in path.parents for path in tmp_path.rglob(digest))


def test_what_the_disk_has_damaged_counts_as_missing_and_can_be_sent_again(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    digest = store.add("ann", b"right")
    (path,) = tmp_path.rglob(digest)
    path.write_bytes(b"wrong")
    with pytest.raises(NodeLacks):
        store.read("ann", digest)
    assert store.missing("ann", [digest]) == (digest,)
    store.add("ann", b"right")
    assert store.read("ann", digest) == b"right"


def test_the_limit_of_a_user_is_kept_by_removing_what_was_not_used_for_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_store, "SETTLES_S", -1.0)
    store = a_store(tmp_path)
    old, used = store.add("ann", b"o" * 400), store.add("ann", b"u" * 400)
    other = store.add("bob", b"b" * 900)
    store.read("ann", old)
    store.missing("ann", [old])
    new = store.add("ann", b"n" * 400)
    assert store.missing("ann", [old, used, new]) == (used,)
    assert store.missing("bob", [other]) == ()


def test_what_jobs_need_and_what_was_just_sent_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = digest_of(b"n" * 600)
    store = a_store(tmp_path, in_use=lambda user: (needed,))
    store.add("ann", b"n" * 600)
    with pytest.raises(Refused, match="ann's jobs have 600 bytes, and 1000 bytes is the limit"):
        store.add("ann", b"x" * 600)
    monkeypatch.setattr(content_store, "SETTLES_S", -1.0)
    with pytest.raises(Refused):
        store.add("ann", b"x" * 600)
    assert store.read("ann", needed) == b"n" * 600


def test_a_disk_with_little_room_takes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_store, "LEAST_FREE_BYTES", 2**62)
    with pytest.raises(NodeLacks, match="which is kept free"):
        a_store(tmp_path).add("ann", b"x")


def test_what_was_not_used_for_long_is_removed_of_all_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_store(tmp_path).add("gone", b"old")
    monkeypatch.setattr(content_store, "_EXPIRY_S", -1.0)
    store = ContentStore(tmp_path, most_bytes=1000, keep_s=-10.0)
    new = store.add("ann", b"new")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [new]


def test_jobs_are_asked_what_they_need_while_nobodys_contents_are_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_store, "SETTLES_S", -1.0)

    def read_what_is_gone() -> None:
        with pytest.raises(NodeLacks):
            store.read("ann", digest_of(b"gone"))

    def asked(user: str | None) -> tuple[str, ...]:
        other = Thread(target=read_what_is_gone, daemon=True)
        other.start()
        other.join(10)
        free.append(not other.is_alive())
        return (digest_of(b"o" * 600),)

    free: list[bool] = []
    store = a_store(tmp_path, in_use=asked)
    store.add("ann", b"o" * 600)
    with pytest.raises(Refused):
        store.add("ann", b"x" * 600)
    assert free == [True]


def test_what_could_not_be_written_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, content: bytes) -> None:
        os.write(fd, content[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    store = a_store(tmp_path)
    with monkeypatch.context() as disk:
        disk.setattr(content_store, "_write_all", full)
        with pytest.raises(NodeLacks, match="No space left"):
            store.add("ann", b"right")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert store.read("ann", store.add("ann", b"right")) == b"right"


def test_a_user_beyond_the_limit_has_room_searched_for_at_most_a_twentieth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, began = list[str | None](), time.monotonic() + 1
    now = [began]

    def in_use(user: str | None) -> tuple[str, ...]:
        asked.append(user)
        now[0] += 10.0
        return (digest_of(b"n" * 600),)

    store = a_store(tmp_path, in_use=in_use)
    store.add("ann", b"n" * 600)
    with pytest.raises(Refused):
        store.add("ann", b"x" * 600)
    assert asked == [], "all of it was just sent"
    monkeypatch.setattr(content_store, "SETTLES_S", -1.0)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for at in (1.0, 150.0, 215.0):
        now[0] = began + at
        with pytest.raises(Refused):
            store.add("ann", b"x" * 600)
    assert asked == ["ann", "ann"]
