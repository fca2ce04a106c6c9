"""Findings about the files that submissions name, on the nodes where these may run, cached for a moment.

The preflight code for commands is loaded with the first job that asks for a GPU, so that a server starts without it.
"""

import posixpath
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.control.submitting.candidate_nodes import CandidateNodes
from corral.core.control.submitting.image_findings import ImageFinding, ImageFindings
from corral.core.control.submitting.node_files import NodeFiles
from corral.core.control.submitting.sweeps import first_of
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.script_copy import interpreter_of
from corral.core.model.jobs.submission import Submission
from corral.core.ports.host import Credentials, FileQuery, JobUser
from corral.core.preflight.program_lookup import CORRALS_OWN, FOUND, ProgramFinding, as_interpreter, search_path
from corral.core.preflight.script_argument import script_argument
from corral.untrusted import Unread, guarded

if TYPE_CHECKING:
    from corral.core.preflight.detect import Detection
    from corral.core.preflight.file_facts import FileFacts

TRUST_S = 2.0
"""The time for which findings are reused: a thousand submissions need only one look at their files."""
_REMEMBERED = 256

V = TypeVar("V")
_Key = tuple[
    tuple[str, ...],
    tuple[str, ...] | None,
    str,
    int,
    str | None,
    bool,
    tuple[str, ...],
    Credentials | None,
    tuple[str, ...],
]
_Kept = tuple[float, V]
"""A value, and when it was found."""


@dataclass(frozen=True, slots=True)
class NodeFindings:
    """Findings about the files of one submission on one node. None is unknown.

    Attributes:
        enterable: whether the job's user can work in the working directory.
        program: whether the job's program can be started.
        outputs: whether each directory for output files exists, by directory.
        script: whether the file exists that the command's interpreter has to run.
        detection: the facts about the command; not read for a job without GPUs.
    """

    enterable: bool | None = True
    detection: "Detection | None" = None
    program: ProgramFinding | None = FOUND
    outputs: tuple[tuple[str, bool | None], ...] = ()
    script: bool | None = True


@dataclass(frozen=True, slots=True)
class FileFindings:
    """Findings about the files of one submission, by node; nodes where the job could start soonest come first.

    There are no nodes if no suitable node answers, or if no files are inspected. `image` is the finding about the image
    of a container with GPUs; None without such a container.
    """

    nodes: Mapping[str, NodeFindings] = field(default_factory=dict)
    image: ImageFinding | None = None

    @property
    def unusable(self) -> bool:
        """Whether there are nodes, and the job's user can work in the working directory on none of them."""
        return bool(self.nodes) and all(found.enterable is False for found in self.nodes.values())

    @property
    def without_program(self) -> bool:
        """Whether the program can be started on no node that has the working directory."""
        programs = [found.program for found in self.nodes.values() if found.enterable is not False]
        return bool(programs) and all(program is not None and not program.found for program in programs)

    @property
    def without_script(self) -> bool:
        """Whether the interpreter's file exists on no node that has the working directory."""
        there = [found.script for found in self.nodes.values() if found.enterable is not False]
        return bool(there) and not any(one is not False for one in there)

    @property
    def missing_outputs(self) -> tuple[str, ...]:
        """The directories for output files that exist on no node with the working directory."""
        usable = [dict(found.outputs) for found in self.nodes.values() if found.enterable is not False]
        return tuple([name for name in (usable[0] if usable else ()) if all(one[name] is False for one in usable)])

    @property
    def _complete(self) -> bool:
        """Whether no file is missing that the job's user could create."""
        return not (self.unusable or self.without_program or self.without_script or self.missing_outputs)


