"""Files of jobs are sent to their nodes before the launch, by steps that may each fail."""

import base64
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from corral.core.control.launching.attempts import Attempt
from corral.core.control.launching.deliveries import Deliveries
from corral.core.control.nodes.node_registry import Nodes
from corral.core.model.errors import BackendFailed, CorralError, NodeLacks, NodeUnreachable, Refused
from corral.core.model.files.tree import Entry, Tree
from corral.core.model.files.upload import Upload
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch
from corral.core.ports.node import LaidOut, TreeOrder
from corral.trees.text import digest_of, tree_text

PATIENCE_S = 20.0
FILES = {digest_of(content): content for content in (b"one", b"two")}
TEXT = tree_text(Tree(tuple(Entry(f"f-{digest}", 0o644, 0, 3, (digest,)) for digest in sorted(FILES))))
TREE = digest_of(TEXT)
CONTENTS = {**FILES, TREE: TEXT}


class FakeTrees:
    """A node's part: asks for the tree, then for the contents, then makes the directory in two steps."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.orders: list[TreeOrder] = []
        self.calls: list[str] = []
        self.failures: list[CorralError] = []
        self.forgets = False
        self.made = 0

    def missing(self, order: TreeOrder) -> tuple[str, ...]:
        self._called("missing")
        self.orders.append(order)
        wanted = (TREE,) if TREE not in self.kept else tuple(sorted(CONTENTS))
        return tuple(digest for digest in wanted if digest not in self.kept)

    def add(self, user: str, contents: tuple[str, ...]) -> None:
        self._called("add")
        if not self.forgets:
            self.kept |= {digest_of(base64.b64decode(content)) for content in contents}

    def lay_out(self, order: TreeOrder) -> LaidOut:
        self._called("lay_out")
        self.made += 1
        return LaidOut(done=self.made > 1, written_bytes=3)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.failures:
            raise self.failures.pop()


class Site:
    """Deliveries to the nodes a and b, and what follows from them."""

    def __init__(self, nodes: tuple[str, ...] = ("a",), *, takes_files: bool = True) -> None:
        self.trees = {node: FakeTrees() for node in ("a", "b")}
        agents: Any = {
            node: SimpleNamespace(trees=one if takes_files else None, close=lambda: None)
            for node, one in self.trees.items()
        }
        upload = Upload("/p", tree=TREE, files=2, size_bytes=6)
        spec = JobSpec("ann", ("true",), upload=upload, workdir="/p/sub", download="out")
        self.job = Job("7", 7, spec, 0.0, phase=Phase.STARTING)
        launches = tuple(Launch("7.1", self.job, (), rank=rank, node=node) for rank, node in enumerate(nodes))
        self.attempt = Attempt("7.1", "7", launches)
        self.store = dict(CONTENTS)
        self.happened: list[Any] = []
        self.rests = threading.Event()
        self.deliveries = Deliveries(
            Nodes(agents),
            SimpleNamespace(read=self._read),
            SimpleNamespace(job_of=lambda attempt: self.job),  # type: ignore[arg-type]
            again=lambda allocation_id: self._happens(("launch", allocation_id)),
            fail=lambda attempt, launch, error: self._happens(("fail", launch.node, error)),
            note_trouble=lambda attempt, what, error: self._happens(("trouble", str(error))),
        )

    def _read(self, user: str, digest: str) -> bytes:
        assert user == "ann"
        if digest not in self.store:
            raise NodeLacks("the content is gone")
        return self.store[digest]

    def _happens(self, what: Any) -> None:
        self.happened.append(what)
        self.rests.set()

    def send(self) -> Any:
        """Begin, and wait until something follows from it."""
        self.rests.clear()
        assert not self.deliveries.have_arrived(self.attempt)
        assert self.rests.wait(PATIENCE_S)
        return self.happened[-1]


def test_a_job_without_an_upload_needs_nothing() -> None:
    site = Site()
    plain = replace(site.job, spec=JobSpec("ann", ("true",)))
    assert site.deliveries.have_arrived(Attempt("8.1", "8", (Launch("8.1", plain, (), node="a"),)))
    assert site.trees["a"].calls == []


def test_the_tree_comes_first_then_its_contents_then_the_directory_and_then_the_launch() -> None:
    site = Site()
    assert site.send() == ("launch", "7.1")
    assert site.trees["a"].calls == ["missing", "add", "missing", "add", "missing", "lay_out", "missing", "lay_out"]
    order = site.trees["a"].orders[0]
    assert (order.job_id, order.user, order.tree, order.download) == ("7", "ann", TREE, "sub/out")
    assert site.deliveries.have_arrived(site.attempt)
    assert site.attempt.sending == {}


def test_what_an_earlier_job_had_there_is_not_sent_again() -> None:
    site = Site()
    site.trees["a"].kept |= CONTENTS.keys()
    assert site.send() == ("launch", "7.1")
    assert "add" not in site.trees["a"].calls


def test_a_gang_is_launched_once_all_of_its_nodes_have_it_and_a_node_gets_it_once() -> None:
    site = Site(("a", "b", "b"))
    assert site.send() == ("launch", "7.1")
    assert [one.calls.count("add") for one in site.trees.values()] == [2, 2]
    assert site.happened == [("launch", "7.1")]


@pytest.mark.parametrize("failure", [Refused("too large"), NodeLacks("the disk is full"), BackendFailed("broken")])
def test_what_a_node_refuses_gives_the_launch_up_with_the_reason(failure: CorralError) -> None:
    site = Site()
    site.trees["a"].failures = [failure]
    assert site.send() == ("fail", "a", failure)


def test_a_node_that_does_not_answer_is_asked_again_and_goes_on_from_there() -> None:
    site = Site()
    site.trees["a"].kept = {TREE}
    site.trees["a"].failures = [NodeUnreachable("node a is silent")]
    assert site.send() == ("trouble", "node a is silent")
    assert site.send() == ("launch", "7.1")
    assert site.trees["a"].calls.count("add") == 1


def test_a_node_that_keeps_nothing_of_what_it_gets_does_not_get_it_for_ever() -> None:
    site = Site()
    site.trees["a"].forgets = True
    what, node, error = site.send()
    assert (what, node) == ("fail", "a")
    assert "does not keep the files" in str(error)


def test_files_that_the_server_has_lost_are_not_the_fault_of_the_node() -> None:
    site = Site()
    del site.store[digest_of(b"two")]
    _, _, error = site.send()
    assert isinstance(error, Refused)
    assert "the server no longer has its files" in str(error)


def test_a_node_gets_no_file_of_the_user_that_is_not_of_the_job() -> None:
    site = Site()
    private = digest_of(b"private")
    site.store[private] = b"private"
    site.trees["a"].kept = {TREE}
    site.trees["a"].missing = lambda order: (private,)  # type: ignore[method-assign]
    _, _, error = site.send()
    assert "asks for files that are not of job 7" in str(error)
    assert site.trees["a"].calls == []


def test_a_node_that_takes_no_files_is_said() -> None:
    _, _, error = Site(takes_files=False).send()
    assert "no files can be sent to node a" in str(error)


def test_nothing_is_sent_for_a_job_that_is_cancelled_meanwhile() -> None:
    site = Site()
    trees = site.trees["a"]
    cancelled = threading.Event()
    add: Callable[[str, tuple[str, ...]], None] = trees.add

    def add_and_cancel(user: str, contents: tuple[str, ...]) -> None:
        add(user, contents)
        site.job = replace(site.job, phase=Phase.STOPPING)
        cancelled.set()

    trees.add = add_and_cancel  # type: ignore[method-assign]
    assert not site.deliveries.have_arrived(site.attempt)
    assert cancelled.wait(PATIENCE_S)
    site.job = replace(site.job, phase=Phase.STOPPING)
    for _ in range(200):
        if "7.1" not in site.deliveries._going_on:
            break
        threading.Event().wait(0.05)
    assert trees.calls == ["missing", "add"]
    assert site.happened == []


def test_how_far_it_is_can_be_read_meanwhile() -> None:
    site = Site()
    trees, told = site.trees["a"], list[str]()
    missing = trees.missing

    def note(order: TreeOrder) -> tuple[str, ...]:
        told.extend(site.attempt.sending.values())
        return missing(order)

    trees.missing = note  # type: ignore[method-assign]
    site.send()
    assert told == [
        f"sending its files to a: {len(TEXT)} bytes of at most {len(TEXT)} bytes",
        f"sending its files to a: {len(TEXT) + 6} bytes of at most {len(TEXT) + 6} bytes",
        "writing its files on a: 3 bytes of 6 bytes",
    ]
