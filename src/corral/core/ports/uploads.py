"""The store of the directories that users upload for their jobs."""

from collections.abc import Sequence
from typing import Protocol

from corral.core.model.answers.files import UploadedTree
from corral.core.model.files.tree import Tree


class Uploads(Protocol):
    """Contents and trees of users, each user's apart. A user has a content by having sent it. Thread-safe."""

    @property
    def most_bytes(self) -> int:
        """The most bytes that one directory may have."""
        ...

    def keep(self, user: str, tree: Tree) -> UploadedTree:
        """Keep a checked tree of a user. Raises Refused if it is too large, or for the user's limit; BackendFailed."""
        ...

    def add(self, user: str, contents: Sequence[bytes]) -> None:
        """Keep contents of a user. Raises as `keep`."""
        ...

    def of(self, user: str, tree: str) -> UploadedTree | None:
        """Return a tree that the user has sent whole, None if there is none."""
        ...

    def read(self, user: str, digest: str) -> bytes:
        """Return a content, or the text of a tree. Raises NodeLacks if it is not kept (any more)."""
        ...
