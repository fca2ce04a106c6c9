"""Sends the uploaded directories of jobs to the nodes where they are to start, before they are launched there.

Each step is one call to a node. Between two steps of a user, other users have theirs: a large directory delays nobody
by more than a pack. A node that does not answer is asked again by the dispatcher's recheck, and goes on from there.
"""

import base64
import posixpath
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from corral.core.control.launching.attempts import Attempt, Attempts
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.nodes.node_workers import TaskQueue
from corral.core.control.nodes.thread_pool import ThreadPool
from corral.core.model.errors import BackendFailed, CorralError, NodeLacks, NodeUnreachable, Refused
from corral.core.model.files.upload import Upload
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, log_mark
from corral.core.model.units import format_bytes
from corral.core.ports.node import TreeOrder, Trees
from corral.core.ports.uploads import Uploads
from corral.trees.text import PACK_BYTES, tree_of

THREADS = 16
"""The most nodes to which something is sent at the same time."""

_PAUSE_S = 0.05
"""The time between two questions whether a directory is made."""


@dataclass(slots=True)
class _Delivery:
    """The files sent to one node for an attempt.

    Attributes:
        launch: the first of the attempt on this node.
        wanted: the contents that the node has asked for.
        allowed: the contents of the directory; a node gets no others.
        asked: the last answer about what is missing; the same answer again means that the contents do not arrive.
    """

    attempt: Attempt
    launch: Launch
    upload: Upload
    order: TreeOrder
    wanted: deque[str] = field(default_factory=deque)
    allowed: frozenset[str] = frozenset()
    asked: tuple[str, ...] = ()
    sent_bytes: int = 0


