"""Simulates the loss of a mock host's power."""

import signal
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from corral.core.model.jobs.job import ProcessIdentity
from corral.core.ports.runtime import Runtime
from corral.host.runtimes.process.ending.killing import signal_listed
from corral.host.runtimes.process.runtime import CONTAINER


def kill_all(runtimes: Mapping[str, Runtime], alive: Callable[[ProcessIdentity], bool]) -> None:
    """Kill every process that Corral started here, supervisors first."""
    runtime, containers = runtimes["process"], runtimes.get("container")
    with_containers = () if containers is None else containers.launches()
    for name in (*runtime.launches(), *(CONTAINER + launch_id for launch_id in with_containers)):
        _kill(partial(_of_launch, runtime, name, alive))
    if containers is not None:
        # The processes in containers descend from Docker, not from the runners.
        for launch_id in with_containers:
            _kill(partial(containers.pids, launch_id))


def _of_launch(runtime: Runtime, launch_id: str, alive: Callable[[ProcessIdentity], bool]) -> list[int]:
    """Return the pids of a launch: first its supervisor if it lives, then its job's processes."""
    supervisor = runtime.lineage(launch_id).root
    first = [supervisor.pid] if supervisor is not None and alive(supervisor) else []
    return [*first, *runtime.pids(launch_id)]


def _kill(list_them: Callable[[], Iterable[int]]) -> None:
    signal_listed(list_them(), list_them, signal.SIGKILL)