class FileFindingsCache:
    """Inspects files, and caches the findings for a moment. Safe from any thread."""

    def __init__(
        self,
        files: NodeFiles,
        candidates: CandidateNodes,
        clock: Clock,
        *,
        know: Callable[[JobUser], None],
        images: ImageFindings,
        on_hosts: bool = True,
        default_image: str | None = None,
    ) -> None:
        """`know` finds out on which nodes no job of a user can run, before nodes are chosen for the user.

        Without `on_hosts` jobs run in containers, which have their own files, so no files are inspected. Those that
        name no image have the `default_image`.
        """
        self._know = know
        self._images = images
        self._default_image = default_image
        self._on_hosts = on_hosts
        self._files = files
        self._candidates = candidates
        self._clock = clock
        self._chosen: _Memory[tuple[str, ...]] = _Memory(clock)
        self._findings: _Memory[FileFindings] = _Memory(clock)
        self._facts: _Memory[FileFacts | None] = _Memory(clock)

    def cached(self, submissions: Sequence[Submission], caller: Caller) -> tuple[FileFindings, ...] | None:
        """Return the same as `inspect` if all findings are cached; None if a file would have to be read."""
        who = _credentials(caller)
        findings = []
        for submission in map(first_of, submissions):
            nodes = self._nodes_chosen(submission, caller.user)
            kept = None if nodes is None else self._findings.get(self._key(submission, nodes, who))
            if kept is None:
                return None
            findings.append(kept[1])
        return tuple(findings)

    def inspect(self, submissions: Sequence[Submission], caller: Caller) -> tuple[FileFindings, ...]:
        """Return the findings that the caller may see about the files of each submission. It may take as long as an
        inspection.

        Of a sweep only its first job's files are inspected.
        """
        self._know(JobUser(caller.user, caller.uid))
        submissions = [first_of(submission) for submission in submissions]
        who = _credentials(caller)
        keys = [self._key(submission, self._nodes_of(submission, caller.user), who) for submission in submissions]
        first = dict(zip(keys, submissions, strict=True))
        queries = {key: _queries_of(submission) for key, submission in first.items()}
        wanted: dict[str, dict[FileQuery, None]] = {}
        for key in first:
            for node in _nodes_in(key):
                wanted.setdefault(node, {}).update(dict.fromkeys(queries[key]))
        facts = self._answered(wanted, who)
        findings: dict[_Key, FileFindings] = {}
        for key, submission in first.items():
            named = {node: [facts[node][query] for query in queries[key]] for node in _nodes_in(key) if node in facts}
            findings[key] = replace(_findings_of(submission, named), image=self._image_finding(submission, caller.user))
            # A user who was refused creates the missing file and tries again at once.
            if findings[key]._complete:
                now = self._clock.monotonic()
                since = min((at for answers in named.values() for at, _ in answers), default=now)
                self._findings.put(key, (since, findings[key]))
        return tuple(findings[key] for key in keys)

    def _key(self, submission: Submission, nodes: tuple[str, ...], who: Credentials | None) -> _Key:
        return _key(submission, self._image_of(submission), nodes, who)

    def _image_of(self, submission: Submission) -> str | None:
        """Return the image of a container with GPUs; None for other submissions."""
        if submission.kind is not JobKind.RUN or not _wants_gpus(submission):
            return None
        named = None if submission.container is None else submission.container.image
        return named or (None if self._on_hosts else self._default_image)

    def _image_finding(self, submission: Submission, user: str) -> ImageFinding | None:
        image = self._image_of(submission)
        if image is None:
            return None
        return self._images.known(image) or self._images.read(image, self._candidates.of(submission, user))

    def _nodes_chosen(self, submission: Submission, user: str) -> tuple[str, ...] | None:
        """Return the nodes for the submission if they were chosen a moment ago, else None. () if no files are
        inspected.
        """
        own_files = submission.container is not None or submission.upload is not None
        if submission.kind is not JobKind.RUN or own_files or not self._on_hosts:
            return ()
        only = self._candidates.only()
        if only is not None:
            return only
        kept = self._chosen.get(_wish(submission, user))
        return None if kept is None else kept[1]

    def _nodes_of(self, submission: Submission, user: str) -> tuple[str, ...]:
        nodes = self._nodes_chosen(submission, user)
        if nodes is None:
            nodes = self._candidates.of(submission, user)
            self._chosen.put(_wish(submission, user), (self._clock.monotonic(), nodes))
        return nodes

    def _answered(
        self, wanted: Mapping[str, Mapping[FileQuery, None]], who: Credentials | None
    ) -> "dict[str, dict[FileQuery, _Kept[FileFacts | None]]]":
        """Return the finding of each query on each node, and its time; without nodes that did not answer while others
        did.
        """
        known: dict[str, dict[FileQuery, _Kept[FileFacts | None]]] = {node: {} for node in wanted}
        unknown: dict[str, list[FileQuery]] = {}
        for node, queries in wanted.items():
            for query in queries:
                kept = self._facts.get((node, query, who))
                if kept is None:
                    unknown.setdefault(node, []).append(query)
                else:
                    known[node][query] = kept
        found = self._files.inspect(unknown, who) if unknown else {}
        now = self._clock.monotonic()
        for node, asked in unknown.items():
            if node not in found:
                del known[node]
                continue
            for query in asked:
                facts = found[node].get(query)
                known[node][query] = now, facts
                if facts is None or not _is_missing(facts):
                    self._facts.put((node, query, who), (now, facts))
        return known


