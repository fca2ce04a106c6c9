"""Commands that change jobs."""

from __future__ import annotations

from corral.cli.declaring import DeclaredCommand, DeclaredOptions, flag, text, whole


class ChangeFlags(DeclaredOptions):
    """The options that choose jobs, skip the question, and set the output form. None means that a flag is missing."""

    user: list[str] | None = text(
        "--user", "-u", metavar="NAME|me,..", help="Jobs of these users; of others for administrators only.", many=True
    )
    name: list[str] | None = text(
        "--name", metavar="PATTERN,..", help="Jobs of these names, such as 'sweep-*'.", many=True
    )
    array: str | None = text("--array", metavar="ID", help="Jobs of this array.")
    state: list[str] | None = text(
        "--state", "-t", metavar="STATE", help="Jobs in this state, such as pending,running.", many=True
    )
    yes: bool = flag("--yes", "-y", help="Do not ask, even if several jobs match.")
    json: bool = flag("--json", help="Print JSON.")


class CancelCommand(
    DeclaredCommand,
    runs="direct.change_jobs.cancel",
    takes=ChangeFlags,
    examples=(
        "corral cancel 17 18_3-9",
        "corral cancel --name 'sweep-*' --state pending",
    ),
):
    """Cancel jobs: stop running ones, remove waiting ones.

    All processes of a running job get SIGTERM, then SIGKILL after a grace period (the setting kill_grace).

    Options select among your own jobs, or among the given ids. If they find more than one, you are asked first.
    """

    flags: ChangeFlags
    ids: list[str] | None = text(
        metavar="[ID|NAME]...",
        help="Job ids, or names of your jobs. An array's id stands for all its jobs, '17_[3-9]' for some of them.",
        many=True,
    )


class UpdateCommand(DeclaredCommand, runs="jobs.change.update", examples=("corral update 17 --priority 8 --time 4h",)):
    """Change jobs that wait or run: priority, time, name, queue.

    Each job gets all of the given changes or none. A waiting job keeps its time of submission; its time limit may be
    lengthened up to the limit of the site. The limit of a running job may only be shortened, and ends the job at
    once if it has run longer; administrators may also lengthen it.
    """

    ids: list[str] = text(
        metavar="ID|NAME...",
        help="Job ids, or names of your jobs. An array's id stands for all its jobs, '17_[3-9]' for some of them.",
        required=True,
        many=True,
    )
    priority: int | None = whole("--priority", metavar="N", help="Lower numbers run first.")
    time: str | None = text("--time", metavar="TIME", help="Time limit, from the start of the job: 30m, 2h.")
    name: str | None = text("--name", metavar="NAME", help="Name.")
    queue: str | None = text("--queue", metavar="QUEUE", help="Queue; of waiting jobs only.")


class HoldCommand(
    DeclaredCommand,
    runs="direct.change_jobs.hold",
    takes=ChangeFlags,
    examples=(
        "corral hold 17",
        "corral hold --user me",
    ),
):
    """Keep waiting jobs from starting until `corral release`.

    Options select among your own jobs, or among the given ids. If they find more than one, you are asked first.
    """

    flags: ChangeFlags
    ids: list[str] | None = text(
        metavar="[ID|NAME]...",
        help="Job ids, or names of your jobs. An array's id stands for all its jobs, '17_[3-9]' for some of them.",
        many=True,
    )


class ReleaseCommand(
    DeclaredCommand,
    runs="direct.change_jobs.release",
    takes=ChangeFlags,
    examples=(
        "corral release 17",
        "corral release --name 'sweep-*'",
    ),
):
    """Let jobs on hold start again, or end reservations.

    Options select among your own jobs on hold, or among the given ids. If they find more than one, you are asked
    first. A reservation ends by its id, or with --state running. Without an id, the reservation of this shell ends:
    eval "$(corral release)" makes the shell forget it, too.
    """

    flags: ChangeFlags
    ids: list[str] | None = text(
        metavar="[ID|NAME]...",
        help="Job ids, or names of your jobs. An array's id stands for all its jobs, '17_[3-9]' for some of them.",
        many=True,
    )


class RequeueCommand(
    DeclaredCommand,
    runs="direct.change_jobs.requeue",
    takes=ChangeFlags,
    examples=(
        "corral requeue 17",
        "corral requeue --array 17 --state failed",
    ),
):
    """Run jobs again: those that run, failed or were lost.

    Running jobs are stopped and queued. Options select among your own jobs that failed or were lost (with --state
    also others), or among the given ids. If they find more than one, you are asked first.
    """

    flags: ChangeFlags
    ids: list[str] | None = text(
        metavar="[ID|NAME]...",
        help="Job ids, or names of your jobs. An array's id stands for all its jobs, '17_[3-9]' for some of them.",
        many=True,
    )
