"""Mistakes in a script, collected so that all of them are reported at once."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from corral.core.model.errors import Refused


class Mistaken(Refused):
    """A script has several mistakes, each with its line."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


class ScriptMistakes:
    """The mistakes found so far."""

    def __init__(self) -> None:
        self._found: list[Refused] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, message: str) -> None:
        """Add a mistake."""
        self._found.append(Refused(message))

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Record an error of the type Refused inside the context as a mistake, and continue after it."""
        try:
            yield
        except Refused as refused:
            self._found.append(refused)

    def refuse(self) -> None:
        """Raises Refused for a single mistake, Mistaken for several, in the order of their lines."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise Mistaken(tuple(sorted(map(str, self._found), key=_line)))


def _line(mistake: str) -> int:
    found = re.match(r".*?, line (\d+)", mistake)
    return int(found[1]) if found else 0
