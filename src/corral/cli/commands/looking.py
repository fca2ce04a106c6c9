"""Commands that look at jobs and GPUs."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, flag, text, whole


class PsCommand(
    DeclaredCommand,
    runs="direct.list_jobs.list_jobs",
    examples=(
        "corral ps --user me",
        "corral ps --all --state failed --since 2d --sort -ended",
    ),
):
    """List jobs that wait or run.

    TIME is how long a job has run, or waited so far. The last column shows where it runs, why it waits or how it ended.

    Elements of an array in the same phase share a row, such as 17_[3-49] with GPUS 47x1. TIME is that of the oldest
    element; for waiting elements the last column is about the next to start. Other commands take 17_[3-49] in place
    of an id.
    """

    every: bool = flag("--all", "-a", help="Also list jobs that have ended.")
    user: list[str] | None = text(
        "--user", "-u", metavar="NAME,..", help="Only jobs of these users; me is yourself.", many=True
    )
    state: list[str] | None = text(
        "--state",
        "-t",
        metavar="STATE,..",
        help="Only jobs in these states: waiting, running, failed, ended.",
        many=True,
    )
    name: list[str] | None = text(
        "--name", metavar="NAME,..", help="Only jobs of these names, such as 'sweep-*'.", many=True
    )
    queue: list[str] | None = text("--queue", metavar="NAME,..", help="Only jobs of these queues.", many=True)
    project: list[str] | None = text("--project", metavar="NAME,..", help="Only jobs of these projects.", many=True)
    namespace: list[str] | None = text(
        "--namespace", metavar="NAME,..", help="Only jobs that are pods of others in these namespaces.", many=True
    )
    means: str | None = text(
        "--means", metavar="MEANS", help="Only jobs with this kind of sharing: exclusive (whole), mps, mig, timeslice."
    )
    array: str | None = text("--array", metavar="ID", help="Only jobs of this array, each in a row.")
    since: str | None = text(
        "--since", metavar="WHEN", help="Only jobs submitted in this time, or since: 2h, 2026-11-20."
    )
    sort: str | None = text(
        "--sort",
        metavar="KEY",
        help="Sort by this column, with - before it in descending order: id, name, user, state, queue, project, "
        "priority, "
        "submitted, started, ended, time, attempts, exit.",
    )
    columns: str | None = text(
        "--columns",
        metavar="NAME,..",
        help="Show these columns: id, name, user, state, gpus, time, where, submitted, started, ended, attempts, "
        "exit, queue, project, priority, node, gpu, share, memory, reason, wait, starts, begin, limit, array, "
        "command.",
    )
    elements: bool = flag(
        "--elements", help="List each element of an array; by default, elements in the same state share a row."
    )
    no_header: bool = flag("--no-header", help="For scripts: leave out the titles, and list each element of an array.")
    start: bool = flag("--start", help="Only waiting jobs, with their expected start times.")
    limit: int = whole(
        "--limit",
        metavar="N",
        help="List N jobs: waiting and running jobs first, then the newest; 0 lists all.",
        default=100,
        least=0,
        most=9999,
    )
    watch: bool = flag("--watch", "-w", help="Show the table anew each second, until q or Ctrl-C.")
    json: bool = flag("--json", help="Print JSON, newest first; --limit has no effect.")


class ShowCommand(
    DeclaredCommand,
    runs="direct.show_job.show_job",
    examples=(
        "corral show 17",
        "corral show 17 --json",
    ),
):
    """Show everything about a job.

    Its command and request, the GPUs that it has or had, its members, times and attempts, why it waits or how it ended,
    and where its log is. For an array, a summary of its elements.
    """

    job_id: str = text(
        metavar="ID|NAME", help="Id of a job or an array, or a name: the newest job with it.", required=True
    )
    json: bool = flag("--json", help="Print JSON.")


class TopCommand(
    DeclaredCommand,
    runs="site.top.top",
    examples=(
        "corral top",
        "corral top --once",
    ),
):
    """Watch GPUs and jobs on the whole terminal: bars, waits, logs.

    Filter with /, sort with s, look at a job and its log with Enter, cancel it with c; ? lists all keys, and q quits.
    It follows the server live, also across a restart. --once prints one frame, in a pipe at the size 80 by 24.
    """

    once: bool = flag("--once", help="Print one frame as text, and end.")


class StatusCommand(DeclaredCommand, runs="direct.list_devices.show_status", examples=("corral status",)):
    """Show each GPU, its state, and who uses it.

    One line per GPU: temperature, utilization, memory, state, and the jobs that have it. Below it, processes that
    Corral did not start.
    """

    watch: bool = flag("--watch", "-w", help="Show it anew each second, with power and bars, until q or Ctrl-C.")
    json: bool = flag("--json", help="Print JSON.")


class QueuesCommand(
    DeclaredCommand, runs="direct.list_queues.list_queues", examples=("corral queues --project vision",)
):
    """List queues: policies, quotas, use, and what is left to you.

    Quotas and use are in GPUs; the number after + is the amount that a queue may borrow. The use and waiting jobs of
    a queue include those of the queues below it. LEFT is the most that one more job of yours may use there under all
    quotas: those of the queue and the queues above it (with the amount to borrow now), yours, and the project's.
    `corral status` shows whether so many GPUs are free. A removed queue is listed while jobs are in it.
    """

    project: str = text("--project", metavar="PROJECT", help="Project for which LEFT is computed.", default="default")
    json: bool = flag("--json", help="Print JSON.")


class WhyCommand(DeclaredCommand, runs="direct.explain_job.explain_job", examples=("corral why 17",)):
    """Explain why a job waits, and what would start it now.

    Also shows its place in the queue. For a job that has started, it shows how long the job waited for each reason;
    for a failed job, the cause that the end of its log names, and how to fix it.
    """

    job_id: str = text(metavar="ID|NAME", help="Job id, or a name: the newest job with it.", required=True)
    json: bool = flag("--json", help="Print JSON.")


class LogsCommand(
    DeclaredCommand,
    runs="direct.print_log.print_log",
    examples=(
        "corral logs -f 17",
        "corral logs -n 20 17",
    ),
):
    """Print the output of a job.

    Standard output and standard error are in one log, in the order in which they were written. Lines that begin with
    "corral: " are Corral's own. A waiting job has no log yet; the reason why it waits goes to standard error.

    Lines have no times. With --since, output from a few seconds earlier may be shown, too.
    """

    job_id: str = text(metavar="ID|NAME", help="Job id, or a name: the newest job with it.", required=True)
    follow: bool = flag("--follow", "-f", help="Keep printing until the job has ended.")
    rank: str = text(
        "--rank", metavar="N|all", help="Which member of a gang; all puts its rank before each line.", default="0"
    )
    tail: int | None = whole("--tail", "-n", metavar="N", help="Begin at the last N lines (of each rank).", least=0)
    since: str | None = text("--since", metavar="TIME", help="Output written since then: 10m, 14:05, 2026-10-01.")


class EventsCommand(
    DeclaredCommand,
    runs="site.events.events",
    examples=(
        "corral events",
        "corral events --topics jobs --after 1041 --json",
    ),
):
    """Follow what happens to jobs, GPUs and alerts.

    Each line has the time, the event's id, its topic, the event and its subject. The command runs until Ctrl-C, also
    across a restart of the server. With --after 0 it begins with the oldest event that the server still has.
    """

    topics: str = text(
        "--topics",
        metavar="TOPIC,...",
        help="Only these topics: jobs, devices, alerts, tasks, metrics.",
        default="jobs,devices,alerts",
    )
    after: int | None = whole("--after", metavar="ID", help="Begin after the event with this id.", least=0)
    json: bool = flag("--json", help="Print each event as a line of JSON.")