class _Memory(Generic[V]):
    """The newest values by key. A value is valid for TRUST_S. Safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept[V]] = OrderedDict()

    def get(self, key: Hashable) -> _Kept[V] | None:
        """Return the valid value of the key with the time at which it was found, None if there is none."""
        with self._lock:
            kept = self._kept.get(key)
        return kept if kept is not None and self._clock.monotonic() - kept[0] < TRUST_S else None

    def put(self, key: Hashable, kept: _Kept[V]) -> None:
        """Store a value with the time at which it was found."""
        with self._lock:
            self._kept[key] = kept
            self._kept.move_to_end(key)
            if len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)


def _queries_of(submission: Submission) -> tuple[FileQuery, ...]:
    """Return the queries: working directory, program and directories for output first, and last the facts about the
    command.
    """
    if submission.kind is not JobKind.RUN:
        return ()
    queries = [FileQuery(directory=submission.workdir)]
    start = _start_query(submission)
    if start is not None:
        queries.append(start)
    script = _script_query(submission)
    if script is not None:
        queries.append(script)
    queries += [FileQuery(directory=_seen_from(submission.workdir, name)) for name in _output_directories(submission)]
    if _wants_gpus(submission):
        from corral.core.preflight.command_line import read_command
        from corral.core.preflight.file_facts import file_query

        query = guarded(
            f"the command {submission.command[:1]!r:.60}",
            lambda: file_query(read_command(submission.command), submission.env, submission.workdir),
        )
        # An unreadable command falls back to a question about the working directory, which adds no facts about it.
        queries.append(FileQuery(directory=submission.workdir) if isinstance(query, Unread) else query)
    return tuple(queries)


def started_program(submission: Submission) -> str:
    """Return the executed program: that of the command, or the interpreter of a script that was copied."""
    if submission.script_text is None:
        return submission.command[0] if submission.command else ""
    program, *argument = interpreter_of(submission.script_text) or ("",)
    by_env = posixpath.basename(program) == "env" and argument and re.fullmatch(r"[^-=\s][^=\s]*", argument[0])
    return argument[0] if by_env else program


def _start_query(submission: Submission) -> FileQuery | None:
    program = started_program(submission)
    if not program or program in CORRALS_OWN:
        return None
    variables = (("PATH", search_path(submission.env)),)
    return FileQuery(start=program, workdir=submission.workdir, variables=variables)


def _script_query(submission: Submission) -> FileQuery | None:
    """Return the query for the file that the command's interpreter is to run. None if there is none, or the script is
    stored with the job.
    """
    found = None if submission.script_text is not None else script_argument(submission.command)
    if found is None:
        return None
    variables = (("PATH", search_path(submission.env)),) if found.on_path else ()
    return FileQuery(file=found.name, workdir=submission.workdir, variables=variables)


def _output_directories(submission: Submission) -> tuple[str, ...]:
    """Return the directories of the job's output files, without those whose names differ from job to job."""
    if submission.output is None and submission.error is None:
        return ()
    named = [posixpath.dirname(pattern) for pattern in (submission.output, submission.error) if pattern is not None]
    return tuple(dict.fromkeys(directory for directory in named if directory and "%" not in directory))


def _seen_from(workdir: str, name: str) -> str:
    return posixpath.join(workdir, name)


def _is_missing(facts: "FileFacts") -> bool:
    return facts.enterable is False or facts.exists is False or (facts.start is not None and not facts.start.found)


def _findings_of(submission: Submission, named: "Mapping[str, Sequence[_Kept[FileFacts | None]]]") -> FileFindings:
    queries = _queries_of(submission)
    return FileFindings(
        {
            node: _on_node(submission, dict(zip(queries, [facts for _, facts in kept], strict=True)))
            for node, kept in named.items()
        }
    )


def _on_node(submission: Submission, facts: "Mapping[FileQuery, FileFacts | None]") -> NodeFindings:
    def enterable(directory: str) -> bool | None:
        found = facts[FileQuery(directory=directory)]
        return None if found is None else found.enterable

    outputs = tuple(
        [(name, enterable(_seen_from(submission.workdir, name))) for name in _output_directories(submission)]
    )
    start = _start_query(submission)
    started = None if start is None else facts[start]
    program = FOUND if start is None else None if started is None else started.start
    if submission.script_text is not None and program is not None:
        program = as_interpreter(program, started_program(submission))
    named = _script_query(submission)
    found_script = None if named is None else facts[named]
    script = True if named is None else None if found_script is None else found_script.exists
    findings = NodeFindings(enterable(submission.workdir), None, program, outputs, script)
    brought = list(facts.values())[-1] if _wants_gpus(submission) else None
    if brought is None:
        return findings
    from corral.core.preflight.command_line import read_command
    from corral.core.preflight.detect import detection

    found = guarded(
        f"the command {submission.command[:1]!r:.60} and its files",
        lambda: detection(read_command(submission.command), submission.env, brought),
    )
    return findings if isinstance(found, Unread) else replace(findings, detection=found)


def _wants_gpus(submission: Submission) -> bool:
    return bool(submission.request.devices or submission.resources)


def _key(submission: Submission, image: str | None, nodes: tuple[str, ...], who: Credentials | None) -> _Key:
    """Return all values that the findings of a submission depend on; empty for other kinds of jobs."""
    if submission.kind is not JobKind.RUN:
        return (), None, "", 0, None, False, (), None, ()
    env = hash(frozenset(submission.env.items()))
    outputs = _output_directories(submission)
    runs = None if submission.script_text is None else interpreter_of(submission.script_text)
    return submission.command, runs, submission.workdir, env, image, _wants_gpus(submission), outputs, who, nodes


def _nodes_in(key: _Key) -> tuple[str, ...]:
    return key[-1]


def _wish(submission: Submission, user: str) -> Hashable:
    """Return all values that a submission's candidate nodes depend on."""
    named = tuple(sorted(submission.resources.items()))
    return user, submission.project, submission.request, submission.speeds, submission.exclusive, named


def _credentials(caller: Caller) -> Credentials | None:
    if caller.uid is None or caller.gid is None:
        return None
    return Credentials(caller.uid, caller.gid, caller.groups, caller.user)
