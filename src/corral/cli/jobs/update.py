"""`corral update`: change jobs that have not ended."""

from corral.cli.commands import changing
from corral.cli.screen import complain_of, exit_code_of, write_lines
from corral.client import Client
from corral.core.model.errors import Conflict, Refused
from corral.core.model.units import parse_time_limit_s


def update(given: changing.UpdateCommand) -> int:
    """Run `corral update`."""
    if given.priority is None and given.time is None and given.name is None and given.queue is None:
        raise Refused("nothing to change; give at least one of --priority, --time, --name and --queue")
    time_limit_s = None if given.time is None else parse_time_limit_s(given.time, field="--time")
    codes = [0]
    told: set[str] = set()
    with Client() as client:
        for job_id in dict.fromkeys(given.ids):
            try:
                touched = client.jobs.update(
                    job_id, priority=given.priority, time=time_limit_s, name=given.name, queue=given.queue
                )
            except (Refused, Conflict) as error:
                complain_of(error)
                codes.append(exit_code_of(error))
                continue
            write_lines(*(f"updated {each}" for each in touched if each not in told))
            told.update(touched)
    return max(codes)
