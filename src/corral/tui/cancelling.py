"""Cancelling a job: the server is asked whether this user may, then the user, then it is done."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from corral.client import Client
from corral.core.model.answers.job_changes import ChangedJobs
from corral.tui.feed import Answered

if TYPE_CHECKING:
    from corral.tui.app import TopApp


Say = Callable[[str], None]


class Cancelling:
    """The key `c` in the list and in a log; the result is shown there."""

    def __init__(self, app: "TopApp") -> None:
        self._app = app

    def begin(self, job_id: str, say: Say) -> None:
        """Ask the server whether this user can cancel the job; if so, ask the user."""
        self._ask(job_id, say, partial(self._may, job_id, say), dry_run=True)

    def _ask(self, job_id: str, say: Say, then: Callable[[Answered], None], *, dry_run: bool) -> None:
        if not self._app.asker.ask(partial(_cancel, job_id, dry_run), then):
            say("the server is slow to answer; nothing was cancelled, try again")

    def _may(self, job_id: str, say: Say, answered: Answered) -> None:
        from corral.tui.dialogs import question

        if (why := _why_not(answered)) is not None:
            say(f"job {job_id} is not cancelled: {why}")
            return

        def answer(yes: bool | None) -> None:
            if yes:
                self._ask(job_id, say, partial(_done, job_id, say), dry_run=False)

        job = self._app.board.jobs.get(job_id)
        what = f" {job.name} of {job.user}, {job.phase}" if job is not None else ""
        self._app.push_screen(question(f"Cancel job {job_id}{what}?"), answer)


def _done(job_id: str, say: Say, answered: Answered) -> None:
    why = _why_not(answered)
    say(f"job {job_id} is cancelled" if why is None else f"job {job_id} is not cancelled: {why}")


def _cancel(job_id: str, dry_run: bool, client: Client) -> ChangedJobs:
    return client.jobs.change("cancel", [job_id], dry_run=dry_run)


def _why_not(answered: Answered) -> str | None:
    """Return the server's objection, or None."""
    if answered.error is not None:
        return str(answered.error)
    changed: ChangedJobs = answered.value
    return changed.unchanged[0].reason if changed.unchanged else None
