"""The client itself: submit and wait; `jobs` and `devices` to look at what there is and to act on it."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack
from urllib.parse import quote

from corral.client.transport import NoServer, ServerWentAway, Transport, find_address
from corral.model.errors import CorralError, NotFound
from corral.model.rows import (
    DeviceRow,
    DryRun,
    Explanation,
    JobRow,
    MadeToken,
    MappedDevice,
    ServerInfo,
    SlicePlan,
    TokenRow,
    Usage,
)
from corral.model.token import TokenScope
from corral.wire import to_plain, told

if TYPE_CHECKING:
    from corral.client.request import RequestOptions
    from corral.model.submission import Submission

POLL_S = 20.0
"""How long one question of `wait` may stay open."""

WAITED_FOR_AT_ONCE = 1000
"""A server is asked about so many jobs at once."""

RESTART_GRACE_S = 60.0
"""How long a server that was there may be away before waiting for it is given up."""

_RECONNECT_S = 0.2


class WaitTimedOut(CorralError, TimeoutError):
    """The jobs have not all ended in the time given; `jobs` holds them as they were then."""

    def __init__(self, message: str, jobs: tuple[JobRow, ...]) -> None:
        super().__init__(message)
        self.jobs = jobs


class Client:
    """A connection to one server, for one thread.

    Without arguments it is the server of CORRAL_URL (with CORRAL_TOKEN), else of CORRAL_HOME, else of ~/.corral.
    Every method raises NoServer when none answers, Refused for bad input, Forbidden, NotFound and Conflict as the
    server says, BackendFailed and LedgerFailed when something of its own has failed.

    Attributes:
        jobs: look at jobs and act on them.
        devices: look at devices and set them apart.
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
        self.tokens = Tokens(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection; the next call makes a new one."""
        self._transport.close()

    def submit(self, work: "Sequence[str] | Submission", **options: "Unpack[RequestOptions]") -> "JobHandle":
        """Queue a command (a list of words), or a submission made before; `options` as `RequestOptions` says.

        When it returns, the job is on disk and will run. An array is one handle, with its parent's id.
        """
        return self._submitted(self._transport.post("/jobs", _plain(work, options)))

    def submit_many(self, submissions: "Iterable[Submission]") -> tuple["JobHandle", ...]:
        """Queue many at once, all or none, far faster than one by one; `request.submission` makes them.

        A server takes 10,000 and 32 MiB at once, and refuses more, saying by how much; what is more is sent in parts.
        """
        answer = self._transport.post("/jobs/batch", {"jobs": [_plain(work, {}) for work in submissions]})
        return tuple(JobHandle(self, job_id) for job_id in answer["ids"])

    def dry_run(self, work: "Sequence[str] | Submission", **options: "Unpack[RequestOptions]") -> DryRun:
        """What would become of that submission if it were made now."""
        return told(DryRun, self._transport.post("/jobs/dry-run", _plain(work, options), repeatable=True))

    def reserve(self, owner_pid: int | None = None, **options: "Unpack[RequestOptions]") -> "JobHandle":
        """Queue for GPUs to hold without running anything on them; `time` says how long.

        They are given back when the process `owner_pid` is gone (None: never), on cancel, or when the time is up.
        """
        from corral.client.request import submission
        from corral.model.job import JobKind

        return self.submit(submission((), options, kind=JobKind.RESERVE, owner_pid=owner_pid))

    def adopt(self, pid: int, *, name: str | None = None, priority: int | None = None) -> "JobHandle":
        """Make a job of a process that runs already: the devices it uses become its allocation."""
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
        """How much of each device is handed out and to which jobs, free devices included."""
        return tuple(told(MappedDevice, row) for row in self._transport.get("/alloc-map")["devices"])

    def usage(self, by: str = "user", *, since: float | None = None, until: float | None = None) -> Usage:
        """GPU-hours held between two moments (Unix seconds; a week until now), by user, project or queue."""
        period = {name: None if at is None else int(at) for name, at in (("since", since), ("until", until))}
        return told(Usage, self._transport.get("/usage", by=by, **period))

    def server(self) -> ServerInfo:
        """The server about itself."""
        return told(ServerInfo, self._transport.get("/server"))

    def _submitted(self, answer: dict[str, Any]) -> "JobHandle":
        return JobHandle(self, answer["id"], answer.get("array_size"), tuple(answer.get("notes", ())))

    def _wait_for(self, ids: list[str], deadline: float | None) -> tuple[list[JobRow], bool]:
        """The jobs, and whether all have ended; if not, `deadline` (of the monotonic clock) has passed."""
        seen = False
        while True:
            left_s = POLL_S if deadline is None else max(0.0, deadline - time.monotonic())
            answer = self._ask_wait(ids, min(POLL_S, left_s), deadline, patient=seen)
            seen = True
            if answer["done"] or (deadline is not None and time.monotonic() >= deadline):
                return [told(JobRow, job) for job in answer["jobs"]], bool(answer["done"])

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
    """Look at jobs and act on them. Ids are strings; where jobs change, an array's id stands for all its elements."""

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
    ) -> tuple[JobRow, ...]:
        """Jobs that wait or run, with `all` also those that ended, newest first; at most `limit` (None: every one).

        With `starts`, the expected start of all that wait, as far as it can be told.
        """
        most = 0 if limit is None else limit
        answer = self._transport.get(
            "/jobs", all=all, user=user, phase=phase, name=name, array=array, limit=most, starts=starts or None
        )
        return tuple(told(JobRow, job) for job in answer["jobs"])

    def get(self, job_id: str) -> JobRow:
        return told(JobRow, self._transport.get(_job(job_id)))

    def why(self, job_id: str) -> Explanation:
        """Why it waits, its place, and what would start it now; after the end, how the wait was spent."""
        return told(Explanation, self._transport.get(_job(job_id, "why")))

    def logs(self, job_id: str, *, follow: bool = False, offset: int = 0) -> Iterator[bytes]:
        """What the job has written, standard output and error together, in blocks from byte `offset` on.

        With `follow` it goes on until the job has ended and all is read. Raises NoServer if it breaks off before.
        """
        return self._transport.stream(_job(job_id, "logs"), follow=follow, offset=offset)

    def cancel(self, job_id: str) -> tuple[str, ...]:
        """End it, or take it from the queue. Returns the ids that are concerned, as the next three do."""
        return self._act(job_id, "cancel")

    def hold(self, job_id: str) -> tuple[str, ...]:
        """Keep it waiting until it is released."""
        return self._act(job_id, "hold")

    def release(self, job_id: str) -> tuple[str, ...]:
        """Let a held job start when its turn comes, or give back what a reservation holds, which ends it well."""
        return self._act(job_id, "release")

    def requeue(self, job_id: str) -> tuple[str, ...]:
        """End it and queue it again, or queue one again that has failed or was lost."""
        return self._act(job_id, "requeue")

    def _act(self, job_id: str, verb: str) -> tuple[str, ...]:
        return tuple(self._transport.post(_job(job_id, verb))["ids"])


