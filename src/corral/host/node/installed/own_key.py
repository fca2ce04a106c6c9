"""The server's key on a host: one line of authorized_keys, which allows a connection to the agent and nothing else."""

import os
from pathlib import Path

from corral.host.node.installed.agent_places import AgentPlaces, CannotInstall, in_words, replace

_COMMENT = "corral-server-"
"""The comment of a line is this and the tag of its server."""

_MOST_BYTES = 4 * 1024 * 1024


def allow(places: AgentPlaces, public_key: str, tag: str) -> None:
    """Let this key reach the agent, in place of an earlier one of the same server. Raises CannotInstall."""
    kind, body = public_key.split()[:2]
    command = f"{places.command} agent connect"
    _write(places, tag, f'restrict,command="{command}" {kind} {body} {_COMMENT}{tag}')


def forbid(places: AgentPlaces, tag: str) -> None:
    """Remove the key of a server, if it is there. Raises CannotInstall."""
    _write(places, tag, None)


def _write(places: AgentPlaces, tag: str, line: str | None) -> None:
    # The file can be a link, as to a store of settings: the file behind it is the one to change.
    path = Path(os.path.realpath(places.keys))
    with in_words(path):
        text, mode = _read(path)
        if text is None and line is None:
            return
        lines = (text or "").removesuffix("\n").split("\n") if text else []
        others = [one for one in lines if not one.rstrip().endswith(f" {_COMMENT}{tag}")]
        wanted = [*others, *([] if line is None else [line])]
        if wanted == lines:
            return
        if text is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(path, "".join(f"{one}\n" for one in wanted), mode)


def _read(path: Path) -> tuple[str | None, int]:
    """Return the text and the mode of the file; None for the text of a missing file."""
    try:
        found = path.stat()
        if found.st_size > _MOST_BYTES:
            raise CannotInstall(f"{path} has more than {_MOST_BYTES} bytes")
        return path.read_text(errors="surrogateescape"), found.st_mode & 0o7777
    except FileNotFoundError:
        return None, 0o600
