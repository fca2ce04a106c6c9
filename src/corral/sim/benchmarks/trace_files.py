"""Reading trace files, which may be gzipped."""

import gzip
import zlib
from importlib.resources.abc import Traversable

from corral.core.model.errors import Refused

_GZIP = b"\x1f\x8b"


def text_of(option: str, path: Traversable, *, encoding: str = "utf-8-sig") -> str:
    """Return the text of a file, gzipped or not. Raises Refused, naming the option and the file, if it cannot
    be read.
    """
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data.startswith(_GZIP) else data).decode(encoding)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Refused(f"{option}: {path} cannot be read: {why}", field=option) from error