class Devices:
    """Look at devices and set them apart. A device is named by its UUID, or by its index for short."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> tuple[DeviceRow, ...]:
        return _devices(self._transport.get("/devices"))

    def cordon(self, device: str | int, reason: str = "") -> tuple[DeviceRow, ...]:
        """Start nothing more on it; what runs there goes on. Returns the devices concerned, as `uncordon` does."""
        return _devices(self._transport.post(_device(device, "cordon"), {"reason": reason}))

    def uncordon(self, device: str | int) -> tuple[DeviceRow, ...]:
        return _devices(self._transport.post(_device(device, "uncordon")))

    def cut(self, device: str | int, profile: str, count: int = 1, *, apply: bool = False) -> SlicePlan:
        """How `count` more MIG slices would be cut from it; with `apply`, they are."""
        body = {"profile": profile, "count": count, "apply": apply}
        return told(SlicePlan, self._transport.post(_device(device, "slices"), body))

    def give_up(self, device: str | int, *, apply: bool = False) -> SlicePlan:
        """How its MIG slices would be given up; with `apply`, they are. No job may have one."""
        return told(SlicePlan, self._transport.post(_device(device, "slices", "give-up"), {"apply": apply}))


class Tokens:
    """Make, list and revoke tokens, with which the server is used over TCP."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        user: str | None = None,
        *,
        scope: TokenScope = TokenScope.SUBMIT,
        expires_in_s: float | None = 30 * 86400.0,
    ) -> MadeToken:
        """A token for a user (the asking one), good for so long (None: until it is revoked), with its secret."""
        body = {"user": user, "scope": scope.value, "expires_in_s": expires_in_s}
        return told(MadeToken, self._transport.post("/tokens", body))

    def list(self, *, all: bool = False) -> tuple[TokenRow, ...]:
        """Tokens that are good for something, with `all` also the last that are over: one's own, or everybody's."""
        return tuple(told(TokenRow, row) for row in self._transport.get("/tokens", all=all)["tokens"])

    def revoke(self, token_id: str) -> tuple[str, ...]:
        """End a token at once, and those that were made with it. Returns their ids."""
        path = "/".join(["/tokens", quote(token_id, safe=""), "revoke"])
        return tuple(self._transport.post(path, repeatable=True)["ids"])


class JobHandle:
    """A job that was submitted: its `id`, and short ways to the client's answers about it.

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

    def row(self) -> JobRow:
        return self._client.jobs.get(self.id)

    def wait(self, timeout_s: float | None = None) -> tuple[JobRow, ...]:
        return self._client.wait(self.id, timeout_s)

    def why(self) -> Explanation:
        return self._client.jobs.why(self.id)

    def logs(self, *, follow: bool = False) -> Iterator[bytes]:
        return self._client.jobs.logs(self.id, follow=follow)

    def cancel(self) -> tuple[str, ...]:
        return self._client.jobs.cancel(self.id)


def _plain(work: "Sequence[str] | Submission", options: "RequestOptions") -> Any:
    from corral.client.request import submission
    from corral.model.submission import Submission

    return to_plain(work if isinstance(work, Submission) else submission(work, options), compact=True)


def _id(job: "str | JobHandle") -> str:
    return job if isinstance(job, str) else job.id


def _job(job_id: str, *verb: str) -> str:
    """Raises NotFound for what would not stay one word of the path."""
    if not job_id or "/" in job_id:
        raise NotFound(f"there is no job {job_id!r}; `corral ps --all` lists those there are", field="id")
    return "/".join(["/jobs", quote(job_id, safe=""), *verb])


def _device(device: str | int, *verb: str) -> str:
    return "/".join(["/devices", quote(str(device), safe=""), *verb])


def _devices(answer: Any) -> tuple[DeviceRow, ...]:
    return tuple(told(DeviceRow, device) for device in answer["devices"])
