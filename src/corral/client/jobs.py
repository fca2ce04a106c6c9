"""Jobs by their ids: list, explain, read and change them."""

import os
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
from corral.core.model.errors import Conflict
from corral.core.model.units import parse_time_limit_s
from corral.wire import from_answer

if TYPE_CHECKING:
    from corral.client.files.fetching import Fetched
    from corral.client.inner_process import InnerProcess
    from corral.core.model.answers.job_changes import ChangedJobs, InputProgress
    from corral.core.model.answers.job_details import Explanation, JobDetail
    from corral.core.model.answers.jobs import JobRow
    from corral.features.history.answers import GpuWindows, JobGpusHistory, JobHistory

INPUT_TIMEOUT_S = 40.0
"""The server waits for a job that does not read its input."""

_VERBS = ("cancel", "hold", "release", "requeue")


class Jobs:
    """Lists and changes jobs.

    An id is text or a whole number, or a handle or row with an id. In changes, an array's id stands for all its
    elements, and an id like "17_[3-9]" for some of them.
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
        namespace: str | None = None,
    ) -> "tuple[JobRow, ...]":
        """Waiting and running jobs, newest first; with `all` also ended jobs; at most `limit` (None: all of them).

        `user`, `phase`, `queue`, `project`, `namespace` and `name` may each list several values, separated by commas.
        The user "me" is the caller, and "sweep-*" is every name with that beginning. `since` chooses jobs submitted
        then or later (Unix seconds). `sort` is another order: "started", or "-started" for the latest first. `starts`
        adds the expected start of waiting jobs, as far as it is known. `means` chooses jobs by how they hold their
        GPUs: "exclusive" is whole GPUs. `namespace` chooses jobs that are pods of others there.
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
            namespace=optional(text, namespace, "namespace", "'default'"),
            means=optional(text, means, "means", "'mps'"),
            since=_moment(since),
            sort=None if limit is None else sort,
        )
        rows = tuple(from_answer(JobRow, job) for job in answer["jobs"])
        # Without a limit, jobs come page by page, newest first.
        return rows if order is None or limit is not None else tuple(sorted_rows(rows, order, time.time()))

    def get(self, job_id: JobId) -> "JobDetail":
        """Everything about a job: its row, its request, its devices, its members and its attempts."""
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
        """The history of its devices while it held them, as in `Devices.history`. Of a shared device, only its part.

        Without a range or times, the period is its last run, from start to end. The job may have ended.
        """
        from corral.features.history.answers import JobHistory
        from corral.features.history.client import read_history

        path = ["jobs", one_job_id(job_id)]
        return read_history(self._transport, JobHistory, path, range=range, since=since, until=until, series=series)

    def gpus_history(
        self, job_id: JobId, *, since: float | None = None, until: float | None = None
    ) -> "JobGpusHistory":
        """The history of each GPU of its last attempt, between two times (Unix seconds) or over the whole attempt."""
        from corral.features.history.answers import JobGpusHistory
        from corral.features.history.client import read_history

        path = ["jobs", one_job_id(job_id), "gpus"]
        return read_history(self._transport, JobGpusHistory, path, range=None, since=since, until=until, series=())

    def gpus_window(self, job_id: JobId, since: float, until: float) -> "GpuWindows":
        """The sums of the readings of each GPU of its last attempt, over exactly this window (Unix seconds)."""
        from corral.features.history.client import read_window

        return read_window(self._transport, ["jobs", one_job_id(job_id)], since, until)

    def why(self, job_id: JobId) -> "Explanation":
        """Why it waits, its place in the queue, and a request that would start now; later, its past waits."""
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
        """The output of the job, standard output and error together, in pieces of text.

        It starts at byte `offset`, or is limited to the last `tail` lines, or to the output `since` a time (Unix
        seconds; some seconds more may come), or to both. Bytes that are not UTF-8 appear as U+FFFD; `logs_bytes` keeps
        them.

        For a gang, it is the output of the member of this rank; "all" gives whole lines of all members, each with its
        rank. With `follow` it goes on until the job has ended and all is read. Raises NoServer if it breaks off before.
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
        """The same as `logs`, in blocks of bytes as the job wrote them."""
        return self._transport.stream(
            job_path(job_id, "logs"),
            follow=flag(follow, "follow"),
            offset=whole(offset, "offset") or None,
            rank=_rank(rank) or None,
            tail=optional(whole, tail, "tail", "100"),
            since=_moment(since),
        )

    def fetch(
        self, job_id: JobId, directory: str | os.PathLike[str] | None = None, *, rank: int = 0, force: bool = False
    ) -> "Fetched":
        """Fetch the directory that an ended job has left (its option `download`), by default to the same name here.

        Files here that are newer are kept, unless `force`: `kept` of the result names them. Raises NotFound if the job
        has left nothing, or it is not kept any more, and Conflict if the job has not ended.
        """
        from corral.client.files.fetching import fetch, left_files

        name, member = one_job_id(job_id), whole(rank, "rank")
        if not self.get(name).ended:
            raise Conflict(f"job {name} has not ended; `corral wait {name}` waits for it")
        found = left_files(self._transport, name, member)
        place = os.path.abspath(os.path.expanduser(found.directory if directory is None else directory))
        return fetch(self._transport, name, found, place, rank=member, force=flag(force, "force"))

    def cancel(self, job_id: JobId, reason: str = "") -> tuple[str, ...]:
        """Stop it, or remove it from the queue. Returns the ids of the changed jobs, like `hold` and the others.

        `reason` is shown with the job: "cancelled by ann: REASON".
        """
        given = text(reason, "reason", "'out of budget'")
        return tuple(self._transport.post(job_path(job_id, "cancel"), {"reason": given} if given else None)["ids"])

    def update(
        self,
        job_id: JobId,
        *,
        priority: int | None = None,
        time: str | float | None = None,
        name: str | None = None,
        queue: str | None = None,
    ) -> tuple[str, ...]:
        """Change values of a job that has not ended, all of them or none. Returns the ids of the changed jobs.

        `time` is a time limit, "2h" or seconds. A value of None stays unchanged. Raises Conflict if the job has ended.
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
        """Change many jobs: those of `ids`, filtered by the other arguments, or all jobs that the others choose.

        Without ids, these are the caller's own jobs (`user` "me"); administrators may name another user. `name` may be
        a pattern like "sweep-*". A server changes 10,000 jobs at once, the newest first; `next` of the answer is then
        the `before` of the next call. With `dry_run` it only reports the changes.
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
        """Send a signal (INT, TERM, HUP, QUIT, USR1 or USR2) to its processes. Raises Conflict if none run."""
        self._transport.post(job_path(job_id, "signal"), {"signal": text(name, "name", "'INT'")})

    def write_input(self, job_id: JobId, data: bytes = b"", *, offset: int, end: bool = False) -> "InputProgress":
        """Send the part of its input from byte `offset` on, 64 KiB at most. `end` says that no input follows.

        Returns how much input the job has taken by then, which may be none after ten seconds. Safe to repeat.
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

    def fence(self, job_id: JobId) -> str | None:
        """Keep this process, and all that it will start, from GPUs outside of a reservation. This cannot be undone.

        Returns why they can still be opened, None if they cannot. Raises BackendFailed if the machine fences jobs, and
        this process cannot be fenced.
        """
        answer = self._transport.post(job_path(job_id, "fence"), {"pid": os.getpid()})
        return from_answer(str, answer["unfenced"]) if answer["unfenced"] is not None else None

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
        """Run a command inside a running job, or a shell without words. Raises Conflict if the job does not run.

        With rows and columns it runs at a terminal of that size. It has the resources of the job, and ends with it. It
        also ends when nobody reads its output any more.
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
