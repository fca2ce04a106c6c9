"""Jobs by their ids: list, explain, read, change."""

import time
from codecs import iterdecode
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from corral.client.connecting.transport import Transport, job_path
from corral.client.submitting.arguments import (
    JobId,
    flag,
    job_id_of,
    job_ids,
    number,
    one_job_id,
    optional,
    text,
    texts,
    whole,
    wrong,
)
from corral.core.model.units import parse_time_limit_s
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.client.inner_process import InnerProcess
    from corral.core.model.answers.history import JobGpusHistory, JobHistory
    from corral.core.model.answers.job_changes import ChangedJobs, InputProgress
    from corral.core.model.answers.job_details import Explanation, JobDetail
    from corral.core.model.answers.jobs import JobRow

INPUT_TIMEOUT_S = 40.0
"""A job that takes no input is waited for by the server."""

_VERBS = ("cancel", "hold", "release", "requeue")


class Jobs:
    """Lists and changes jobs.

    An id is text or a whole number, or a handle or row that has it. For changes, an array's id stands for all its
    elements, and one such as "17_[3-9]" for some of them.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self,
        *,
        all: bool = False,
        user: str | None = None,
        phase: str | None = None,
        name: str | None = None,
        array: JobId | None = None,
        limit: int | None = 100,
        starts: bool = False,
        queue: str | None = None,
        since: float | None = None,
        sort: str | None = None,
        project: str | None = None,
        means: str | None = None,
    ) -> "tuple[JobRow, ...]":
        """Jobs that wait or run, with `all` also those that ended, newest first; at most `limit` (None: every one).

        `user`, `phase`, `queue`, `project` and `name` may be several, separated by commas; the user "me" is oneself,
        and "sweep-*" every name that begins so. `since` are those submitted then or later (Unix seconds). `sort` is
        another order: "started", or "-started" for the latest first. With `starts`, the expected start of all that
        wait, as far as it can be told. `means` are those that hold their GPUs so: "exclusive" is whole ones.
        """
        from corral.core.model.answers.jobs import JobRow
        from corral.core.model.jobs.job_sort import parse_sort, sorted_rows

        order = None if sort is None else parse_sort(text(sort, "sort", "'-started'"))
        most = optional(whole, limit, "limit", "100")
        answer = self._transport.get(
            "/jobs",
            all=flag(all, "all"),
            user=optional(text, user, "user", "'me'"),
            phase=optional(text, phase, "phase", "'RUNNING'"),
            name=optional(text, name, "name", "'sweep-*'"),
            array=optional(job_id_of, array, "array"),
            limit=most or 0,
            starts=flag(starts, "starts") or None,
            queue=optional(text, queue, "queue", "'default'"),
            project=optional(text, project, "project", "'default'"),
            means=optional(text, means, "means", "'mps'"),
            since=_moment(since),
            sort=None if limit is None else sort,
        )
        rows = tuple(from_answer(JobRow, job) for job in answer["jobs"])
        # All that there are come page by page, newest first.
        return rows if order is None or limit is not None else tuple(sorted_rows(rows, order, time.time()))

    def get(self, job_id: JobId) -> "JobDetail":
        """Everything about a job: its row, what it asked for and has, its members and its attempts."""
        from corral.core.model.answers.job_details import JobDetail

        return from_answer(JobDetail, self._transport.get(job_path(job_id)))

    def history(
        self,
        job_id: JobId,
        range: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        series: str | Sequence[str] = (),
    ) -> "JobHistory":
        """What its devices were like while it had them, as `Devices.history`; of one that is shared, what was its own.

        Without a range or times it is its last run, from its start to its end. A job may have ended.
        """
        from corral.client.history import read_history
        from corral.core.model.answers.history import JobHistory

        path = ["jobs", one_job_id(job_id)]
        return read_history(self._transport, JobHistory, path, range=range, since=since, until=until, series=series)

    def gpus_history(
        self, job_id: JobId, *, since: float | None = None, until: float | None = None
    ) -> "JobGpusHistory":
        """What each GPU of its last attempt was like, between two times (Unix seconds) or over all of the attempt."""
        from corral.client.history import read_history
        from corral.core.model.answers.history import JobGpusHistory

        path = ["jobs", one_job_id(job_id), "gpus"]
        return read_history(self._transport, JobGpusHistory, path, range=None, since=since, until=until, series=())

    def why(self, job_id: JobId) -> "Explanation":
        """Why it waits, its place in the queue, and what would start it now; later, how long it waited for what."""
        from corral.core.model.answers.job_details import Explanation

        return from_answer(Explanation, self._transport.get(job_path(job_id, "why")))

    def logs(
        self,
        job_id: JobId,
        *,
        follow: bool = False,
        offset: int = 0,
        rank: int | Literal["all"] = 0,
        tail: int | None = None,
        since: float | None = None,
    ) -> Iterator[str]:
        """What the job has written, standard output and error together, in pieces of text: from byte `offset` on, or
        its last `tail` lines, or what it wrote `since` a moment (Unix seconds; some seconds more may come), or both.
        What is no UTF-8 is shown as U+FFFD; `logs_bytes` has it as it is.

        Of a gang it is the member of this rank; "all" gives whole lines of all members, with the rank before each.
        With `follow` it goes on until the job has ended and all is read. Raises NoServer if it breaks off before.
        """
        blocks = self.logs_bytes(job_id, follow=follow, offset=offset, rank=rank, tail=tail, since=since)
        return (text for text in iterdecode(blocks, "utf-8", errors="replace") if text)

    def logs_bytes(
        self,
        job_id: JobId,
        *,
        follow: bool = False,
        offset: int = 0,
        rank: int | Literal["all"] = 0,
        tail: int | None = None,
        since: float | None = None,
    ) -> Iterator[bytes]:
        """As `logs`, in blocks of bytes as the job wrote them."""
        return self._transport.stream(
            job_path(job_id, "logs"),
            follow=flag(follow, "follow"),
            offset=whole(offset, "offset") or None,
            rank=_rank(rank) or None,
            tail=optional(whole, tail, "tail", "100"),
            since=_moment(since),
        )

    def cancel(self, job_id: JobId) -> tuple[str, ...]:
        """Stop it, or remove it from the queue. Returns the ids of the changed jobs, as the next three do."""
        return self._act(job_id, "cancel")

    def update(
        self,
        job_id: JobId,
        *,
        priority: int | None = None,
        time: str | float | None = None,
        name: str | None = None,
        queue: str | None = None,
    ) -> tuple[str, ...]:
        """Give a job that has not ended other values, all of them or none; the ids of the jobs that have them now.

        `time` is a time limit, "2h" or seconds. What is None stays as it is. Raises Conflict once the job has ended.
        """
        given = {
            "priority": optional(whole, priority, "priority"),
            "time_limit_s": None if time is None else _seconds(time),
            "name": optional(text, name, "name", "'sft'"),
            "queue": optional(text, queue, "queue", "'default'"),
        }
        body = {key: value for key, value in given.items() if value is not None}
        return tuple(self._transport.patch(job_path(job_id), body)["ids"])

    def hold(self, job_id: JobId) -> tuple[str, ...]:
        """Keep it waiting until it is released."""
        return self._act(job_id, "hold")

    def release(self, job_id: JobId) -> tuple[str, ...]:
        """Let a job on hold start again; or end a reservation, which counts as a success."""
        return self._act(job_id, "release")

    def requeue(self, job_id: JobId) -> tuple[str, ...]:
        """Stop a running job and queue it again, or queue a failed or lost one again."""
        return self._act(job_id, "requeue")

    def change(
        self,
        verb: Literal["cancel", "hold", "release", "requeue"],
        ids: JobId | Iterable[JobId] = (),
        *,
        user: str | None = None,
        name: str | None = None,
        array: JobId | None = None,
        phase: str | Iterable[str] = (),
        before: int | None = None,
        dry_run: bool = False,
    ) -> "ChangedJobs":
        """Change many jobs: those of `ids`, of which the rest chooses some, or else all that it chooses.

        Without ids these are the caller's own (`user` "me"), or of another user for administrators. `name` may be a
        pattern such as "sweep-*". A server changes 10,000 at once, the newest first; `next` of the answer is then the
        `before` of the next call. With `dry_run` it only tells what it would change.
        """
        from corral.core.model.answers.job_changes import ChangedJobs

        if verb not in _VERBS:
            raise wrong(verb, "verb", f"one of {', '.join(_VERBS)}", "'cancel'")
        chosen: dict[str, Any] = {
            "user": optional(text, user, "user", "'me'"),
            "name": optional(text, name, "name", "'sweep-*'"),
            "array": optional(job_id_of, array, "array"),
            "before": optional(whole, before, "before"),
        }
        given = {key: value for key, value in chosen.items() if value is not None}
        phases = texts(phase, "phase", "['PENDING']")
        body = {"ids": list(job_ids(ids)), "phase": list(phases), "dry_run": flag(dry_run, "dry_run"), **given}
        return from_answer(ChangedJobs, self._transport.post(f"/jobs/{verb}", body))

    def signal(self, job_id: JobId, name: str) -> None:
        """Send a signal ("INT", "TERM", "HUP", "QUIT", "USR1" or "USR2") to its processes; Conflict if none run."""
        self._transport.post(job_path(job_id, "signal"), {"signal": text(name, "name", "'INT'")})

    def write_input(self, job_id: JobId, data: bytes = b"", *, offset: int, end: bool = False) -> "InputProgress":
        """Send the part of its input from byte `offset` on, 64 KiB at most; with `end` there is no more after it.

        Returns how much it has taken by then, which may be none after ten seconds. Safe to repeat.
        """
        from corral.core.model.answers.job_changes import InputProgress

        if not isinstance(data, bytes | bytearray | memoryview):
            raise wrong(data, "data", "bytes", "b'yes\\n'")
        answer = self._transport.post_bytes(
            job_path(job_id, "input"),
            bytes(data),
            timeout_s=INPUT_TIMEOUT_S,
            offset=whole(offset, "offset"),
            end=flag(end, "end") or None,
        )
        return from_answer(InputProgress, answer)

    def resize_terminal(self, job_id: JobId, rows: int, columns: int) -> None:
        """Set the size of its terminal."""
        size = {"rows": whole(rows, "rows", "24"), "columns": whole(columns, "columns", "80")}
        self._transport.post(job_path(job_id, "terminal"), size, repeatable=True)

    def begin_exec(
        self,
        job_id: JobId,
        words: Sequence[str] = (),
        *,
        rank: int = 0,
        stdin: bool = False,
        rows: int | None = None,
        columns: int | None = None,
        term: str = "",
    ) -> "InnerProcess":
        """Run a command inside a running job, a shell where it has no words; Conflict if it does not run.

        With rows and columns it runs at a terminal of that size. It has what the job has, and ends with it. It is
        ended, too, when nobody reads its output any more.
        """
        from corral.client.inner_process import InnerProcess

        body: dict[str, Any] = {
            "command": list(texts(words, "words", "['nvidia-smi']")),
            "rank": whole(rank, "rank"),
            "stdin": flag(stdin, "stdin"),
            "term": text(term, "term", "'xterm'"),
            "terminal": None,
        }
        if rows is not None or columns is not None:
            body["terminal"] = {"rows": whole(rows, "rows", "24"), "columns": whole(columns, "columns", "80")}
        path = job_path(job_id, "execs")
        return InnerProcess(self._transport, f"{path}/{self._transport.post(path, body)['id']}")

    def _act(self, job_id: JobId, verb: str) -> tuple[str, ...]:
        return tuple(self._transport.post(job_path(job_id, verb))["ids"])


def _moment(since: float | None) -> int | None:
    """A time in whole Unix seconds."""
    return None if since is None else int(number(since, "since", "time.time() - 3600"))


def _rank(rank: int | str) -> int | str:
    """A rank, or "all". Raises Refused for anything else."""
    return rank if isinstance(rank, str) and rank == "all" else whole(rank, "rank", "0 or 'all'")


def _seconds(time: str | float) -> float:
    """A time limit, text or seconds."""
    if isinstance(time, str):
        return parse_time_limit_s(text(time, "time"), field="time")
    return number(time, "time", "'2h', or 7200 for seconds")
