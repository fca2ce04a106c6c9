"""JSON that an API server sends, however deep it is nested.

Whoever may make one object, as a pod, can nest its `managedFields` thousands deep, and the API server keeps them. No
field that means anything here is so deep, and nobody must be kept from reading all the others.
"""

import json
import re
from typing import Any

MOST_DEPTH = 200

_PARTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


def read_json(text: bytes) -> Any:
    """The value. Where it is nested too deep to be read, what is below `MOST_DEPTH` is None. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_cut(text))


def _cut(text: bytes) -> bytes:
    """The same text with null in place of what is below `MOST_DEPTH`."""
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
