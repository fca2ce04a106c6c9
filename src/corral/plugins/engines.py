"""Engines that bring nodes, registered in the entry point group `corral.engines`.

Each entry point is a function. It takes the server's `Home`, its `Settings` and its `SystemClock`, and returns a
`corral.core.ports.engine.NodeEngine`.
"""

from collections.abc import Callable
from importlib.metadata import entry_points

from corral.clock import SystemClock
from corral.config import Settings
from corral.core.model.errors import Refused, nearest
from corral.core.model.home import Home
from corral.core.ports.engine import NodeEngine

GROUP = "corral.engines"

MakeEngine = Callable[[Home, Settings, SystemClock], NodeEngine]


def load_engine(name: str) -> MakeEngine:
    """The function that makes the engine of this name. Raises Refused if it does not exist or cannot be loaded."""
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in entries:
        raise Refused(f"engine: {name!r:.60} is not an engine; {nearest(name, entries)}", field="engine")
    try:
        make: MakeEngine = entries[name].load()
    except Exception as error:
        raise Refused(f"the engine {name!r} of {entries[name].value} cannot be loaded: {error}") from error
    if not callable(make):
        raise Refused(f"the engine {name!r} of {entries[name].value} is not a function")
    return make
