"""`corral forward`: bring ports of a job to this machine."""

import signal
import sys
from types import FrameType

from corral.cli.commands import running
from corral.cli.direct.named_job import job_meant
from corral.cli.jobs.follower import CORRAL_FAILED, SIGNALLED
from corral.cli.jobs.interrupts import interruptible
from corral.cli.reaching.forwarded_ports import ForwardedPort, carry
from corral.cli.screen import exit_code_of, say, write_lines
from corral.client import Client
from corral.client.connecting.transport import Transport
from corral.core.model.errors import CorralError


class _Left(Exception):
    """The user ends this command."""


def _leave(number: int, frame: FrameType | None) -> None:
    raise _Left(number)


def forward(given: running.ForwardCommand) -> int:
    """Run `corral forward`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        ports = {one.port: one for one in map(ForwardedPort, given.ports)}
        with Client() as client, interruptible():
            job_id = job_meant(Transport(client.address), given.job_id, lives=True)
            say(carry(client, job_id, given.rank, ports, _show))
    except CorralError as error:
        say(str(error))
        return exit_code_of(error, otherwise=CORRAL_FAILED)
    except _Left as left:
        return SIGNALLED + int(left.args[0])
    return CORRAL_FAILED


def _show(link: str) -> None:
    write_lines(link)
    sys.stdout.flush()
