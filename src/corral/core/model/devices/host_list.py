"""Lists of nodes as Slurm writes them: "gpu-[01-03,07],login"."""

from __future__ import annotations

import re

from corral.core.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_HOSTS = 1_000
"""The most nodes in a list; a longer list is considered a mistake."""

_BETWEEN = r",(?![^\[]*\])"
_RANGE = r"([0-9]{1,9})(?:-([0-9]{1,9}))?"


def expand_hosts(text: str, *, field: str = "nodes") -> tuple[str, ...]:
    """The names in a list, each once, in the order of the list. Raises Refused for an invalid list."""
    names: dict[str, None] = {}
    for word in re.split(_BETWEEN, text):
        for name in _names(word.strip(), text, field):
            names[name] = None
            if len(names) > MOST_HOSTS:
                raise Refused(f"{field}: {text!r:.60} names more than {MOST_HOSTS} nodes", field=field)
    return tuple(names)


def _names(word: str, text: str, field: str) -> Iterator[str]:
    """The names that one word stands for. The word may have several brackets."""
    before, bracket, rest = word.partition("[")
    inside, closed, after = rest.partition("]")
    if not word or "]" in before or (bracket and not closed):
        raise Refused(
            f"{field}: {text!r:.60} is not a list of nodes; write names with commas, such as gpu-01,gpu-02 or "
            "gpu-[01-03,07]",
            field=field,
        )
    if not bracket:
        yield word
        return
    for number in _numbers(inside, text, field):
        for end in _names(after, text, field) if after else ("",):
            yield before + number + end


def _numbers(inside: str, text: str, field: str) -> Iterator[str]:
    """The numbers of a bracket, with as many digits as the first number of each range."""
    for part in inside.split(","):
        found = re.fullmatch(_RANGE, part.strip())
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise Refused(
                f"{field}: [{inside:.40}] in {text!r:.60} is not a list of numbers; write one such as [01-03,07]",
                field=field,
            )
        for number in range(int(found[1]), int(found[2] or found[1]) + 1):
            yield str(number).zfill(len(found[1]))
