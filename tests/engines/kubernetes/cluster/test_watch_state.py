"""What is known from listings and watches, whatever order their messages come in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.engines.kubernetes.cluster.client import Page
from corral.engines.kubernetes.cluster.errors import ClusterFailed, VersionExpired
from corral.engines.kubernetes.cluster.watch_state import Change, Check, Known, List, Watch, WatchState


@dataclass(frozen=True)
class Kept:
    name: str
    uid: str
    color: str


def keep(item: Mapping[str, Any]) -> Kept | None:
    metadata = item["metadata"]
    return None if item["color"] == "grey" else Kept(metadata["name"], metadata["uid"], item["color"])


def item(name: str, version: int, color: str = "red", uid: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}, "color": color}


def event(kind: str, name: str, version: int, color: str = "red", uid: str = "1") -> dict[str, Any]:
    return {"type": kind, "object": item(name, version, color, uid)}


def page(version: int, *items: dict[str, Any], rest: str | None = None) -> Page:
    return Page(items, str(version), rest)


class Reader:
    """A state with one who knows the objects; each call answers with what was told then."""

    def __init__(self) -> None:
        self._told: list[Change[Kept]] = []
        self._known = Known(keep, self._told.extend)
        self.get, self.values = self._known.get, self._known.values
        self.state = WatchState([self._known])

    @property
    def next(self) -> List | Check | Watch:
        return self.state.next

    def listed(self, page: Page) -> list[Change[Kept]]:
        self._told.clear()
        self.state.listed(page)
        return list(self._told)

    def heard(self, event: Mapping[str, Any]) -> list[Change[Kept]]:
        self._told.clear()
        self.state.heard(event)
        return list(self._told)


def listed(version: int, *items: dict[str, Any]) -> Reader:
    reader = Reader()
    reader.listed(page(version, *items))
    return reader


def wanted(state: Reader) -> List | Check | Watch:
    """What the state asks for now."""
    return state.next


def red(name: str, uid: str = "1") -> Kept:
    return Kept(name, uid, "red")


def test_pages_count_when_the_last_one_is_there() -> None:
    state = Reader()
    assert wanted(state) == List(None)
    assert state.listed(page(9, item("a", 3), rest="more")) == []
    assert wanted(state) == List("more")
    assert not state.state.synced
    assert state.listed(page(9, item("b", 4))) == [Change(None, red("a")), Change(None, red("b"))]
    assert wanted(state) == Watch("9")
    assert state.state.synced


def test_a_listing_that_took_too_long_begins_again() -> None:
    state = Reader()
    state.listed(page(9, item("gone", 3), rest="more"))
    state.state.expired()
    assert wanted(state) == List(None)
    assert state.listed(page(12, item("a", 11))) == [Change(None, red("a"))]


def test_events_come_change_and_go() -> None:
    state = listed(5)
    assert state.heard(event("ADDED", "a", 6)) == [Change(None, red("a"))]
    assert state.heard(event("MODIFIED", "a", 7, "blue")) == [Change(red("a"), Kept("a", "1", "blue"))]
    assert state.heard(event("DELETED", "a", 8, "blue")) == [Change(Kept("a", "1", "blue"), None)]
    assert list(state.values()) == []
    assert wanted(state) == Watch("8")


def test_what_changes_nothing_that_is_kept_is_no_change() -> None:
    state = listed(5, item("a", 3))
    assert state.heard(event("MODIFIED", "a", 6)) == []
    assert wanted(state) == Watch("6")


def test_objects_of_no_interest_are_no_news_until_they_are_of_interest() -> None:
    state = listed(5, item("a", 3, "grey"))
    assert state.heard(event("MODIFIED", "a", 6)) == [Change(None, red("a"))]
    assert state.heard(event("MODIFIED", "a", 7, "grey")) == [Change(red("a"), None)]
    assert state.heard(event("DELETED", "a", 8, "grey")) == []


def test_a_repeated_or_older_event_counts_for_nothing() -> None:
    state = listed(5, item("a", 3))
    state.heard(event("DELETED", "a", 8))
    for old in (event("ADDED", "a", 3), event("MODIFIED", "a", 7, "blue"), event("DELETED", "a", 8)):
        assert state.heard(old) == []
    assert list(state.values()) == []
    assert wanted(state) == Watch("8")


def test_a_bookmark_moves_the_version_alone() -> None:
    state = listed(5, item("a", 3))
    assert state.heard({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "70"}}}) == []
    assert wanted(state) == Watch("70")
    assert state.get(("", "a")) == red("a")


def test_an_object_that_was_made_again_is_another() -> None:
    state = listed(5, item("a", 3))
    assert state.heard(event("ADDED", "a", 9, uid="2")) == [Change(red("a"), None), Change(None, red("a", "2"))]


def test_a_listing_after_a_watch_tells_what_was_missed() -> None:
    state = listed(5, item("same", 1), item("gone", 2), item("changed", 3), item("again", 4))
    state.state.expired()
    changes = state.listed(
        page(20, item("same", 1), item("changed", 9, "blue"), item("again", 10, uid="2"), item("new", 11))
    )
    assert sorted(changes, key=repr) == sorted(
        [
            Change(red("gone"), None),
            Change(red("changed"), Kept("changed", "1", "blue")),
            Change(red("again"), None),
            Change(None, red("again", "2")),
            Change(None, red("new")),
        ],
        key=repr,
    )


def test_a_watch_that_is_too_old_says_so_and_others_are_failures() -> None:
    state = listed(5)
    with pytest.raises(VersionExpired):
        state.heard({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}})
    with pytest.raises(ClusterFailed, match="etcd"):
        state.heard({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is away"}})


def test_after_a_watch_the_version_is_checked_and_a_store_that_went_back_is_listed_again() -> None:
    state = listed(50, item("a", 3))
    state.state.broke()
    assert wanted(state) == Check()
    state.state.checked("60")
    assert wanted(state) == Watch("50")
    state.state.broke()
    state.state.checked("49")
    assert wanted(state) == List(None)
    assert state.listed(page(49)) == [Change(red("a"), None)]
    assert state.heard(event("ADDED", "b", 50)) == [Change(None, red("b"))]


def test_a_failure_while_listing_goes_on_with_the_listing() -> None:
    state = Reader()
    state.listed(page(9, item("a", 3), rest="more"))
    state.state.broke()
    assert wanted(state) == List("more")


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    state = Reader()
    state.listed(Page((), "abc", None))
    assert state.heard({"type": "ADDED", "object": {**item("a", 1), "metadata": {"name": "a", "uid": "1"}}}) == [
        Change(None, red("a"))
    ]


@pytest.mark.parametrize(
    "nonsense", [{}, {"type": "ADDED"}, {"type": "ADDED", "object": 3}, {"type": "NEW", "object": {}}]
)
def test_an_event_that_makes_no_sense_changes_nothing(nonsense: dict[str, Any]) -> None:
    assert listed(5, item("a", 3)).heard(nonsense) == []


class Store:
    """What an API server has, and all that ever happened to it."""

    def __init__(self) -> None:
        self.version = 0
        self.items: dict[str, dict[str, Any]] = {}
        self.history: list[dict[str, Any]] = []

    def put(self, name: str, color: str) -> None:
        self.version += 1
        before = self.items.get(name)
        uid = before["metadata"]["uid"] if before else str(self.version)
        self.items[name] = item(name, self.version, color, uid)
        self.history.append({"type": "MODIFIED" if before else "ADDED", "object": self.items[name]})

    def drop(self, name: str) -> None:
        if gone := self.items.pop(name, None):
            self.version += 1
            self.history.append(event("DELETED", name, self.version, gone["color"], gone["metadata"]["uid"]))


class Follower:
    """Asks for what the state wants, and applies the changes that it tells."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.state = Reader()
        self.applied: dict[str, Kept] = {}

    def catch_up(self, cut: int) -> None:
        """List, in two parts, if that is asked for; then hear the whole watch, and the beginning of it once more."""
        if isinstance(self.state.next, List):
            items, version = tuple(self.store.items.values()), str(self.store.version)
            self._apply(self.state.listed(Page(items[:cut], version, "rest")))
            self._apply(self.state.listed(Page(items[cut:], version, None)))
        elif isinstance(self.state.next, Check):
            self.state.state.checked(str(self.store.version))
        for told in self.store.history + self.store.history[:cut]:
            self._apply(self.state.heard(told))

    def _apply(self, changes: list[Change[Kept]]) -> None:
        for old, new in changes:
            assert (self.applied.pop(old.name) if old else None) == old
            if new is not None:
                assert new.name not in self.applied
                self.applied[new.name] = new


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["red", "blue", "grey", "gone"]),
        st.sampled_from(["nothing", "watch", "break", "expire", "forget"]),
    ),
    min_size=1,
    max_size=20,
)


@given(STEPS, st.integers(0, 3))
def test_whoever_applies_the_changes_has_the_truth(steps: list[tuple[str, str, str]], cut: int) -> None:
    store = Store()
    follower = Follower(store)
    for name, color, then in steps:
        if color == "gone":
            store.drop(name)
        else:
            store.put(name, color)
        if then == "watch":
            follower.catch_up(cut)
        elif then == "break":
            follower.state.state.broke()
        elif then != "nothing":
            follower.state.state.expired()
            if then == "forget":
                store.history.clear()
    follower.catch_up(cut)
    follower.catch_up(cut)
    truth = {name: kept for name, one in store.items.items() if (kept := keep(one)) is not None}
    assert follower.applied == truth
    assert {kept.name: kept for kept in follower.state.values()} == truth
