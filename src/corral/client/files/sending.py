"""Sends a directory to the server: a list of its files, and the contents that the server does not have yet."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from corral.client.connecting.transport import Transport
from corral.client.files.patterns import leaving_out, patterns_in
from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.files.tree import CHUNK_BYTES, Tree
from corral.core.model.files.upload import Upload
from corral.core.model.printable import printable
from corral.core.model.units import count_of
from corral.trees.text import digest_of, packed, packs, tree_text
from corral.trees.walking import Walk

ANSWER_WITHIN_S = 300.0
"""The server writes what it gets to its disk before it answers."""

_MOST_NAMED = 10

Tell = Callable[[int, int], None]


def nobody(sent_bytes: int, all_bytes: int) -> None:
    """Do nothing."""


def sent(transport: Transport, upload: Upload, tell: Tell = nobody) -> Upload:
    """Send the directory of an upload. Return the upload with its name on the server.

    `tell` gets how many bytes were sent, and how many all files have. Raises Refused, with names, for files that cannot
    be sent, or that change meanwhile.
    """
    most_bytes = transport.get("/uploads")["most_bytes"]
    tree = _tree(upload, most_bytes)
    places = _places(tree)
    text, sent_bytes, before = tree_text(tree), 0, None
    while missing := (answer := transport.post_bytes("/uploads", text, timeout_s=ANSWER_WITHIN_S))["missing"]:
        if missing == before:
            raise BackendFailed("the server does not keep the files that it is sent; its log may say why")
        before = missing
        for pack in packs(_contents(upload.source, places, missing)):
            transport.post_bytes("/uploads/contents", packed(pack), timeout_s=ANSWER_WITHIN_S)
            sent_bytes += sum(map(len, pack))
            tell(sent_bytes, tree.size_bytes)
    return replace(upload, tree=answer["tree"])


def _tree(upload: Upload, most_bytes: int) -> Tree:
    patterns = (*patterns_in(upload.source), *upload.excluded)
    walk = Walk(take=digest_of, most_bytes=most_bytes, leaves_out=leaving_out(patterns))
    try:
        top = os.open(upload.source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            tree = walk.of(top)
        finally:
            os.close(top)
    except OSError as error:
        raise Refused(f"{printable(upload.source)} cannot be uploaded: {error.strerror}", field="upload") from None
    if walk.faults:
        named = [f"{printable(path)[:300]}: {why}" for path, why in walk.faults[:_MOST_NAMED]]
        more = [f"and {len(walk.faults) - _MOST_NAMED} more"] if len(walk.faults) > _MOST_NAMED else []
        raise Refused(
            f"{count_of(len(walk.faults), 'file')} in {printable(upload.source)} cannot be uploaded; leave them out by "
            f"--upload-exclude, or by .corralignore: {'; '.join([*named, *more])}",
            field="upload",
        )
    return tree


def _places(tree: Tree) -> dict[str, tuple[str, int]]:
    """Where each content is: the path of a file, and the number of the content in it."""
    places: dict[str, tuple[str, int]] = {}
    for entry in tree.entries:
        for number, digest in enumerate(entry.chunks or ()):
            places.setdefault(digest, (entry.path, number))
    return places


def _contents(source: str, places: dict[str, tuple[str, int]], digests: list[str]) -> Iterator[bytes]:
    for digest in digests:
        if digest not in places:
            raise BackendFailed("the server asks for files that are not in the directory; it may be of another version")
        path, number = places[digest]
        content = b""
        try:
            with open(os.path.join(source, path), "rb", buffering=0) as file:
                file.seek(number * CHUNK_BYTES)
                while len(content) < CHUNK_BYTES and (more := file.read(CHUNK_BYTES - len(content))):
                    content += more
        except OSError as error:
            raise Refused(f"{printable(path)} cannot be read any more: {error.strerror}", field="upload") from None
        if digest_of(content) != digest:
            raise Refused(
                f"{printable(path)} has changed while the directory was sent; submit again once nothing writes to it",
                field="upload",
            )
        yield content
