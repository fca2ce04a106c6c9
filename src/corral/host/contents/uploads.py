"""The uploads of a server's users, in its home."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from corral.core.model.answers.files import UploadedTree
from corral.core.model.errors import NodeLacks, Refused
from corral.core.model.files.tree import Tree
from corral.core.model.units import format_bytes
from corral.host.contents.content_store import ContentStore
from corral.trees.text import MOST_IN_PACK, digest_of, tree_of, tree_text

_REMEMBERED = 10_000


class StoredUploads:
    """Implements `corral.core.ports.uploads.Uploads`."""

    def __init__(
        self,
        root: Path,
        *,
        most_bytes: int,
        most_bytes_of_user: int,
        keep_s: float,
        in_use: Callable[[], Collection[tuple[str, str]]],
    ) -> None:
        """`most_bytes` is the limit of one directory. `in_use` returns the users and trees of jobs that have not
        ended.
        """
        self.most_bytes = most_bytes
        self._store = ContentStore(
            root, most_bytes=most_bytes_of_user, keep_s=keep_s, in_use=partial(self._needed, in_use)
        )
        self._sizes: dict[tuple[str, str], tuple[int, int]] = {}

    def keep(self, user: str, tree: Tree) -> UploadedTree:
        if tree.size_bytes > self.most_bytes:
            raise Refused(
                f"the directory has {format_bytes(tree.size_bytes)}, and {format_bytes(self.most_bytes)} is the limit "
                "here (upload_max in the settings); leave out what the job does not need",
                field="upload",
            )
        text = tree_text(tree)
        missing = self._store.missing(user, (digest for digest, _ in tree.contents()))
        name = self._store.add(user, text) if not missing else digest_of(text)
        self._remember(user, name, tree)
        return UploadedTree(name, tree.files, tree.size_bytes, missing[: 4 * MOST_IN_PACK])

    def add(self, user: str, contents: Sequence[bytes]) -> None:
        for content in contents:
            self._store.add(user, content)

    def of(self, user: str, tree: str) -> UploadedTree | None:
        if not self._store.has(user, tree):
            return None
        sizes = self._sizes.get((user, tree))
        if sizes is None:
            try:
                sizes = self._remember(user, tree, tree_of(self._store.read(user, tree)))
            except (NodeLacks, Refused):
                # A user may have sent this content as one of a file, and never as a tree.
                return None
        return UploadedTree(tree, *sizes)

    def _remember(self, user: str, name: str, tree: Tree) -> tuple[int, int]:
        if len(self._sizes) >= _REMEMBERED:
            self._sizes.clear()
        sizes = self._sizes[user, name] = tree.files, tree.size_bytes
        return sizes

    def read(self, user: str, digest: str) -> bytes:
        return self._store.read(user, digest)

    def _needed(self, in_use: Callable[[], Collection[tuple[str, str]]], user: str | None) -> Iterable[str]:
        for owner, tree in set(in_use()):
            if user not in (None, owner):
                continue
            yield tree
            try:
                yield from {digest for digest, _ in tree_of(self._store.read(owner, tree)).contents()}
            except (NodeLacks, Refused):
                continue
