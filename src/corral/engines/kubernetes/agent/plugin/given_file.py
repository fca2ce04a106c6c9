"""The file on the node with the devices that pods were given, for a plugin that starts again."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.agent.plugin.plugin_core import GivenToContainer
from corral.files import read_whole, write_whole
from corral.untrusted import Unread, guarded
from corral.wire import from_plain

_MOST_BYTES = 16 << 20
_VERSION = 1


def write_given(path: Path, given: tuple[GivenToContainer, ...]) -> None:
    """Write the file in one step. Raises BackendFailed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"version": _VERSION, "given": [asdict(one) for one in given]}))
    except OSError as error:
        raise BackendFailed(f"what pods were given cannot be noted in {path}: {error.strerror}") from None


def read_given(path: Path) -> tuple[GivenToContainer, ...]:
    """Return the allocations in the file; () if there is none, or it is damaged: the kubelet knows it, too."""
    try:
        content = read_whole(path, _MOST_BYTES)
    except OSError:
        return ()
    found = guarded(f"the file {path}", lambda: _given(json.loads(content)))
    return () if isinstance(found, Unread) else found


def _given(document: Any) -> tuple[GivenToContainer, ...]:
    if document["version"] != _VERSION:
        return ()
    given = tuple(from_plain(GivenToContainer, one) for one in document["given"])
    if not all(one.device_ids for one in given):
        raise ValueError("a container has no devices")
    return given
