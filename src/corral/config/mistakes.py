"""Mistakes in settings: their places, and how to report all of them at once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from corral.config.readers import without_prefix
from corral.core.model.errors import Refused

MOST_TOLD = 20
"""The most mistakes that are reported at once."""


class Placed(Refused):
    """A Refused whose message already names file and line."""


class Mistakes(Placed):
    """Several mistakes, reported together. `found` has each of them, at most MOST_TOLD."""

    def __init__(self, found: Sequence[Refused]) -> None:
        self.found = tuple(found[:MOST_TOLD])
        super().__init__("; ".join(map(str, self.found)), field=self.found[0].field)


class Collecting:
    """Collects mistakes, so that all mistakes of a file are reported at once, up to MOST_TOLD."""

    def __init__(self) -> None:
        self._found: list[Refused] = []

    @contextmanager
    def at(self, place: str = "", *, field: str | None = None) -> Iterator[None]:
        """Record a mistake in the block. `place` is put before a message that does not name file and line."""
        try:
            yield
        except Refused as refused:
            for one in mistakes_in(refused):
                placed = isinstance(one, Placed) or not place
                self._found.append(
                    one if placed else Placed(f"{place}: {without_prefix(str(one))}", field=field or one.field)
                )
        if len(self._found) >= MOST_TOLD:
            self.tell()

    def tell(self) -> None:
        """Raise the collected mistakes: Refused for one, Mistakes for several."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise Mistakes(self._found)


def mistakes_in(refused: Refused) -> tuple[Refused, ...]:
    """The single mistakes in a report."""
    return refused.found if isinstance(refused, Mistakes) else (refused,)
