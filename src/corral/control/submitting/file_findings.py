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
from corral.ports.host import Credentials, FileInspector, FileQuery

if TYPE_CHECKING:
    from corral.preflight.detect import Detection
    from corral.preflight.file_facts import FileFacts

TRUST_S = 2.0
"""What was found out is taken to hold for so long: a thousand submissions have their files looked at once."""
_REMEMBERED = 256

V = TypeVar("V")
_Key = tuple[tuple[str, ...], str, int, bool, Credentials | None]


@dataclass(frozen=True, slots=True)
class FileFindings:
    """What the files of one submission tell; None is not known.

    Attributes:
        enterable: whether its owner can work in the working directory.
        detection: what the command brings; that of a job without GPUs is not looked for.
    """

    enterable: bool | None = True
    detection: "Detection | None" = None


class FileFindingsCache:
    """Has files inspected, and remembers for a moment what was found. Safe from any thread."""

    def __init__(self, inspector: "FileInspector[FileFacts]", clock: Clock) -> None:
        self._inspector = inspector
        self._clock = clock
        self._findings: _Memory[FileFindings] = _Memory(clock)
        self._facts: _Memory[FileFacts | None] = _Memory(clock)

    def cached(self, submissions: Sequence[Submission], caller: Caller) -> tuple[FileFindings, ...] | None:
        """As `inspect`, where all of it was found a moment ago; None where anything would have to be read."""
        who = _credentials(caller)
        found = tuple(self._findings.get(_key(submission, who)) for submission in submissions)
        return None if None in found else tuple(kept[1] for kept in found if kept)

    def inspect(self, submissions: Sequence[Submission], caller: Caller) -> tuple[FileFindings, ...]:
        """What the caller may see of the files of each submission. May take as long as an inspection may."""
        who = _credentials(caller)
        keys = [_key(submission, who) for submission in submissions]
        queries = {
            key: _queries_of(submission) for key, submission in dict(zip(keys, submissions, strict=True)).items()
        }
        facts = self._answered(dict.fromkeys(query for named in queries.values() for query in named), who)
        findings: dict[_Key, FileFindings] = {}
        for key, submission in zip(keys, submissions, strict=True):
            if key not in findings:
                named = [facts[query] for query in queries[key]]
                findings[key] = _findings_of(submission, [found for _, found in named])
                if findings[key].enterable is not False:
                    since = min((at for at, _ in named), default=self._clock.monotonic())
                    self._findings.put(key, (since, findings[key]))
        return tuple(findings[key] for key in keys)

    def _answered(
        self, queries: Iterable[FileQuery], who: Credentials | None
    ) -> "Mapping[FileQuery, tuple[float, FileFacts | None]]":
        """What each of these queries found, and when."""
        seen = {query: self._facts.get((query, who)) for query in queries}
        unseen = [query for query, kept in seen.items() if kept is None]
        found = self._inspector.inspect(unseen, who) if unseen else {}
        now = self._clock.monotonic()
        for query in unseen:
            facts = found.get(query)
            seen[query] = now, facts
            # Who was refused a directory makes it and asks again at once.
            if facts is None or facts.enterable is not False:
                self._facts.put((query, who), (now, facts))
        return {query: kept for query, kept in seen.items() if kept is not None}


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


def _queries_of(submission: Submission) -> tuple[FileQuery, ...]:
    """At the working directory, then at what the command brings. What runs no job of ours needs none."""
    if submission.kind is not JobKind.RUN:
        return ()
    directory = FileQuery(directory=submission.workdir)
    if not _wants_gpus(submission):
        return (directory,)
    from corral.preflight.command_line import read_command
    from corral.preflight.file_facts import file_query

    return directory, file_query(read_command(submission.command), submission.env, submission.workdir)


def _findings_of(submission: Submission, facts: "Sequence[FileFacts | None]") -> FileFindings:
    if not facts:
        return FileFindings()
    enterable = None if facts[0] is None else facts[0].enterable
    if len(facts) == 1 or facts[1] is None:
        return FileFindings(enterable)
    from corral.preflight.command_line import read_command
    from corral.preflight.detect import detection

    return FileFindings(enterable, detection(read_command(submission.command), submission.env, facts[1]))


def _wants_gpus(submission: Submission) -> bool:
    return bool(submission.request.devices or submission.resources)


def _key(submission: Submission, who: Credentials | None) -> _Key:
    """What decides the findings of a submission; of a job of another kind nothing does."""
    if submission.kind is not JobKind.RUN:
        return (), "", 0, False, None
    env = hash(frozenset(submission.env.items()))
    return submission.command, submission.workdir, env, _wants_gpus(submission), who


def _credentials(caller: Caller) -> Credentials | None:
    if caller.uid is None or caller.gid is None:
        return None
    return Credentials(caller.uid, caller.gid, caller.groups)
