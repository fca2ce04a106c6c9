"""The Python client: `Client` submits and waits; `jobs`, `devices` and `tokens` list and change things."""

import os
import time
from codecs import iterdecode
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack
from urllib.parse import quote

from corral.client.options import RequestOptions, with_options
from corral.client.transport import NoServer, ServerWentAway, Transport, find_address
from corral.model.answers import (
    ChangedJobs,
    DeviceRow,
    DryRun,
    Explanation,
    InputProgress,
    JobDetail,
    JobRow,
    MadeToken,
    MappedDevice,
    NodeRow,
    QueueRow,
    ReloadedSettings,
    ServerInfo,
    SlicePlan,
    TokenRow,
    Usage,
)
from corral.model.errors import CorralError, NotFound
from corral.model.token import TokenScope
from corral.model.units import parse_duration_s
from corral.wire import from_answer, to_plain

if TYPE_CHECKING:
    from corral.model.submission import Submission

POLL_S = 20.0
"""How long one request of `wait` may stay open."""

WAITED_FOR_AT_ONCE = 1000
"""The most jobs that one request asks about."""

RESTART_GRACE_S = 60.0
"""How long `wait` tolerates that a server is away, before it gives up."""

_RECONNECT_S = 0.2


class WaitTimedOut(CorralError, TimeoutError):
    """Not all jobs ended in time. `jobs` has their last rows."""

    def __init__(self, message: str, jobs: tuple[JobRow, ...]) -> None:
        super().__init__(message)
        self.jobs = jobs


