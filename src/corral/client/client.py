"""The Python client: `Client` submits and waits; its parts list and change jobs, devices, nodes and tokens."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack

from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport
from corral.client.option_words import python_words, with_options
from corral.client.submitting.arguments import (
    JobId,
    Word,
    job_ids,
    named_arguments,
    number,
    optional,
    several,
    text,
    texts,
    whole,
)
from corral.client.submitting.options import RequestOptions
from corral.core.model.errors import CorralError, Refused
from corral.wire import from_answer, to_plain

if TYPE_CHECKING:
    from corral.client.cluster import ClusterNodes, Devices, Tokens
    from corral.client.jobs import Jobs
    from corral.core.model.answers.devices import MappedDevice
    from corral.core.model.answers.dry_run import DryRun
    from corral.core.model.answers.events import Event
    from corral.core.model.answers.job_details import Explanation, JobDetail
    from corral.core.model.answers.jobs import JobRow
    from corral.core.model.answers.site import QueueRow, ReloadedSettings, ResourceNameRow, ServerInfo
    from corral.core.model.jobs.submission import Submission
    from corral.features.accounting.answers import Report, Usage, Waste
    from corral.features.alerts.client import Alerts
    from corral.features.channels.client import Channels
    from corral.features.dashboard.answers import PageLink
    from corral.features.health.client import DeviceHealths
    from corral.features.history.answers import Kpis
    from corral.features.history.client import Groups
    from corral.features.hosts.client import Hosts
    from corral.features.rebalancing.answers import Rebalance
    from corral.features.replays.answers import ReplayResult
    from corral.features.tuner.client import Experiments, TuningTasks


class WaitTimedOut(CorralError, TimeoutError):
    """Not all jobs ended in time. `jobs` has the last known row of each job."""

    def __init__(self, message: str, jobs: "tuple[JobRow, ...]") -> None:
        super().__init__(message)
        self.jobs = jobs


def timed_out(rows: "Sequence[JobRow]", timeout_s: float | None) -> WaitTimedOut:
    """The error for a wait of `timeout_s` seconds, at the end of which the jobs were like `rows`."""
    alive = sum(not row.ended for row in rows)
    return WaitTimedOut(f"{alive} of {len(rows)} jobs had not ended after {timeout_s or 0:g} s", tuple(rows))


class Client:
    """A connection to one server, for one thread.

    Without arguments, it connects to the server of CORRAL_URL (with CORRAL_TOKEN), else of CORRAL_HOME, else to the
    server that answers in ~/.corral or in /var/lib/corral.
    Every method raises NoServer if no server answers, and Refused for bad input. It raises Forbidden, NotFound and
    Conflict if the server answers so, and BackendFailed and LedgerFailed if something fails in the server.

    Attributes:
        address: the address of the server.
        on_upload: called while a directory is sent, with the bytes sent so far and those of all its files.
    """

    def __init__(
        self, home: str | os.PathLike[str] | None = None, url: str | None = None, token: str | None = None
    ) -> None:
        self.address = find_address(home, url, token)
        self.on_upload: Callable[[int, int], None] = lambda sent_bytes, all_bytes: None
        self._transport = Transport(self.address)

    @cached_property
    def jobs(self) -> "Jobs":
        """List, read and change jobs."""
        from corral.client.jobs import Jobs

        return Jobs(self._transport)

    @cached_property
    def devices(self) -> "Devices":
        """List and cordon devices."""
        from corral.client.cluster import Devices

        return Devices(self._transport)

    @cached_property
    def nodes(self) -> "ClusterNodes":
        """List, cordon and drain nodes."""
        from corral.client.cluster import ClusterNodes

        return ClusterNodes(self._transport)

    @cached_property
    def users(self) -> "Groups":
        """Read the history of users."""
        from corral.features.history.client import Groups

        return Groups(self._transport, "users")

    @cached_property
    def projects(self) -> "Groups":
        """Read the history of projects."""
        from corral.features.history.client import Groups

        return Groups(self._transport, "projects")

    @cached_property
    def alerts(self) -> "Alerts":
        """List, acknowledge and silence alerts."""
        from corral.features.alerts.client import Alerts

        return Alerts(self._transport)

    @cached_property
    def tokens(self) -> "Tokens":
        """Create, list and revoke tokens for TCP."""
        from corral.client.cluster import Tokens

        return Tokens(self._transport)

    @cached_property
    def health(self) -> "DeviceHealths":
        """List sick devices, trust and test them."""
        from corral.features.health.client import DeviceHealths

        return DeviceHealths(self._transport)

    @cached_property
    def hosts(self) -> "Hosts":
        """Join hosts by SSH, list, check and remove them."""
        from corral.features.hosts.client import Hosts

        return Hosts(self._transport)

    @cached_property
    def tasks(self) -> "TuningTasks":
        """Create tasks of the autotuner, and start and end them."""
        from corral.features.tuner.client import TuningTasks

        return TuningTasks(self._transport)

    @cached_property
    def experiments(self) -> "Experiments":
        """List the experiments of the autotuner."""
        from corral.features.tuner.client import Experiments

        return Experiments(self._transport)

    @cached_property
    def channels(self) -> "Channels":
        """List and test channels, and set the caller's own."""
        from corral.features.channels.client import Channels

        return Channels(self._transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next call opens a new one."""
        self._transport.close()

    @with_options
    def submit(self, work: "Sequence[Word] | Submission", **options: Unpack[RequestOptions]) -> "JobHandle":
        """Queue a command (a list of words) with `RequestOptions`, or a finished submission.

        When this returns, the job is on disk and will run. An array gives one handle, with the id of its parent.
        """
        with _words_of(work):
            return self._submitted(self._transport.post("/jobs", self._with_files(work, options)))

    def submit_many(self, submissions: "Iterable[Sequence[Word] | Submission]") -> tuple["JobHandle", ...]:
        """Queue many jobs at once, all or none; much faster than one by one. `request.submission` makes submissions.

        A server accepts 10,000 jobs and 32 MiB at once. It refuses more, and says by how much; send those in parts.
        """
        works = several(submissions, "submissions", "[submission(['true'], {})]")
        answer = self._transport.post("/jobs/batch", {"jobs": [self._with_files(work, {}) for work in works]})
        return tuple(JobHandle(self, job_id) for job_id in answer["ids"])

    def _with_files(self, work: "Sequence[Word] | Submission", options: RequestOptions) -> Any:
        """The submission in plain form, after the directory that it uploads, if any, was sent."""
        plain = _plain(work, options)
        if plain.get("upload") is not None and "tree" not in plain["upload"]:
            from corral.client.files.sending import sent
            from corral.core.model.files.upload import Upload
            from corral.wire import from_plain

            upload = sent(self._transport, from_plain(Upload, plain["upload"]), self.on_upload)
            plain["upload"] = to_plain(upload, compact=True)
        return plain

    @with_options
    def dry_run(self, work: "Sequence[Word] | Submission", **options: Unpack[RequestOptions]) -> "DryRun":
        """Whether and where that submission would start now. Submits nothing."""
        from corral.core.model.answers.dry_run import DryRun

        with _words_of(work):
            answer = self._transport.post("/jobs/dry-run", _plain(work, options), repeatable=True)
        return from_answer(DryRun, answer)

    @with_options
    def reserve(self, owner_pid: int | None = None, **options: Unpack[RequestOptions]) -> "JobHandle":
        """Queue a reservation: GPUs without a command, for `time`.

        The GPUs are given back when the process `owner_pid` has ended (None: never), on cancel, or after `time`.
        """
        from corral.client.submitting.request import submission
        from corral.core.model.jobs.job import JobKind

        owner = optional(whole, owner_pid, "owner_pid", "os.getpid()")
        with python_words():
            return self.submit(submission((), options, kind=JobKind.RESERVE, owner_pid=owner))

    def adopt(self, pid: int, *, name: str | None = None, priority: int | None = None) -> "JobHandle":
        """Make a running process a job. The devices that it uses become its allocation."""
        given = {
            "pid": whole(pid, "pid", "4213"),
            "name": optional(text, name, "name", "'sft'"),
            "priority": optional(whole, priority, "priority"),
        }
        body = {key: value for key, value in given.items() if value is not None}
        return self._submitted(self._transport.post("/jobs/adopt", body))

    @named_arguments
    def wait(self, ids: JobId | Iterable[JobId], timeout_s: float | None = None) -> "tuple[JobRow, ...]":
        """Wait until all of these jobs have ended, and return them. An array's id stands for all its elements.

        If the server restarts meanwhile, the wait goes on. Raises WaitTimedOut after `timeout_s`, or NoServer if the
        server does not answer then.
        """
        from corral.client.waiting import wait_for
        from corral.core.model.answers.jobs import JobRow

        wanted = job_ids(ids)
        timeout_s = None if timeout_s is None else number(timeout_s, "timeout_s", "60", infinite=True)
        answers, done = wait_for(self._transport, wanted, timeout_s)
        rows = tuple(from_answer(JobRow, row) for row in answers)
        if not done:
            raise timed_out(rows, timeout_s)
        return rows

    def alloc_map(self) -> "tuple[MappedDevice, ...]":
        """The allocated part of each device and the jobs that hold it, including free devices."""
        from corral.core.model.answers.devices import MappedDevice

        return tuple(from_answer(MappedDevice, row) for row in self._transport.get("/alloc-map")["devices"])

    def queues(self, project: str = "default") -> "tuple[QueueRow, ...]":
        """The limits of the caller and their projects, and all queues, with the amount for a job of this project."""
        from corral.core.model.answers.site import QueueRow

        return tuple(
            from_answer(QueueRow, row)
            for row in self._transport.get("/queues", project=text(project, "project", "'default'"))["queues"]
        )

    def resource_names(self) -> "tuple[ResourceNameRow, ...]":
        """The resource names of other systems that submissions may use here."""
        from corral.core.model.answers.site import ResourceNameRow

        return tuple(from_answer(ResourceNameRow, row) for row in self._transport.get("/resource-names")["resources"])

    def usage(self, by: str = "user", *, since: float | None = None, until: float | None = None) -> "Usage":
        """GPU-hours used between two times (Unix seconds; by default the last week), by user, project or queue."""
        from corral.features.accounting.client import read_usage

        return read_usage(self._transport, by, since, until)

    def report(
        self, by: str | Sequence[str] = "user", *, since: float | None = None, until: float | None = None
    ) -> "Report":
        """Hours of GPUs granted between two times (Unix seconds; by default the last week), with energy and cost.

        Hours are used, idle, unmetered or wasted. `by` is one or more of user, project, queue, job, model, node,
        namespace, hour and weekday.
        """
        from corral.features.accounting.client import read_report

        return read_report(self._transport, by, since, until)

    def rebalance(self, *, dry_run: bool = False) -> "Rebalance":
        """Let the scheduler move running jobs that may be moved, for ten minutes; an administrator may.

        Returns the moves that it would make now. With `dry_run` nothing changes, and everybody may ask.
        """
        from corral.features.rebalancing.client import rebalance

        return rebalance(self._transport, dry_run=dry_run)

    def events(self, topics: str | Iterable[str] = (), *, after: int | None = None) -> "Iterator[Event]":
        """The events of `topics` (jobs, devices, alerts, tasks, metrics) as they happen; () is all but metrics.

        The first event is a `hello`; its `id` is the place where the events begin. With `after` an id, all events since
        that id come first. A `reset` says that events were missed: read the listings again. If the server restarts, the
        iterator waits for it, and gives the events that happened meanwhile.
        """
        from corral.client.events import FollowedEvents

        wanted = texts(topics, "topics", "['jobs']")
        place = optional(whole, after, "after", "17")
        return iter(FollowedEvents(Transport(self.address), wanted, place))

    def kpis(
        self,
        range: str | None = None,
        *,
        by: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> "Kpis":
        """Key figures: use of GPUs, results of jobs, and health, over a `range` up to now, or between two times.

        `range` is as in histories, "24h" by default; times are Unix seconds. `by` user, project, queue, node or means
        gives a row for each.
        """
        from corral.features.history.client import read_kpis

        return read_kpis(self._transport, range=range, by=by, since=since, until=until)

    def waste(self, *, since: float | None = None, until: float | None = None) -> "Waste":
        """The jobs between two times (Unix seconds; by default the last week) that did not use all their resources."""
        from corral.features.accounting.client import read_waste

        return read_waste(self._transport, since, until)

    def replay(
        self, policies: str | Sequence[str], *, since: float | None = None, until: float | None = None
    ) -> "ReplayResult":
        """Run the jobs of a period (Unix seconds; by default the last week) again under up to four policies, and wait.

        A policy is POLICY or POLICY/BACKFILL, for example "sjf" or "fcfs/none", or "configured". A replay takes from a
        second to five minutes. Raises Refused also if the replay fails, and Conflict if somebody else ends it.
        """
        from corral.features.replays.client import wait_for_replay

        return wait_for_replay(self._transport, policies, since=since, until=until)

    def reload(self) -> "ReloadedSettings":
        """Make the server read its settings again, and return the changes. For administrators.

        Raises Refused, with file, line and reason, if the settings have a mistake; then nothing is changed.
        """
        from corral.core.model.answers.site import ReloadedSettings

        return from_answer(ReloadedSettings, self._transport.post("/config/reload"))

    def page_link(self) -> "PageLink":
        """A link that opens the server's pages in a browser on the server's machine, as this user. It works once."""
        from corral.features.dashboard.answers import PageLink

        return from_answer(PageLink, self._transport.post("/dashboard"))

    def server(self) -> "ServerInfo":
        """Facts about the server."""
        answer = self._transport.get("/server")
        # After the answer: a caller out of file descriptors gets that error, and not one about an unreadable module.
        from corral.core.model.answers.site import ServerInfo

        return from_answer(ServerInfo, answer)

    def _submitted(self, answer: dict[str, Any]) -> "JobHandle":
        return JobHandle(self, answer["id"], answer.get("array_size"), tuple(answer.get("notes", ())))


class JobHandle:
    """A submitted job: its `id`, and short forms of the client's methods for it.

    Attributes:
        array_size: number of elements if it is an array, else None.
        notes: sentences on values that were rounded at its submission, and on warnings of preflight.
    """

    def __init__(self, client: Client, job_id: str, array_size: int | None = None, notes: tuple[str, ...] = ()) -> None:
        self.id = job_id
        self.array_size = array_size
        self.notes = notes
        self._client = client

    def __repr__(self) -> str:
        return f"<JobHandle {self.id}>"

    def row(self) -> "JobDetail":
        return self._client.jobs.get(self.id)

    @named_arguments
    def wait(self, timeout_s: float | None = None) -> "tuple[JobRow, ...]":
        return self._client.wait(self.id, timeout_s)

    def why(self) -> "Explanation":
        return self._client.jobs.why(self.id)

    def logs(self, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """Its output in pieces of text, as `Jobs.logs` gives it: `"".join(job.logs())` is all of it."""
        return self._client.jobs.logs(self.id, follow=follow, tail=tail)

    def logs_bytes(self, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        """The output in bytes, as the job wrote them."""
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


def _plain(work: "Sequence[Word] | Submission", options: RequestOptions) -> Any:
    from corral.client.submitting.request import submission
    from corral.core.model.jobs.submission import Submission

    if not isinstance(work, Submission):
        return to_plain(submission(work, options), compact=True)
    if options:
        raise Refused(
            f"{next(iter(options))}: a finished submission has its options; give them to request.submission()",
            field=next(iter(options)),
        )
    return to_plain(work, compact=True)


def _words_of(work: object) -> AbstractContextManager[None]:
    """A context in which errors name Python options. Errors of a finished submission are not changed, because its
    author knows how the options were written."""
    from corral.core.model.jobs.submission import Submission

    return nullcontext() if isinstance(work, Submission) else python_words()
