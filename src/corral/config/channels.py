"""Read channels. Their URLs are secrets: no message shows one, and other users must not be able to read the file."""

import re
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.channel_url import LOCAL_KINDS, Channel, kind_of
from corral.config.groups import line_of, lines_of
from corral.config.mistakes import Placed
from corral.core.model.errors import Refused

if TYPE_CHECKING:
    from yaml.nodes import Node, ScalarNode

MOST_CHANNELS = 50

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_KIND = re.compile(r"[a-z][a-z0-9+.-]{0,31}", re.ASCII)
_OTHERS_READ, _OTHERS_ENTER = 0o004, 0o001


def read_channels(path: Path, node: "Node") -> tuple[Channel, ...]:
    """Read lines such as `ops: slack://...`. Raises Refused also if every user of this machine can read the file."""
    from yaml.nodes import ScalarNode

    found: dict[str, Channel] = {}
    for key, value in lines_of(node).value:
        place = f"{path}, {line_of(key)}: channels"
        if not isinstance(key, ScalarNode) or not _NAME.fullmatch(str(key.value)):
            raise Placed(f"{place}: name a channel in letters, digits and . _ -, such as `ops: URL`", field="channels")
        name = str(key.value)
        if name in found:
            raise Placed(f"{place}.{name} is given twice; remove one of the two", field="channels")
        if not isinstance(value, ScalarNode):
            raise Placed(f"{place}.{name}: write one URL, such as `ops: jsons://HOST/PATH`", field="channels")
        found[name] = Channel(name, str(value.value).strip())
        try:
            kind_of(found[name].url)
        except Refused as refused:
            raise Placed(f"{place}.{name}: {refused}", field="channels") from None
    if len(found) > MOST_CHANNELS:
        raise Refused(f"there are {len(found)} channels; at most {MOST_CHANNELS} are allowed")
    if found and _read_by_others(path):
        raise Refused(f"its URLs are secrets, and every user of this machine can read the file; chmod o-r {path}")
    return tuple(found.values())


def kind(node: "ScalarNode") -> str:
    """Read a kind of URL that channels of users may have."""
    said = str(node.value).removesuffix("://").lower()
    if not _KIND.fullmatch(said):
        raise Refused(f"{node.value!r:.60} is not a kind of URL; write what comes before ://, such as slack")
    if said in LOCAL_KINDS:
        raise Refused(f"{said} acts on the server's own machine, which no user's channel may; remove it")
    return said


def network(node: "ScalarNode") -> str:
    """Read a network that channels of users may reach."""
    try:
        return str(ip_network(str(node.value)))
    except ValueError:
        raise Refused(f"{node.value!r:.60} is not a network; write one such as 10.1.0.0/16 or 10.1.2.3/32") from None


def _read_by_others(path: Path) -> bool:
    """Whether users other than the file's owner and group can reach the file and read it."""
    try:
        return bool(path.stat().st_mode & _OTHERS_READ and path.resolve().parent.stat().st_mode & _OTHERS_ENTER)
    except OSError:
        return False
