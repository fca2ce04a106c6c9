"""Drafts: mutable copies of frozen values, to which a batch of deltas is applied."""

from typing import Any, Generic, TypeVar

V = TypeVar("V")


class DraftOf(Generic[V]):
    """A draft of a value. It copies a mapping the first time it changes, so that a batch of deltas costs one copy.

    `value`, the value so far, may be read between deltas; it is only valid until the next one. `freeze` ends the draft.
    """

    def __init__(self, base: V) -> None:
        self.value = _copy(base)
        self._owned: dict[str, dict[Any, Any]] = {}

    def put(self, mapping: str, key: Any, value: Any) -> None:
        """Set a key of a mapping on which no other attribute depends."""
        self._own(mapping)[key] = value

    def drop(self, mapping: str, key: Any) -> None:
        """Remove a key of a mapping on which no other attribute depends. Does nothing if the key is missing."""
        self._own(mapping).pop(key, None)

    def amend(self, **attributes: Any) -> None:
        """Replace whole attributes."""
        for name in attributes:
            self._owned.pop(name, None)
        vars(self.value).update(attributes)

    def freeze(self) -> V:
        """The finished value."""
        self._owned = {}
        return self.value

    def _own(self, name: str) -> dict[Any, Any]:
        owned = self._owned.get(name)
        if owned is None:
            owned = self._owned[name] = dict(getattr(self.value, name))
            vars(self.value)[name] = owned
        return owned


def _copy(value: V) -> V:
    """`dataclasses.replace` without its walk over every field."""
    copy: V = object.__new__(type(value))
    vars(copy).update(vars(value))
    return copy
