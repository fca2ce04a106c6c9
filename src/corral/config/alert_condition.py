"""The language of alert conditions: `temperature_c > 85 and model == 'H100'`.

Series are compared with numbers, and labels with quoted text. `and` binds closer than `or`, and parentheses group. All
names in a condition belong to one kind of subject. The language has nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from corral.core.model.errors import Refused, nearest


class SubjectKind(StrEnum):
    """The kinds of subjects that a rule may judge."""

    DEVICE = "device"
    JOB = "job"
    QUEUE = "queue"
    NODE = "node"
    DISK = "disk"
    QUOTA = "quota"
    HISTORY = "history"


SERIES: Mapping[SubjectKind, tuple[str, ...]] = {
    SubjectKind.DEVICE: (
        "temperature_c", "utilization_pct", "memory_used_pct", "memory_used_mib", "memory_free_mib",
        "memory_bandwidth_pct", "power_w", "sm_clock_mhz", "mem_clock_mhz", "ecc_errors", "xid", "new_xid", "throttled",
        "unreadable", "unhealthy", "jobs",
    ),
    SubjectKind.JOB: ("waiting_s", "running_s", "gpus", "busiest_gpu_pct", "others_waiting"),
    SubjectKind.QUEUE: ("waiting_jobs", "running_jobs", "longest_wait_s", "since_start_s"),
    SubjectKind.NODE: ("silent", "gone", "starts_blocked"),
    SubjectKind.DISK: ("disk_free_mib", "disk_free_pct"),
    SubjectKind.QUOTA: ("gpu_hours_used_pct",),
    SubjectKind.HISTORY: ("history_stopped",),
}  # fmt: skip
"""The series (numbers) that a rule may judge, by the kind of subject. Each name belongs to one kind."""

WORDS: Mapping[SubjectKind, tuple[str, ...]] = {
    SubjectKind.DEVICE: ("model", "node"),
    SubjectKind.JOB: ("name", "project", "queue", "user"),
    SubjectKind.QUEUE: ("queue",),
    SubjectKind.NODE: ("node",),
    SubjectKind.QUOTA: ("project", "queue", "user"),
}
"""The labels that a rule may compare with == and !=, by the kind of subject."""

ORDERINGS = (">", ">=", "<", "<=")
MOST_CHARACTERS = 500
MOST_NESTED = 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a series or a label with a value. `operator` is one of > >= < <= == !=."""

    name: str
    operator: str
    value: float | str


