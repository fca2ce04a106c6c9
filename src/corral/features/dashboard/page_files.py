"""The files of the built pages, read once and kept in memory in the form in which they are sent."""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

BUILT = Path(__file__).parents[2] / "pages"
"""The directory to which `make web` writes the pages. A wheel has them there, too."""

ASSETS = "assets/"
"""Names below this path change with their content, so a browser may keep these files for ever."""

INDEX = "index.html"

_PACKED_TYPES = ("text/", "application/javascript", "application/json", "image/svg+xml")
_LEAST_PACKED_BYTES = 1024


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is sent. `packed` is its gzip; None if compression saves nothing."""

    content: bytes
    packed: bytes | None
    media_type: str
    etag: str
    for_good: bool


class PageFiles:
    """The files of a directory by their relative paths. It is empty if the pages were not built."""

    def __init__(self, directory: Path = BUILT) -> None:
        self._files: dict[str, PageFile] = {}
        for path in sorted(directory.rglob("*")):
            if path.is_file() and path.suffix != ".gz":
                self._files[path.relative_to(directory).as_posix()] = _read(path, directory)

    @property
    def built(self) -> bool:
        return INDEX in self._files

    def find(self, path: str) -> PageFile | None:
        """The file at a path without its first slash. If there is none and the path is a page, the index page."""
        known = self._files.get(path)
        return self._files.get(INDEX) if known is None and is_page(path) else known


def is_page(path: str) -> bool:
    """Whether a path is an address within the pages, and not that of an asset file."""
    return path == INDEX or not (path.startswith(ASSETS) or "." in path.rpartition("/")[2])


def _read(path: Path, directory: Path) -> PageFile:
    content = path.read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    packs = media_type.startswith(_PACKED_TYPES) and len(content) >= _LEAST_PACKED_BYTES
    return PageFile(
        content,
        _packed(path, content) if packs else None,
        f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type,
        f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        path.relative_to(directory).as_posix().startswith(ASSETS),
    )


def _packed(path: Path, content: bytes) -> bytes:
    """The gzip that the build made, or one made now."""
    made = path.with_name(f"{path.name}.gz")
    return made.read_bytes() if made.is_file() else gzip.compress(content, 6, mtime=0)
