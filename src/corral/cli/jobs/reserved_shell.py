"""`corral release` without an id, in a shell that has a reservation: end that reservation."""

from corral.cli.local.reserved_run import forget
from corral.cli.screen import exit_code_of, print_json, say, write_lines
from corral.client import ChangedJobs, Client
from corral.core.model.errors import Conflict, NotFound, Refused
from corral.core.model.jobs.job import JobKind


def release_own(client: Client, job_id: str, *, json: bool) -> int:
    """End this shell's reservation, print the line that the shell must evaluate, and return the exit code.

    The shell must also forget a reservation that has already ended. Raises Refused for a job of another kind.
    """
    code, changed = 0, ChangedJobs(())
    try:
        if client.jobs.get(job_id).kind != JobKind.RESERVE:
            raise Refused(f"CORRAL_RESERVATION: job {job_id} is no reservation; make the shell forget it: {forget()}")
        changed = ChangedJobs(client.jobs.release(job_id))
        say(f"released reservation {job_id} of this shell, which is to forget it: {forget()}")
    except (NotFound, Conflict) as error:
        say(f"this shell's reservation is over: {error}; make the shell forget it: {forget()}")
        code = exit_code_of(error)
    if json:
        print_json(changed)
    else:
        write_lines(forget())
    return code
