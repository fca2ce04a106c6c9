"""Checks whether a server answers, and asks for its model's name."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

_TIMEOUT_S = 5.0
_MOST_BYTES = 1 << 20


def is_healthy(url: str, path: str) -> bool:
    """Return whether the server answers 200 at `path`. `url` is its address without /v1."""
    return _asked(url, path) is not None


def served_model(url: str) -> str | None:
    """Return the first model that the server lists, None if it lists none."""
    try:
        listed: Any = json.loads(_asked(url, "/v1/models") or b"null")
        return str(listed["data"][0]["id"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def _asked(url: str, path: str) -> bytes | None:
    """Return the answer with status 200, None otherwise."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.netloc, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", parts.path.rstrip("/") + path)
            answer = connection.getresponse()
            return answer.read(_MOST_BYTES) if answer.status == 200 else None
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException):
        return None