@dataclass(frozen=True, slots=True)
class Every:
    """A condition that holds if all its parts hold."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """A condition that holds if at least one part holds."""

    parts: tuple["Condition", ...]


Condition: TypeAlias = Comparison | Every | Some


@dataclass(frozen=True, slots=True)
class When:
    """The condition under which a rule fires.

    Attributes:
        text: the condition as written.
        kind: the kind of its subjects.
    """

    text: str
    kind: SubjectKind
    condition: Condition

    def __str__(self) -> str:
        return self.text


def comparisons(condition: Condition) -> Iterator[Comparison]:
    """All comparisons of a condition, in written order."""
    if isinstance(condition, Comparison):
        yield condition
        return
    for part in condition.parts:
        yield from comparisons(part)


def parse_when(text: str) -> When:
    """Parse a condition. Raises Refused with the position of the error (from 1) and the nearest known name."""
    if len(text) > MOST_CHARACTERS:
        raise Refused(f"the condition has {len(text)} characters; at most {MOST_CHARACTERS} are allowed")
    reader = _Reader(text)
    condition = reader.read()
    if all(isinstance(one.value, str) for one in comparisons(condition)):
        raise Refused(f"{text!r:.80} compares no number; add a comparison, such as {_EXAMPLE}")
    return When(text, reader.kind(), condition)


def clearing_at(when: When, clear: float) -> Condition:
    """The condition with its threshold replaced by `clear`. An alert goes on firing while this condition holds.

    Raises Refused if the condition does not have exactly one threshold, or if `clear` is on the wrong side of it.
    """
    thresholds = [one for one in comparisons(when.condition) if one.operator in ORDERINGS]
    if len(thresholds) != 1:
        raise Refused(
            f"clear needs a condition with one threshold, such as {_EXAMPLE}, and {when.text!r:.80} has "
            f"{len(thresholds) or 'none'}"
        )
    (old,) = thresholds
    assert not isinstance(old.value, str)
    above = old.operator in (">", ">=")
    if clear > old.value if above else clear < old.value:
        side = "at most" if above else "at least"
        raise Refused(f"clear must be {side} {old.value:g}, the threshold, not {clear:g}: the alert would never end")
    return _replaced(when.condition, old, replace(old, value=clear))


def _replaced(condition: Condition, old: Comparison, new: Comparison) -> Condition:
    if isinstance(condition, Comparison):
        return new if condition is old else condition
    return replace(condition, parts=tuple(_replaced(part, old, new) for part in condition.parts))


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_EXAMPLE = "temperature_c > 85"
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>-?\d+(?:\.\d+)?)(?![\w.])|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<operator>>=|<=|==|!=|>|<)|(?P<paren>[()]))"
)
_OF_ALL = frozenset(name for names in (*SERIES.values(), *WORDS.values()) for name in names)


class _Reader:
    """Parser of one condition, by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0
        self._kinds: dict[SubjectKind, None] = dict.fromkeys(SubjectKind)
        self._first = ""

    def read(self) -> Condition:
        condition = self._either()
        if (token := self._peek()) is not None:
            raise self._wrong(token.at, f"{token.text!r:.40} does not belong here; write `and` or `or` between two")
        return condition

    def kind(self) -> SubjectKind:
        """The kind of subject that all names belong to. Every condition compares a series, so only one kind is left."""
        return next(iter(self._kinds))

    def _either(self) -> Condition:
        parts = [self._both()]
        while self._takes("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _both(self) -> Condition:
        parts = [self._part()]
        while self._takes("and"):
            parts.append(self._part())
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _part(self) -> Condition:
        if not self._takes("("):
            return self._comparison()
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise Refused(f"the condition has more than {MOST_NESTED} parentheses in each other")
        inner = self._either()
        self._depth -= 1
        if not self._takes(")"):
            raise self._wrong(self._end(), "a closing parenthesis is missing")
        return inner

    def _comparison(self) -> Comparison:
        name = self._expect("name", f"a series is missing; write such as {_EXAMPLE}")
        self._must_know(name)
        operator = self._expect("operator", "one of > >= < <= == != is missing after the name")
        if name.text in _WORDS:
            value = self._expect("text", f"{name.text} is compared with quoted text, such as 'a'")
            if operator.text in ORDERINGS:
                raise self._wrong(operator.at, f"{name.text} is no number; compare it with == or !=")
            return Comparison(name.text, operator.text, value.text[1:-1])
        number = self._expect("number", f"{name.text} is compared with a number without a unit, such as 85")
        return Comparison(name.text, operator.text, float(number.text))

    def _must_know(self, name: _Token) -> None:
        if name.text not in _OF_ALL:
            raise self._wrong(name.at, f"there is no series {name.text!r:.60}; {nearest(name.text, _OF_ALL)}")
        kinds = {kind: None for kind in self._kinds if name.text in (*SERIES[kind], *WORDS.get(kind, ()))}
        if not kinds:
            here = "|".join(kind for kind in SubjectKind if name.text in (*SERIES[kind], *WORDS.get(kind, ())))
            said = "|".join(self._kinds)
            raise self._wrong(name.at, f"{name.text} is of a {here}, and {self._first} of a {said}; make two rules")
        self._kinds = kinds
        self._first = self._first or name.text

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _takes(self, text: str) -> bool:
        token = self._peek()
        if token is None or token.text != text:
            return False
        self._next += 1
        return True

    def _expect(self, kind: str, missing: str) -> _Token:
        token = self._peek()
        if token is None or token.kind != kind:
            raise self._wrong(self._end() if token is None else token.at, missing)
        self._next += 1
        return token

    def _end(self) -> int:
        token = self._peek()
        return len(self._text) if token is None else token.at

    def _wrong(self, at: int, what: str) -> Refused:
        return _wrong(self._text, at, what)


_WORDS = frozenset(name for names in WORDS.values() for name in names)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise _wrong(text, start, f"{text[start : start + 20]!r} cannot be read; write such as {_EXAMPLE}")
        kind = str(found.lastgroup)
        yield _Token(kind, found[kind], found.start(kind))
        at = found.end()


def _wrong(text: str, at: int, what: str) -> Refused:
    return Refused(f"{text!r:.80}, character {at + 1}: {what}")
