"""Trees and contents as bytes: the text whose digest names a tree, and many contents in one message."""

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator

from corral.core.model.errors import Refused
from corral.core.model.files.tree import CHUNK_BYTES, MAX_TREE_BYTES, Tree, check_tree
from corral.core.model.units import format_bytes
from corral.wire import from_plain, to_plain

PACK_BYTES = 4 * 1024 * 1024
"""Contents travel together until they have this many bytes; so small files take few messages."""
MOST_IN_PACK = 2000
_LENGTH = struct.Struct(">I")


def digest_of(content: bytes) -> str:
    """The name of a content."""
    return hashlib.sha256(content).hexdigest()


def tree_text(tree: Tree) -> bytes:
    """The text of a tree. Raises Refused if it is too long."""
    text = json.dumps(to_plain(tree, compact=True), separators=(",", ":")).encode()
    if len(text) > MAX_TREE_BYTES:
        raise Refused(
            f"the names of these files take {format_bytes(len(text))}, and {format_bytes(MAX_TREE_BYTES)} may be; "
            "leave some out, or pack them into an archive"
        )
    return text


def tree_of(text: bytes) -> Tree:
    """The tree with this text. Raises Refused unless it is safe to write."""
    if len(text) > MAX_TREE_BYTES:
        raise Refused(f"a tree has at most {format_bytes(MAX_TREE_BYTES)}", field="tree")
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("the tree is no JSON", field="tree") from None
    return check_tree(from_plain(Tree, plain))


def packed(contents: Iterable[bytes]) -> bytes:
    """Contents as one message."""
    return b"".join(part for content in contents for part in (_LENGTH.pack(len(content)), content))


def unpacked(message: bytes) -> tuple[bytes, ...]:
    """The contents in a message. Raises Refused."""
    contents: list[bytes] = []
    at = 0
    while at < len(message):
        if len(contents) == MOST_IN_PACK:
            raise Refused(f"a message has more than {MOST_IN_PACK} contents; send the others in another")
        if at + _LENGTH.size > len(message):
            raise Refused("the contents break off; send them again")
        (length,) = _LENGTH.unpack_from(message, at)
        at += _LENGTH.size
        if length > CHUNK_BYTES or at + length > len(message):
            raise Refused(f"a content has at most {CHUNK_BYTES} bytes and must be whole; send it again")
        contents.append(message[at : at + length])
        at += length
    return tuple(contents)


def packs(contents: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Contents in groups, each for one message."""
    pack: list[bytes] = []
    size = 0
    for content in contents:
        if pack and (size + len(content) > PACK_BYTES or len(pack) >= MOST_IN_PACK):
            yield tuple(pack)
            pack, size = [], 0
        pack.append(content)
        size += len(content)
    if pack:
        yield tuple(pack)
