"""How inference servers run on several nodes: the shell line that each member of the server's gang executes. Pure.

The file of an engine has its ways in `over_nodes`, the preferred one first.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from corral.core.model.units import is_whole

if TYPE_CHECKING:
    from corral.features.tuner.engines.inference_engine import InferenceEngine

Version = tuple[int, ...]

_VERSION = re.compile(r"\d+(?:\.\d+)+")
_OF_MEMBER = {
    "{members}": '"$WORLD_SIZE"',
    "{rank}": '"$RANK"',
    "{gpus}": '"$CORRAL_GPUS"',
    "{meeting}": '"$MASTER_ADDR:$MASTER_PORT"',
    "{meeting_host}": '"$MASTER_ADDR"',
    "{meeting_port}": '"$MASTER_PORT"',
}
"""The shell's words for placeholders in the words of a way: what Corral tells each member of a gang."""

_STAGES = "pipeline-parallel-size"


@dataclass(frozen=True, slots=True)
class OverNodes:
    """One way to run an engine on several nodes. Its words may have the placeholders of `_OF_MEMBER`.

    Attributes:
        since: the engine's first version with it; () for all versions.
        options: options of the server that choose this way. It adds them if a task has others of no such name.
        arguments: further arguments of the server; `of_others`: also these, on all members except the first.
        before: the command that the first member executes before its server; () for none.
        env: variables of the first member's server.
        awaited: the command that the other members repeat until it succeeds; () for none.
        joining: the command of the other members in place of the server; () if they execute the server too.
        refused: options that it does not support with a number above 1, and the option that lifts this; "" for none.
        stages_apart: whether it needs whole stages of the pipeline on each node, or whole nodes for each stage.
    """

    since: Version = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    of_others: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    awaited: tuple[str, ...] = ()
    joining: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    stages_apart: bool = False

    def line(self, server: Sequence[str], known: Mapping[str, str]) -> str:
        """Return the line for a POSIX shell. `known` has the shell's words for placeholders in the server's command."""
        parts = []
        if self.joining:
            wait = [f"until {_words(self.awaited)} >/dev/null 2>&1; do sleep 1; done"] if self.awaited else []
            others = "; ".join([*wait, f"exec {_words(self.joining)}"])
            parts.append(f'if [ "$RANK" != 0 ]; then {others}; fi')
        if self.before:
            parts.append(f"{_words(self.before)} || exit")
        parts += [f"export {name}={_words([value])}" for name, value in self.env.items()]
        serve = [known.get(word) or shlex.quote(word) for word in server]
        serve += [_words(self.arguments)] if self.arguments else []
        if self.of_others:
            parts.append(f'more=; [ "$RANK" = 0 ] || more={shlex.quote(" ".join(self.of_others))}')
            serve.append("$more")
        return "; ".join([*parts, f"exec {' '.join(serve)}"])


def read_over_nodes(data: Mapping[str, Any]) -> OverNodes:
    """Return one way as the file of an engine has it."""
    words = ("arguments", "of_others", "before", "awaited", "joining")
    return OverNodes(
        version_in(data.get("since", "")) or (),
        data.get("options", {}),
        **{name: tuple(data.get(name, ())) for name in words},
        env=data.get("env", {}),
        refused=data.get("refused", {}),
        stages_apart=data.get("stages_apart", False),
    )


def version_in(text: str) -> Version | None:
    """Return the first version in a text such as "v0.9.2-cu126" or "vLLM 0.33.0", None if it has none."""
    found = _VERSION.search(text)
    return None if found is None else tuple(map(int, found[0].split(".")))


def way_over_nodes(
    engine: "InferenceEngine", parameters: Mapping[str, Any], version: Version | None = None
) -> OverNodes | str:
    """Return the way of a combination on several nodes, or why there is none.

    Without a `version` it is that of the engine's file. A way whose options the parameters have is preferred.
    """
    given = engine.options(parameters)
    version = version or version_in(engine.taken_from) or ()
    for way in engine.over_nodes:
        if way.options and all(given.get(name) == value for name, value in way.options.items()):
            return way
    for way in engine.over_nodes:
        if version >= way.since and not way.options.keys() & given.keys():
            return way
    said = f"{engine.name} {'.'.join(map(str, version))}".strip()
    needs = [f"{name} {value}" for way in engine.over_nodes for name, value in way.options.items()]
    if not needs:
        return f"{said} runs on one node only"
    return f"{said} runs over several nodes only with {' or '.join(needs)}; remove that parameter, or set it so"


def why_not_over_nodes(
    engine: "InferenceEngine", parameters: Mapping[str, Any], members: int, version: Version | None = None
) -> str | None:
    """Return why a combination cannot run on this number of nodes, None if no reason is known."""
    way = way_over_nodes(engine, parameters, version)
    if isinstance(way, str):
        return way
    given = engine.options(parameters)
    for name, unless in way.refused.items():
        if _size(given, name) > 1 and not given.get(unless):
            remedy = f"set {unless}, or leave {name} out" if unless else f"leave {name} out"
            return f"{engine.name} does not support {name} over several nodes; {remedy}"
    stages = _size(given, _STAGES)
    if way.stages_apart and stages % members and members % stages:
        return f"{engine.name} does not divide {stages} stages ({_STAGES}) evenly over {members} nodes"
    return None


def _size(given: Mapping[str, Any], flag: str) -> int:
    value = str(given.get(flag, 1))
    return int(value) if is_whole(value) and int(value) > 0 else 1


def _words(words: Sequence[str]) -> str:
    return " ".join(_OF_MEMBER.get(word) or shlex.quote(word) for word in words)
