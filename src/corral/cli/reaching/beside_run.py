"""Ports of a job that `corral run` brings here for as long as it follows the job."""

import threading
from collections.abc import Mapping

from corral.cli.reaching.forwarded_ports import ForwardedPort, carry
from corral.cli.screen import say
from corral.client import Client
from corral.core.model.errors import BackendFailed, Conflict, CorralError

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


def forward_beside(job_id: str, ports: Mapping[int, ForwardedPort]) -> None:
    """Carry connections to the ports of each attempt of the job, on a thread that ends with this command."""
    threading.Thread(target=_carry_while_it_lives, args=(job_id, ports), name="forward", daemon=True).start()


def _carry_while_it_lives(job_id: str, ports: Mapping[int, ForwardedPort]) -> None:
    pause_s = _FIRST_PAUSE_S
    with Client() as client:
        while True:
            try:
                job = client.jobs.get(job_id)
                if job.ended:
                    return
                if job.phase != "PENDING":
                    _tell(client, job_id, carry(client, job_id, 0, ports, say))
                    pause_s = _FIRST_PAUSE_S
            except (BackendFailed, Conflict):
                # The server restarts, or the job is being started.
                pass
            except CorralError as error:
                say(f"no port is forwarded: {error}")
                return
            threading.Event().wait(pause_s)
            pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)


def _tell(client: Client, job_id: str, reason: str) -> None:
    """Say why ports are not forwarded any more, unless the job has ended: that is said by `run`."""
    if client.jobs.get(job_id).phase == "RUNNING":
        say(f"ports are not forwarded: {reason}")