class Client:
    """A connection to one server, for one thread.

    Without arguments it is the server of CORRAL_URL (with CORRAL_TOKEN), else of CORRAL_HOME, else the one that
    answers in ~/.corral or in /var/lib/corral.
    Every method raises NoServer when none answers, Refused for bad input, Forbidden, NotFound and Conflict as the
    server says, BackendFailed and LedgerFailed when something of its own has failed.

    Attributes:
        jobs: look at jobs and act on them.
        devices: list and cordon devices.
        nodes: list, cordon and drain nodes.
        tokens: make, list and revoke tokens for TCP.
        address: which server this is.
    """

    def __init__(
        self, home: str | os.PathLike[str] | None = None, url: str | None = None, token: str | None = None
    ) -> None:
        self.address = find_address(home, url, token)
        self._transport = Transport(self.address)
        self.jobs = Jobs(self._transport)
        self.devices = Devices(self._transport)
        self.nodes = ClusterNodes(self._transport)
        self.tokens = Tokens(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next call opens a new one."""
        self._transport.close()

    @with_options
    def submit(self, work: "Sequence[str] | Submission", **options: Unpack[RequestOptions]) -> "JobHandle":
        """Queue a command (a list of arguments) with `RequestOptions`, or a finished submission.

        When it returns, the job is on disk and will run. An array is one handle, with its parent's id.
        """
        return self._submitted(self._transport.post("/jobs", _plain(work, options)))

    def submit_many(self, submissions: "Iterable[Submission]") -> tuple["JobHandle", ...]:
        """Queue many jobs at once, all or none; much faster than one by one. `request.submission` makes them.

        A server takes 10,000 and 32 MiB at once, and refuses more, saying by how much; what is more is sent in parts.
        """
        answer = self._transport.post("/jobs/batch", {"jobs": [_plain(work, {}) for work in submissions]})
        return tuple(JobHandle(self, job_id) for job_id in answer["ids"])

    @with_options
    def dry_run(self, work: "Sequence[str] | Submission", **options: Unpack[RequestOptions]) -> DryRun:
        """Whether and where that submission would start now. Submits nothing."""
        return from_answer(DryRun, self._transport.post("/jobs/dry-run", _plain(work, options), repeatable=True))

    @with_options
    def reserve(self, owner_pid: int | None = None, **options: Unpack[RequestOptions]) -> "JobHandle":
        """Queue a reservation: GPUs without a command, for `time`.

        They are given back when the process `owner_pid` is gone (None: never), on cancel, or when the time is up.
        """
        from corral.client.request import submission
        from corral.model.job import JobKind

        return self.submit(submission((), options, kind=JobKind.RESERVE, owner_pid=owner_pid))

    def adopt(self, pid: int, *, name: str | None = None, priority: int | None = None) -> "JobHandle":
        """Make a running process a job: the devices it uses become its allocation."""
        given = {"pid": pid, "name": name, "priority": priority}
        body = {key: value for key, value in given.items() if value is not None}
        return self._submitted(self._transport.post("/jobs/adopt", body))

    def wait(
        self, ids: "str | JobHandle | Iterable[str | JobHandle]", timeout_s: float | None = None
    ) -> tuple[JobRow, ...]:
        """Wait until all of these jobs (an array's id is all its elements) have ended, and return them.

        A server that restarts meanwhile is waited for. Raises WaitTimedOut after `timeout_s`, or NoServer if it is
        away then.
        """
        wanted = [_id(one) for one in ([ids] if isinstance(ids, (str, JobHandle)) else ids)]
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        rows: list[JobRow] = []
        for start in range(0, len(wanted), WAITED_FOR_AT_ONCE):
            jobs, done = self._wait_for(wanted[start : start + WAITED_FOR_AT_ONCE], deadline)
            rows += jobs
            if not done:
                alive = sum(not job.ended for job in rows)
                raise WaitTimedOut(f"{alive} of {len(rows)} jobs had not ended after {timeout_s:g} s", tuple(rows))
        return tuple(rows)

    def alloc_map(self) -> tuple[MappedDevice, ...]:
        """How much of each device is allocated and to which jobs, free devices included."""
        return tuple(from_answer(MappedDevice, row) for row in self._transport.get("/alloc-map")["devices"])

    def queues(self, project: str = "default") -> tuple[QueueRow, ...]:
        """The caller's limits, their projects', and all queues, with what a job in this project may have in each."""
        return tuple(from_answer(QueueRow, row) for row in self._transport.get("/queues", project=project)["queues"])

    def usage(self, by: str = "user", *, since: float | None = None, until: float | None = None) -> Usage:
        """GPU-hours used between two times (Unix seconds; by default the last week), by user, project or queue."""
        period = {name: None if at is None else int(at) for name, at in (("since", since), ("until", until))}
        return from_answer(Usage, self._transport.get("/usage", by=by, **period))

    def reload(self) -> ReloadedSettings:
        """Have the server read its settings again; what has changed. For administrators.

        Raises Refused, with file, line and reason, where nothing was changed for a mistake.
        """
        return from_answer(ReloadedSettings, self._transport.post("/config/reload"))

    def server(self) -> ServerInfo:
        """What the server says of itself."""
        return from_answer(ServerInfo, self._transport.get("/server"))

    def _submitted(self, answer: dict[str, Any]) -> "JobHandle":
        return JobHandle(self, answer["id"], answer.get("array_size"), tuple(answer.get("notes", ())))

    def _wait_for(self, ids: list[str], deadline: float | None) -> tuple[list[JobRow], bool]:
        """The jobs, and whether all have ended. If not, `deadline` (monotonic clock) has passed."""
        seen = False
        while True:
            left_s = POLL_S if deadline is None else max(0.0, deadline - time.monotonic())
            answer = self._ask_wait(ids, min(POLL_S, left_s), deadline, patient=seen)
            seen = True
            if answer["done"] or (deadline is not None and time.monotonic() >= deadline):
                return [from_answer(JobRow, job) for job in answer["jobs"]], bool(answer["done"])

    def _ask_wait(self, ids: list[str], poll_s: float, deadline: float | None, *, patient: bool) -> Any:
        body = {"ids": ids, "timeout_s": poll_s}
        away_since: float | None = None
        while True:
            try:
                return self._transport.post("/jobs/wait", body, repeatable=True, timeout_s=poll_s + POLL_S)
            except NoServer as error:
                now = time.monotonic()
                away_since = now if away_since is None else away_since
                patient = patient or isinstance(error, ServerWentAway)
                late = deadline is not None and now >= deadline
                if late or not patient or now - away_since > RESTART_GRACE_S:
                    raise
                time.sleep(_RECONNECT_S)


class Jobs:
    """Lists and changes jobs. Ids are strings; for changes, an array's id stands for all its elements."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self,
        *,
        all: bool = False,
        user: str | None = None,
        phase: str | None = None,
        name: str | None = None,
        array: str | None = None,
        limit: int | None = 100,
        starts: bool = False,
        queue: str | None = None,
        since: float | None = None,
        sort: str | None = None,
    ) -> tuple[JobRow, ...]:
        """Jobs that wait or run, with `all` also those that ended, newest first; at most `limit` (None: every one).

        `user`, `phase`, `queue` and `name` may be several, separated by commas; the user "me" is oneself, and "sweep-*"
        every name that begins so. `since` are those submitted then or later (Unix seconds). `sort` is another order:
        "started", or "-started" for the latest first. With `starts`, the expected start of all that wait, as far as it
        can be told.
        """
        from corral.model.job_sort import parse_sort, sorted_rows

        order = None if sort is None else parse_sort(sort)
        answer = self._transport.get(
            "/jobs",
            all=all,
            user=user,
            phase=phase,
            name=name,
            array=array,
            limit=0 if limit is None else limit,
            starts=starts or None,
            queue=queue,
            since=None if since is None else int(since),
            sort=None if limit is None else sort,
        )
        rows = tuple(from_answer(JobRow, job) for job in answer["jobs"])
        # All that there are come page by page, newest first.
        return rows if order is None or limit is not None else tuple(sorted_rows(rows, order, time.time()))

    def get(self, job_id: str) -> JobDetail:
        """Everything about a job: its row, what it asked for and has, its members and its attempts."""
        return from_answer(JobDetail, self._transport.get(_job(job_id)))

    def why(self, job_id: str) -> Explanation:
        """Why it waits, its place in the queue, and what would start it now; later, how long it waited for what."""
        return from_answer(Explanation, self._transport.get(_job(job_id, "why")))

    def logs(
        self,
        job_id: str,
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
        job_id: str,
        *,
        follow: bool = False,
        offset: int = 0,
        rank: int | Literal["all"] = 0,
        tail: int | None = None,
        since: float | None = None,
    ) -> Iterator[bytes]:
        """As `logs`, in blocks of bytes as the job wrote them."""
        return self._transport.stream(
            _job(job_id, "logs"),
            follow=follow,
            offset=offset or None,
            rank=rank or None,
            tail=tail,
            since=None if since is None else int(since),
        )

    def cancel(self, job_id: str) -> tuple[str, ...]:
        """Stop it, or remove it from the queue. Returns the ids of the changed jobs, as the next three do."""
        return self._act(job_id, "cancel")

    def update(
        self,
        job_id: str,
        *,
        priority: int | None = None,
        time: str | float | None = None,
        name: str | None = None,
        queue: str | None = None,
    ) -> tuple[str, ...]:
        """Give a job that has not ended other values, all of them or none; the ids of the jobs that have them now.

        `time` is a time limit, "2h" or seconds. What is None stays as it is. Raises Conflict once the job has ended.
        """
        seconds = parse_duration_s(time, field="time") if isinstance(time, str) else time
        given = {"priority": priority, "time_limit_s": seconds, "name": name, "queue": queue}
        body = {key: value for key, value in given.items() if value is not None}
        return tuple(self._transport.patch(_job(job_id), body)["ids"])

    def hold(self, job_id: str) -> tuple[str, ...]:
        """Keep it waiting until it is released."""
        return self._act(job_id, "hold")

    def release(self, job_id: str) -> tuple[str, ...]:
        """Let a job on hold start again; or end a reservation, which counts as a success."""
        return self._act(job_id, "release")

    def requeue(self, job_id: str) -> tuple[str, ...]:
        """Stop a running job and queue it again, or queue a failed or lost one again."""
        return self._act(job_id, "requeue")

    def change(
        self,
        verb: Literal["cancel", "hold", "release", "requeue"],
        ids: Iterable[str] = (),
        *,
        user: str | None = None,
        name: str | None = None,
        array: str | None = None,
        phase: Iterable[str] = (),
        before: int | None = None,
        dry_run: bool = False,
    ) -> ChangedJobs:
        """Change many jobs in one step: those of `ids`, of which the rest chooses some, or else all that it chooses.

        Without ids these are the caller's own (`user` "me"), or of another user for administrators. `name` may be a
        pattern such as "sweep-*". A server changes 10,000 at once, the newest first; `next` of the answer is then the
        `before` of the next call. With `dry_run` it only tells what it would change.
        """
        chosen: dict[str, Any] = {"user": user, "name": name, "array": array, "before": before}
        given = {key: value for key, value in chosen.items() if value is not None}
        body = {"ids": list(ids), "phase": list(phase), "dry_run": dry_run, **given}
        return from_answer(ChangedJobs, self._transport.post(f"/jobs/{verb}", body))

    def signal(self, job_id: str, name: str) -> None:
        """Send a signal ("INT", "TERM", "HUP", "QUIT", "USR1" or "USR2") to its processes; Conflict if none run."""
        self._transport.post(_job(job_id, "signal"), {"signal": name})

    def write_input(self, job_id: str, data: bytes = b"", *, offset: int, end: bool = False) -> InputProgress:
        """Send the part of its input from byte `offset` on, 64 KiB at most; with `end` there is no more after it.

        Returns how much it has taken by then, which may be none after ten seconds. Safe to repeat.
        """
        answer = self._transport.post_bytes(
            _job(job_id, "input"), data, timeout_s=POLL_S + POLL_S, offset=offset, end=end or None
        )
        return from_answer(InputProgress, answer)

    def resize_terminal(self, job_id: str, rows: int, columns: int) -> None:
        """Set the size of its terminal."""
        self._transport.post(_job(job_id, "terminal"), {"rows": rows, "columns": columns}, repeatable=True)

    def _act(self, job_id: str, verb: str) -> tuple[str, ...]:
        return tuple(self._transport.post(_job(job_id, verb))["ids"])


class Devices:
    """Lists and cordons devices.

    A device is named by its UUID, as NODE:INDEX, or by its index where only one node has it.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> tuple[DeviceRow, ...]:
        return _devices(self._transport.get("/devices"))

    def cordon(self, device: str | int, reason: str = "") -> tuple[DeviceRow, ...]:
        """Keep new jobs from starting on it; running jobs go on. Returns the changed devices, as `uncordon` does."""
        return _devices(self._transport.post(_device(device, "cordon"), {"reason": reason}))

    def uncordon(self, device: str | int) -> tuple[DeviceRow, ...]:
        return _devices(self._transport.post(_device(device, "uncordon")))

    def cut(self, device: str | int, profile: str, count: int = 1, *, apply: bool = False) -> SlicePlan:
        """How `count` MIG slices would be created on it; with `apply`, creates them."""
        body = {"profile": profile, "count": count, "apply": apply}
        return from_answer(SlicePlan, self._transport.post(_device(device, "slices"), body))

    def give_up(self, device: str | int, *, apply: bool = False) -> SlicePlan:
        """How its MIG slices would be deleted; with `apply`, deletes them. No job may use one."""
        return from_answer(SlicePlan, self._transport.post(_device(device, "slices", "give-up"), {"apply": apply}))


class ClusterNodes:
    """Lists, cordons and drains nodes. Each change returns the node as it is then."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> tuple[NodeRow, ...]:
        return tuple(from_answer(NodeRow, row) for row in self._transport.get("/nodes")["nodes"])

    def cordon(self, node: str, reason: str = "") -> NodeRow:
        """Start nothing more on it; what runs there goes on."""
        return self._set(node, "cordon", {"reason": reason})

    def drain(self, node: str, reason: str = "", *, deadline_s: float | None = None) -> NodeRow:
        """Start nothing more on it; what still runs there `deadline_s` from now goes back to its queue."""
        return self._set(node, "drain", {"reason": reason, "deadline_s": deadline_s})

    def uncordon(self, node: str) -> NodeRow:
        return self._set(node, "uncordon", None)

    def _set(self, node: str, verb: str, body: Any) -> NodeRow:
        answer = self._transport.post("/".join(["/nodes", quote(node, safe=""), verb]), body)
        return from_answer(NodeRow, answer["nodes"][0])


class Tokens:
    """Creates, lists and revokes tokens for access over TCP."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        user: str | None = None,
        *,
        scope: TokenScope = TokenScope.SUBMIT,
        expires_in_s: float | None = 30 * 86400.0,
    ) -> MadeToken:
        """A new token with its secret, for a user (default: the caller), valid for so long (None: until revoked)."""
        body = {"user": user, "scope": scope.value, "expires_in_s": expires_in_s}
        return from_answer(MadeToken, self._transport.post("/tokens", body))

    def list(self, *, all: bool = False) -> tuple[TokenRow, ...]:
        """Valid tokens, with `all` also recent invalid ones: one's own; for administrators, everybody's."""
        return tuple(from_answer(TokenRow, row) for row in self._transport.get("/tokens", all=all)["tokens"])

    def revoke(self, token_id: str) -> tuple[str, ...]:
        """Revoke a token and all tokens created with it, at once. Returns their ids."""
        path = "/".join(["/tokens", quote(token_id, safe=""), "revoke"])
        return tuple(self._transport.post(path, repeatable=True)["ids"])


class JobHandle:
    """A submitted job: its `id`, and short forms of the client's methods for it.

    Attributes:
        array_size: number of elements if it is an array, else None.
        notes: what was rounded at its submission, and what preflight warned of.
    """

    def __init__(self, client: Client, job_id: str, array_size: int | None = None, notes: tuple[str, ...] = ()) -> None:
        self.id = job_id
        self.array_size = array_size
        self.notes = notes
        self._client = client

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}>"

    def row(self) -> JobDetail:
        return self._client.jobs.get(self.id)

    def wait(self, timeout_s: float | None = None) -> tuple[JobRow, ...]:
        return self._client.wait(self.id, timeout_s)

    def why(self) -> Explanation:
        return self._client.jobs.why(self.id)

    def logs(self, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """Its output in pieces of text, as `Jobs.logs` gives it: `"".join(job.logs())` is all of it."""
        return self._client.jobs.logs(self.id, follow=follow, tail=tail)

    def logs_bytes(self, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        """The same in bytes, as the job wrote them."""
        return self._client.jobs.logs_bytes(self.id, follow=follow, tail=tail)

    def cancel(self) -> tuple[str, ...]:
        return self._client.jobs.cancel(self.id)

    def update(
        self,
        *,
        priority: int | None = None,
        time: str | float | None = None,
        name: str | None = None,
        queue: str | None = None,
    ) -> tuple[str, ...]:
        return self._client.jobs.update(self.id, priority=priority, time=time, name=name, queue=queue)


def _plain(work: "Sequence[str] | Submission", options: RequestOptions) -> Any:
    from corral.client.request import submission
    from corral.model.submission import Submission

    return to_plain(work if isinstance(work, Submission) else submission(work, options), compact=True)


def _id(job: "str | JobHandle") -> str:
    return job if isinstance(job, str) else job.id


def _job(job_id: str, *verb: str) -> str:
    """Raises NotFound for an id that would not stay one part of the path."""
    if not job_id or "/" in job_id:
        raise NotFound(f"there is no job {job_id!r}; `corral ps --all` lists those there are", field="id")
    return "/".join(["/jobs", quote(job_id, safe=""), *verb])


def _device(device: str | int, *verb: str) -> str:
    return "/".join(["/devices", quote(str(device), safe=""), *verb])


def _devices(answer: Any) -> tuple[DeviceRow, ...]:
    return tuple(from_answer(DeviceRow, device) for device in answer["devices"])
