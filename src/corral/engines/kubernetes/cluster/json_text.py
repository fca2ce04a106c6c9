"""Reads JSON of an API server, however deeply it is nested.

Anybody who may create an object, such as a pod, can nest its `managedFields` thousands deep, and the API server keeps
them. Fields that matter to Corral are never that deep. One object must not keep Corral from reading the others.
"""

import json
import re
from typing import Any

MOST_DEPTH = 200

_PARTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


def read_json(text: bytes) -> Any:
    """Return the value. If it is nested too deeply, parts below `MOST_DEPTH` are None. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_cut(text))


def _cut(text: bytes) -> bytes:
    """Return the text with null in place of the parts below `MOST_DEPTH`."""
    kept: list[bytes] = []
    depth = kept_until = 0
    for part in _PARTS.finditer(text):
        if part[0] in (b"[", b"{"):
            depth += 1
            if depth == MOST_DEPTH + 1:
                kept += (text[kept_until : part.start()], b"null")
        elif part[0] in (b"]", b"}"):
            if depth == MOST_DEPTH + 1:
                kept_until = part.end()
            depth -= 1
    if depth:
        raise ValueError("brackets without end")
    return b"".join((*kept, text[kept_until:]))
