"""A program that lives the lives of some jobs through `ControlCore`, and fails when control touches the host.

What the ledger and the simulated nodes do is theirs: an event is control's when the innermost function of Corral's on
the stack is one of `corral.core.control`. Prints the phase in which each job is in the end.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from corral.clock import SystemClock
from corral.core.access.caller import Caller
from corral.core.control.changing.job_changes import Verb
from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.fact import ConditionObserved, NodeObserved, Observation
from corral.core.model.home import Home
from corral.core.model.jobs.job import JobKind, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.live_server import LiveServer

EVENTS = {
    "glob.glob", "open", "os.exec", "os.fork", "os.kill", "os.link", "os.listdir", "os.mkdir", "os.posix_spawn",
    "os.remove", "os.rename", "os.rmdir", "os.scandir", "os.symlink", "os.system", "os.truncate", "shutil.rmtree",
    "signal.pthread_kill", "socket.__new__", "socket.bind", "socket.connect", "subprocess.Popen",
}  # fmt: skip
PATIENCE_S = 60.0
ALICE = Caller("alice", 1000, 1000, (1000,), admin=True)
found: list[str] = []


def hook(event: str, arguments: tuple[object, ...]) -> None:
    if event in EVENTS:
        module = innermost(sys._getframe(1))
        if module.startswith("corral.core.control"):
            found.append(f"control did {event}{arguments!r:.200} in {module}")


def innermost(frame: FrameType | None) -> str:
    """The module of Corral's that is at work; "" where the interpreter reads a module for it."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(("importlib", "_frozen_importlib")) or "importlib" in frame.f_code.co_filename:
            return ""
        if module.startswith("corral."):
            return module
        frame = frame.f_back
    return ""


def cluster() -> list[Observation]:
    """Nodes a and b with two devices each."""
    observed: list[Observation] = []
    for name in ("a", "b"):
        devices = tuple(Device(f"GPU-{name}{index}", index, "Simulated", 81_920) for index in range(2))
        observed.append(NodeObserved(Node(name, devices, 64_000, 512 * 1024)))
        observed += [ConditionObserved(DeviceCondition(d.uuid, memory_free_mib=81_920)) for d in devices]
    return observed


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.002)


def live(home: Path) -> list[Phase]:
    """A gang ends well; of single jobs one fails, is cancelled, loses its node, outlives a server, and runs still."""
    clock = SystemClock()
    nodes = {name: SimulatedNode(SimulatedRuntime(clock), clock) for name in ("a", "b")}
    server = LiveServer(Home(home), nodes, cluster())

    def phase(job_id: str) -> Phase:
        job = server.ledger.find_job(job_id)
        assert job is not None
        return job.phase

    def start(request: Request, **more: object) -> str:
        command = () if more.get("kind") is JobKind.RESERVE else ("true",)
        work = Submission(command, request=request, workdir="/", **more)  # type: ignore[arg-type]
        (job_id,) = server.service.submit([work], ALICE)
        until(lambda: phase(job_id) is Phase.RUNNING)
        return job_id

    def node_of(job_id: str) -> str:
        return server.ledger.view().allocations[f"{job_id}.1"].placement.members[0].node

    gang = start(Request(devices=2, gang_size=2))
    server.service.logs(gang, ALICE)[1].read(0)
    for name, launch_id in (("a", f"{gang}.1"), ("b", f"{gang}.1-1")):
        nodes[name].runtime.finish(launch_id)
    until(lambda: phase(gang).terminal)
    failed = start(Request(devices=2))
    nodes[node_of(failed)].runtime.finish(f"{failed}.1", exit_code=1)
    until(lambda: phase(failed).terminal)
    cancelled = start(Request(devices=1), checkpoint_signal="USR1", checkpoint_grace_s=0.01)
    server.service.changes.one(Verb.REQUEUE, cancelled, ALICE)
    until(lambda: phase(cancelled) is Phase.RUNNING and server.ledger.view().jobs[cancelled].launches == 2)
    server.service.changes.one(Verb.CANCEL, cancelled, ALICE)
    until(lambda: phase(cancelled).terminal)
    lost = start(Request(devices=2))
    where = node_of(lost)
    server.core.listener.on_gone(where)
    until(lambda: phase(lost).terminal)
    server.hub.visit(where, server.core.listener)
    over = start(Request(devices=0))
    runs = start(Request(devices=1), kind=JobKind.RESERVE)
    server.close()
    for node in nodes.values():
        node.runtime.on_event = lambda _: None
        node.runtime.finish(f"{over}.1")
    server = LiveServer(Home(home), nodes, cluster())
    for each in (gang, failed, cancelled):
        server.service.explanations.with_log_end(each, ALICE)
    ended = [phase(job_id) for job_id in (gang, failed, cancelled, lost, over, runs)]
    server.close()
    return ended


def main(home: Path, *, trespass: bool) -> int:
    sys.addaudithook(hook)
    if trespass:
        code = compile("open(__file__).close()", "trespass", "exec")
        exec(code, {"__name__": "corral.core.control.trespass", "__file__": os.path.abspath(__file__)})
    for phase in live(home):
        print(phase)
    print("\n".join(dict.fromkeys(found)), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), trespass="--trespass" in sys.argv))
