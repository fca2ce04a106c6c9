"""Findings about the images of containers, read on nodes that have them or in their registry, cached for a while."""

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from functools import partial

from corral.clock import Clock
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.nodes.node_workers import TaskQueue
from corral.core.model.errors import BackendFailed, CorralError
from corral.core.model.printable import printable
from corral.core.ports.images import ImageFacts, ImageRegistry

WITHIN_S = 2.5
"""All nodes answer within this time."""
KNOWN_S = 300.0
"""A tag may get another image; its facts are read again after this time."""
UNKNOWN_S = 20.0
MOST_KEPT = 500


@dataclass(frozen=True, slots=True)
class ImageFinding:
    """The facts about an image, or why they are not known, a phrase. `failed`: its registry did not tell of it."""

    image: str
    facts: ImageFacts | None = None
    why_not: str | None = None
    failed: bool = False


class ImageFindings:
    """Reads images and remembers what they say. Safe from any thread.

    Nodes are asked first, then the registry. None for `registry` means that the site lists none.
    """

    def __init__(self, nodes: Nodes, registry: ImageRegistry | None, clock: Clock) -> None:
        self._nodes = nodes
        self._registry = registry
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, ImageFinding]] = OrderedDict()
        self._begun: set[str] = set()
        self._reading = TaskQueue("image-reader")

    def known(self, image: str) -> ImageFinding | None:
        """Return what is known of an image now; None if it has to be read."""
        now = self._clock.monotonic()
        with self._lock:
            at, finding = self._kept.get(image, (now, None))
        lasts_s = UNKNOWN_S if finding is None or finding.facts is None else KNOWN_S
        return finding if now - at < lasts_s else None

    def read(self, image: str, nodes: Sequence[str] = ()) -> ImageFinding:
        """Return the finding about an image, which may take as long as nodes and registry take together."""
        finding = self.known(image)
        if finding is None:
            finding = self._read(image, nodes)
            with self._lock:
                self._kept[image] = self._clock.monotonic(), finding
                self._kept.move_to_end(image)
                if len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
        return finding

    def known_or_begun(self, image: str, user: str) -> ImageFinding | None:
        """Return what is known of an image now. If it has to be read, begin that in the background, and return None.

        An image in no listed registry counts as unknown at once. Users take turns.
        """
        if self._registry is None or not self._registry.lists(image):
            return self._unlisted(image)
        finding = self.known(image)
        if finding is None:
            with self._lock:
                begins = image not in self._begun and len(self._begun) < MOST_KEPT
                if begins:
                    self._begun.add(image)
            if begins:
                self._reading.put(partial(self._read_now, image), user)
        return finding

    def _read_now(self, image: str) -> None:
        try:
            self.read(image)
        finally:
            with self._lock:
                self._begun.discard(image)

    def _read(self, image: str, nodes: Sequence[str]) -> ImageFinding:
        facts = self._on_nodes(image, nodes)
        if facts is not None:
            return ImageFinding(image, facts)
        if self._registry is None or not self._registry.lists(image):
            return self._unlisted(image, on_nodes=bool(nodes))
        try:
            return ImageFinding(image, self._registry.facts(image))
        except BackendFailed as error:
            return ImageFinding(image, why_not=str(error), failed=True)

    def _unlisted(self, image: str, *, on_nodes: bool = False) -> ImageFinding:
        where = "it is on no node that answers, and in no registry" if on_nodes else "it is in no registry"
        return ImageFinding(image, why_not=f"{where} that the site lists (image_registries)")

    def _on_nodes(self, image: str, nodes: Sequence[str]) -> ImageFacts | None:
        answers = [
            self._nodes.worker(name).inspect(partial(self._on, name, image)) for name in nodes if self._is_host(name)
        ]
        until = time.monotonic() + WITHIN_S
        return next((facts for one in answers if (facts := _answered(one, until)) is not None), None)

    def _is_host(self, node: str) -> bool:
        try:
            return self._nodes.agent(node).host is not None
        except CorralError:
            return False

    def _on(self, node: str, image: str) -> ImageFacts | None:
        host = self._nodes.agent(node).host
        return None if host is None else host.image(image)


def _answered(answer: "Future[ImageFacts | None]", until: float) -> ImageFacts | None:
    try:
        return answer.result(timeout=max(0.0, until - time.monotonic()))
    except (TookTooLong, CorralError):
        return None


def unknown_note(finding: ImageFinding) -> str:
    """Return the note for a job whose image could not be read."""
    return (
        f"preflight: what image {printable(finding.image):.200} needs is not known ({finding.why_not}), so it was not"
        " compared with the driver; --min-cuda X.Y says which it needs"
    )
