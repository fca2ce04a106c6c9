"""Forks servers from a process that has imported everything, so that hundreds of boots cost a tenth of a second each.

Reads one JSON object a line: {"home": PATH, "mock": PATH, "crash": [STEP, N, WHEN] or null} and answers with the pid of
the server. STEP is "commit", "launch" or, of a server whose nodes have agents, "member"; the server kills itself with
SIGKILL at the Nth of them, WHEN "before" or "after" it was done. Nothing of this is in the server's own code: its parts
are wrapped here.
"""

import contextlib
import importlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import corral.app.server
import corral.features.history.recording.job_blocks
import corral.host.telemetry.mock  # noqa: F401 - these are loaded once here, and not by each server
from corral.app import daemon
from corral.core.ledger.database import Database
from corral.features.feature_list import NAMES
from corral.host.node.agent_calls import METHODS, Method
from corral.host.node.remote import RemoteNode
from corral.host.runtimes.process.process_launches import ProcessLaunches


def arm(step: str, number: int, when: str) -> None:
    """Have this process killed at the `number`-th step of that kind."""
    count = itertools.count(1)
    writing = Database.writing

    def due(moment: str, n: int) -> None:
        if n == number and moment == when:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextlib.contextmanager
    def counted_writing(self: Database) -> Iterator[Any]:
        n = next(count)
        with writing(self) as connection:
            yield connection
            due("before", n)
        due("after", n)

    def counted(launch: Callable[..., None]) -> Callable[..., None]:
        def counted_launch(*args: Any, **kwargs: Any) -> None:
            n = next(count)
            due("before", n)
            launch(*args, **kwargs)
            due("after", n)

        return counted_launch

    call = RemoteNode._call
    launched = counted(call)

    def called_to_launch(node: RemoteNode, method: Method, *arguments: Any, **named: Any) -> Any:
        return (launched if method is METHODS["launches.launch"] else call)(node, method, *arguments, **named)

    wrapped: dict[str, tuple[type, str, Callable[..., Any]]] = {
        "commit": (Database, "writing", counted_writing),
        "launch": (ProcessLaunches, "launch", counted(ProcessLaunches.launch)),
        "member": (RemoteNode, "_call", called_to_launch),
    }
    owner, name, replacement = wrapped[step]
    setattr(owner, name, replacement)


def serve(order: dict[str, Any]) -> int:
    """Be the server of one order; in the forked child."""
    log = os.open(f"{order['home']}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    if order["crash"]:
        arm(*order["crash"])
    return daemon.main(["--home", order["home"], "--mock", order["mock"]])


def main() -> None:
    """Fork a server for every line until the input ends."""
    for name in NAMES:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(f"corral.features.{name}.build")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            code = 1
            try:
                code = serve(order)
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