class Deliveries:
    """Brings what attempts need to their nodes. Thread-safe; each method returns at once."""

    def __init__(
        self,
        nodes: Nodes,
        uploads: Uploads | None,
        attempts: Attempts,
        *,
        again: Callable[[str], None],
        fail: Callable[[Attempt, Launch, CorralError], None],
        note_trouble: Callable[[Attempt, str, CorralError], None],
    ) -> None:
        """`again` launches an allocation for which all has arrived. `fail` gives a launch up."""
        self._nodes = nodes
        self._uploads = uploads
        self._attempts = attempts
        self._again = again
        self._fail = fail
        self._note_trouble = note_trouble
        self._pool = ThreadPool("deliveries", THREADS)
        self._lock = threading.Lock()
        self._queues: dict[str, TaskQueue] = {}
        self._going_on: dict[str, set[str]] = {}
        """The nodes to which something is being sent, by allocation."""

    def have_arrived(self, attempt: Attempt) -> bool:
        """Return whether an attempt needs nothing (more) on its nodes. If it does, begin to send it."""
        upload = attempt.launches[0].job.spec.upload
        if upload is None or attempt.delivered:
            return True
        with self._lock:
            if attempt.allocation_id in self._going_on:
                return False
            begun = [_Delivery(attempt, one, upload, _order(one, upload)) for one in _first_of_each_node(attempt)]
            self._going_on[attempt.allocation_id] = {one.launch.node for one in begun}
        for delivery in begun:
            self._put(delivery)
        return False

    def _put(self, delivery: _Delivery) -> None:
        node = delivery.launch.node
        with self._lock:
            queue = self._queues.setdefault(node, TaskQueue(f"deliveries to {node}", self._pool))
        if not queue.put(partial(self._step, delivery), delivery.attempt.user):
            self._end(delivery, arrived=False)

    def _step(self, delivery: _Delivery) -> None:
        attempt, launch = delivery.attempt, delivery.launch
        job = self._attempts.job_of(attempt)
        if job is None or job.phase is not Phase.STARTING or attempt.is_over(launch.rank):
            self._end(delivery, arrived=False)
            return
        try:
            arrived = self._advance(delivery)
        except NodeUnreachable as error:
            self._end(delivery, arrived=False)
            self._note_trouble(attempt, f"files of job {attempt.job_id} are not sent to {launch.node}", error)
        except CorralError as error:
            self._end(delivery, arrived=False)
            self._fail(attempt, launch, error)
        else:
            if arrived:
                self._end(delivery, arrived=True)
            else:
                self._put(delivery)

    def _end(self, delivery: _Delivery, *, arrived: bool) -> None:
        """Note that nothing more is sent to a node. The last node's arrival launches the attempt."""
        attempt = delivery.attempt
        attempt.sending.pop(delivery.launch.node, None)
        with self._lock:
            left = self._going_on.get(attempt.allocation_id)
            if left is None:
                return
            left.discard(delivery.launch.node)
            attempt.arrived += arrived
            if left:
                return
            del self._going_on[attempt.allocation_id]
            attempt.delivered = attempt.arrived == len(_first_of_each_node(attempt))
            attempt.arrived = 0
        if attempt.delivered:
            self._again(attempt.allocation_id)

    def _advance(self, delivery: _Delivery) -> bool:
        """Take the next step. Return whether all has arrived."""
        node = delivery.launch.node
        trees = self._nodes.agent(node).trees
        if self._uploads is None or trees is None:
            raise Refused(f"no files can be sent to node {node}", field="upload")
        if delivery.wanted:
            self._send(delivery, trees, self._uploads)
            return False
        missing = trees.missing(delivery.order)
        if missing and missing == delivery.asked:
            raise BackendFailed(f"node {node} does not keep the files that it is sent")
        delivery.asked = missing
        if missing:
            self._check_asked(delivery, missing, self._uploads)
            delivery.wanted.extend(missing)
            return False
        laid_out = trees.lay_out(delivery.order)
        size = format_bytes(delivery.upload.size_bytes)
        delivery.attempt.sending[node] = (
            f"writing its files on {node}: {format_bytes(laid_out.written_bytes)} of {size}"
        )
        if not laid_out.done:
            threading.Event().wait(_PAUSE_S)
        return laid_out.done

    @staticmethod
    def _check_asked(delivery: _Delivery, missing: tuple[str, ...], uploads: Uploads) -> None:
        """Raise BackendFailed for a node that asks for other files of the user than those of the job."""
        tree = delivery.order.tree
        if missing != (tree,) and not delivery.allowed:
            found = tree_of(_content(uploads, delivery.order.user, tree))
            delivery.allowed = frozenset(digest for digest, _ in found.contents())
        if missing != (tree,) and not delivery.allowed.issuperset(missing):
            raise BackendFailed(
                f"node {delivery.launch.node} asks for files that are not of job {delivery.order.job_id}"
            )

    def _send(self, delivery: _Delivery, trees: Trees, uploads: Uploads) -> None:
        pack = tuple(self._pack(delivery, uploads))
        trees.add(delivery.order.user, tuple(base64.b64encode(content).decode() for content in pack))
        delivery.sent_bytes += sum(map(len, pack))
        most = format_bytes(max(delivery.upload.size_bytes, delivery.sent_bytes))
        node = delivery.launch.node
        delivery.attempt.sending[node] = (
            f"sending its files to {node}: {format_bytes(delivery.sent_bytes)} of at most {most}"
        )

    def _pack(self, delivery: _Delivery, uploads: Uploads) -> Iterator[bytes]:
        size = 0
        while delivery.wanted and size < PACK_BYTES:
            content = _content(uploads, delivery.order.user, delivery.wanted[0])
            size += len(content)
            delivery.wanted.popleft()
            yield content


def _content(uploads: Uploads, user: str, digest: str) -> bytes:
    try:
        return uploads.read(user, digest)
    except NodeLacks as error:
        # The node is well: the server has lost what it is to send.
        raise Refused(f"the server no longer has its files: {error}", field="upload") from None


def _order(launch: Launch, upload: Upload) -> TreeOrder:
    spec = launch.job.spec
    named = spec.uid is not None and spec.gid is not None
    return TreeOrder(
        launch.job.id,
        log_mark(launch.job),
        spec.user,
        upload.tree,
        spec.uid if named else None,
        spec.gid if named else None,
        None
        if spec.download is None
        else upload.place_of(posixpath.normpath(posixpath.join(spec.workdir, spec.download))),
    )


def _first_of_each_node(attempt: Attempt) -> tuple[Launch, ...]:
    """The launches of an attempt, one for each node: members on one node share a directory."""
    first: dict[str, Launch] = {}
    for launch in attempt.launches:
        first.setdefault(launch.node, launch)
    return tuple(first.values())
