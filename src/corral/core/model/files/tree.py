"""A directory of files as a value: the paths, and the digests of the contents.

Whoever receives a tree did not make it. So `check_tree` accepts only trees that stay below their directory wherever
they are written: each parent of a path is a directory of the tree, and no link leads out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from corral.core.model.errors import Refused
from corral.core.model.printable import printable
from corral.core.model.units import format_bytes

CHUNK_BYTES = 4 * 1024 * 1024
"""Files are cut into contents of this size. A change of a large file sends the changed contents alone."""

MAX_ENTRIES = 30_000
MAX_TREE_BYTES = 5 * 1024 * 1024
"""The most bytes of a tree as text: an answer of a node has room for it."""
MOST_CONTENT_BYTES = max(CHUNK_BYTES, MAX_TREE_BYTES)
"""The most bytes of what travels under a digest: a piece of a file, or the text of a tree."""
MAX_PATH_BYTES = 1024
MAX_NAME_BYTES = 255
MAX_DEPTH = 64
MAX_SIZE_BYTES = 2**46
PERMISSIONS = 0o777

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a directory or a symbolic link.

    Attributes:
        path: relative, with / between its names.
        mode: the permission bits; those of a link do not matter.
        modified_at: the time of the last change in whole Unix seconds.
        size_bytes: the size of a file.
        chunks: the SHA-256 digests of a file's contents, each of CHUNK_BYTES but the last; None if it is no file.
        link: the target of a link; None if it is no link.
    """

    path: str
    mode: int = 0
    modified_at: int = 0
    size_bytes: int = 0
    chunks: tuple[str, ...] | None = None
    link: str | None = None


@dataclass(frozen=True)
class Tree:
    """The entries of a directory, sorted by path; a directory comes before its entries."""

    entries: tuple[Entry, ...] = ()

    @cached_property
    def files(self) -> int:
        """How many files it has."""
        return sum(entry.chunks is not None for entry in self.entries)

    @cached_property
    def size_bytes(self) -> int:
        """The size of all files together."""
        return sum(entry.size_bytes for entry in self.entries)

    def contents(self) -> Iterator[tuple[str, int]]:
        """The digest and the size of each content, in order; a content may come several times."""
        for entry in self.entries:
            for number, digest in enumerate(entry.chunks or ()):
                yield digest, min(CHUNK_BYTES, entry.size_bytes - number * CHUNK_BYTES)


def is_digest(text: str) -> bool:
    """Whether the text is a digest as trees have them."""
    return _DIGEST.fullmatch(text) is not None


def check_tree(tree: Tree) -> Tree:
    """Return the tree. Raises Refused, with the name, for an entry that cannot be written safely."""
    if len(tree.entries) > MAX_ENTRIES:
        raise Refused(f"a directory has at most {MAX_ENTRIES} entries, and this one has {len(tree.entries)}")
    directories = {""}
    before: list[str] = []
    for entry in tree.entries:
        names = entry.path.split("/")
        fault = fault_of_path(entry.path) or _fault(entry, "/".join(names[:-1]) in directories)
        if fault is None and names <= before:
            fault = "its paths are not sorted, or one comes twice"
        if fault is not None:
            raise Refused(f"{printable(entry.path)[:200]!r} cannot be in a directory of files: {fault}", field="tree")
        if entry.chunks is None and entry.link is None:
            directories.add(entry.path)
        before = names
    return tree


def fault_of_path(path: str) -> str | None:
    """Why a path cannot be in a tree; None if it can."""
    names = path.split("/")
    try:
        sizes = [len(name.encode()) for name in names]
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if "\0" in path or any(name in ("", ".", "..") for name in names):
        return "its path is not one below the directory"
    if max(sizes) > MAX_NAME_BYTES or sum(sizes) + len(sizes) - 1 > MAX_PATH_BYTES:
        return f"a name has at most {MAX_NAME_BYTES} bytes, and a path {MAX_PATH_BYTES}"
    if len(names) > MAX_DEPTH:
        return f"it is more than {MAX_DEPTH} directories deep"
    return None


def fault_of_link(path: str, target: str) -> str | None:
    """Why a link cannot be in a tree; None if it stays below the directory whatever other links there are.

    So .. stands only at the beginning of a target, where it is seen from a real directory.
    """
    names = target.split("/")
    try:
        too_long = len(target.encode()) > MAX_PATH_BYTES
    except UnicodeEncodeError:
        return "the target of the link is not UTF-8"
    if not target or too_long or "\0" in target:
        return f"the target of a link has 1 to {MAX_PATH_BYTES} bytes"
    up = next((at for at, name in enumerate(names) if name != ".."), len(names))
    if target.startswith("/") or ".." in names[up:] or up > path.count("/"):
        return f"it is a link to {printable(target)[:200]}, which may lead out of the directory"
    return None


def _fault(entry: Entry, in_directory: bool) -> str | None:
    if not in_directory:
        return "what it is in is no directory"
    if not 0 <= entry.mode <= PERMISSIONS or abs(entry.modified_at) >= 2**40:
        return "its mode or time is none of a file"
    if entry.link is not None:
        plain = entry.chunks is None and not entry.size_bytes
        return fault_of_link(entry.path, entry.link) if plain else "a link has no contents"
    if entry.chunks is None:
        return None if not entry.size_bytes else "a directory has no contents"
    if not 0 <= entry.size_bytes <= MAX_SIZE_BYTES or len(entry.chunks) != -(-entry.size_bytes // CHUNK_BYTES):
        return f"a file of {format_bytes(abs(entry.size_bytes))} has another number of contents"
    return None if all(map(is_digest, entry.chunks)) else "its contents are not named by digests"
