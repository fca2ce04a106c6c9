"""What callers may see of the files that their submissions name, remembered for a moment.

What preflight knows of commands is loaded with the first job that asks for a GPU, so that a server starts without it.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from corral.access.caller import Caller
from corral.clock import Clock
from corral.model.job import JobKind
from corral.model.submission import Submission
from corral.ports import Credentials, Look, Looks

if TYPE_CHECKING:
    from corral.preflight.detect import Detection
    from corral.preflight.looking import FileFacts

TRUST_S = 2.0
"""What was found out is taken to hold for so long: a thousand submissions have their files looked at once."""
_REMEMBERED = 256

V = TypeVar("V")
_Key = tuple[tuple[str, ...], str, int, bool, Credentials | None]


@dataclass(frozen=True, slots=True)
class Sight:
    """What the files of one submission tell; None is not known.

    Attributes:
        enterable: whether its owner can work in the working directory.
        detection: what the command brings; that of a job without GPUs is not looked for.
    """

    enterable: bool | None = True
    detection: "Detection | None" = None


class Sights:
    """Has files looked at. Safe from any thread."""

    def __init__(self, looks: "Looks[FileFacts]", clock: Clock) -> None:
        self._looks = looks
        self._clock = clock
        self._sights: _Memory[Sight] = _Memory(clock)
        self._facts: _Memory[FileFacts | None] = _Memory(clock)

    def known(self, submissions: Sequence[Submission], caller: Caller) -> tuple[Sight, ...] | None:
        """As `look`, where all of it was found a moment ago; None where anything would have to be looked at."""
        who = _credentials(caller)
        found = tuple(self._sights.get(_key(submission, who)) for submission in submissions)
        return None if None in found else tuple(kept[1] for kept in found if kept)

    def look(self, submissions: Sequence[Submission], caller: Caller) -> tuple[Sight, ...]:
        """What the caller may see of the files of each submission. May take as long as a look may."""
        who = _credentials(caller)
        keys = [_key(submission, who) for submission in submissions]
        looks = {key: _looks_of(submission) for key, submission in dict(zip(keys, submissions, strict=True)).items()}
        facts = self._seen(dict.fromkeys(look for named in looks.values() for look in named), who)
        sights: dict[_Key, Sight] = {}
        for key, submission in zip(keys, submissions, strict=True):
            if key not in sights:
                named = [facts[look] for look in looks[key]]
                sights[key] = _sight(submission, [found for _, found in named])
                if sights[key].enterable is not False:
                    since = min((at for at, _ in named), default=self._clock.monotonic())
                    self._sights.put(key, (since, sights[key]))
        return tuple(sights[key] for key in keys)

    def _seen(self, looks: Iterable[Look], who: Credentials | None) -> "Mapping[Look, tuple[float, FileFacts | None]]":
        """What each of these looks found, and when."""
        seen = {look: self._facts.get((look, who)) for look in looks}
        unseen = [look for look, kept in seen.items() if kept is None]
        found = self._looks.at(unseen, who) if unseen else {}
        now = self._clock.monotonic()
        for look in unseen:
            facts = found.get(look)
            seen[look] = now, facts
            # Who was refused a directory makes it and asks again at once.
            if facts is None or facts.enterable is not False:
                self._facts.put((look, who), (now, facts))
        return {look: kept for look, kept in seen.items() if kept is not None}


class _Memory(Generic[V]):
    """The newest values by key, each for as long as it is trusted. Safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def get(self, key: Hashable) -> tuple[float, V] | None:
        """The value and when it was found."""
        with self._lock:
            kept = self._kept.get(key)
        return kept if kept is not None and self._clock.monotonic() - kept[0] < TRUST_S else None

    def put(self, key: Hashable, kept: tuple[float, V]) -> None:
        """Keep a value with the time when it was found."""
        with self._lock:
            self._kept[key] = kept
            self._kept.move_to_end(key)
            if len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)


def _looks_of(submission: Submission) -> tuple[Look, ...]:
    """At the working directory, then at what the command brings. What runs no job of ours needs none."""
    if submission.kind is not JobKind.RUN:
        return ()
    directory = Look(directory=submission.workdir)
    if not _wants_gpus(submission):
        return (directory,)
    from corral.preflight.command_line import read_command
    from corral.preflight.looking import look_of

    return directory, look_of(read_command(submission.command), submission.env, submission.workdir)


def _sight(submission: Submission, facts: "Sequence[FileFacts | None]") -> Sight:
    if not facts:
        return Sight()
    enterable = None if facts[0] is None else facts[0].enterable
    if len(facts) == 1 or facts[1] is None:
        return Sight(enterable)
    from corral.preflight.command_line import read_command
    from corral.preflight.detect import detection

    return Sight(enterable, detection(read_command(submission.command), submission.env, facts[1]))


def _wants_gpus(submission: Submission) -> bool:
    return bool(submission.request.devices or submission.resources)


def _key(submission: Submission, who: Credentials | None) -> _Key:
    """What decides the sight of a submission; of a job of another kind nothing does."""
    if submission.kind is not JobKind.RUN:
        return (), "", 0, False, None
    env = hash(frozenset(submission.env.items()))
    return submission.command, submission.workdir, env, _wants_gpus(submission), who


def _credentials(caller: Caller) -> Credentials | None:
    if caller.uid is None or caller.gid is None:
        return None
    return Credentials(caller.uid, caller.gid, caller.groups)
