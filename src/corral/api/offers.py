"""Objects that features offer to routes and to each other."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Offers:
    """Objects that are found by their class. If two objects have the same class, the later one is found."""

    def __init__(self, offered: Iterable[object] = ()) -> None:
        self._by_class: dict[type, object] = {type(one): one for one in offered}

    def __iter__(self) -> Iterator[object]:
        return iter(self._by_class.values())

    def find(self, kind: type[T]) -> T | None:
        """Return the object of exactly this class, or None."""
        found = self._by_class.get(kind)
        return found if isinstance(found, kind) else None

    def of(self, kind: type[T]) -> T:
        """Return the object of exactly this class. There must be one."""
        found = self._by_class[kind]
        assert isinstance(found, kind)
        return found
