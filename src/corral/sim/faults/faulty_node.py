"""Nodes that fail as real nodes do, and the connection from a server to one of them.

Nothing here waits: a call to a silent node fails at once, and time passes by a clock that is set by hand.
"""

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from corral.clock import Clock
from corral.core.model.devices.device import DeviceSample, Node
from corral.core.model.errors import NodeUnreachable
from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.ports.node import Reconciled
from corral.host.node.agent_calls import METHODS, CarriedAgent, Method
from corral.host.node.mock.simulated_node import SimulatedLaunches, SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.witness import Witness

LINGER = 0.3
"""The fraction of launches that ignore an order to end and must be killed."""


class WrongClock(Clock):
    """The clock of a host whose wall clock is wrong by `ahead_s`; its durations are right."""

    def __init__(self, right: Clock) -> None:
        self._right = right
        self.ahead_s = 0.0

    def now(self) -> float:
        return self._right.now() + self.ahead_s

    def monotonic(self) -> float:
        return self._right.monotonic()

    def shown(self, at: float) -> float:
        return self._right.shown(at)

    def taken(self, wall: float) -> float:
        return self._right.taken(wall)


class WitnessedRuntime(SimulatedRuntime):
    """Simulated work that reports its beginnings and ends to a witness. Some work ends late.

    Attributes:
        lingers: whether some work ends late, at present.
        is_late: whether present launches were ordered before the node fell silent.
    """

    def __init__(self, node: str, clock: Clock, witness: Witness) -> None:
        super().__init__(clock)
        self._node = node
        self._witness = witness
        self._lingering: set[str] = set()
        self.lingers = True
        self.is_late = False

    def launch(self, launch: Launch) -> None:
        is_new = self.report(launch.id).phase is LaunchPhase.UNKNOWN
        super().launch(launch)
        if is_new:
            self._witness.began(self._node, launch, is_late=self.is_late)

    def running(self) -> list[str]:
        """Return the ids of running launches."""
        return [one for one in self.launches() if self.report(one).phase is LaunchPhase.RUNNING]

    def finish(self, launch_id: str, exit_code: int = 0) -> None:
        self._note_end(launch_id, exit_code)
        super().finish(launch_id, exit_code)

    def die(self, launch_id: str) -> None:
        self._note_end(launch_id, None)
        super().die(launch_id)

    def stop(self, launch_id: str) -> None:
        if self.lingers and random.Random(launch_id).random() < LINGER:
            self._lingering.add(launch_id)
        else:
            self._end_stopped(launch_id)

    def kill_lingering(self) -> None:
        """End the stopped work that lingers, because the grace period is over."""
        lingering, self._lingering = self._lingering, set()
        for launch_id in sorted(lingering):
            self._end_stopped(launch_id)

    def _end_stopped(self, launch_id: str) -> None:
        self._note_end(launch_id, None)
        super().stop(launch_id)

    def _note_end(self, launch_id: str, exit_code: int | None) -> None:
        if self.report(launch_id).phase is LaunchPhase.RUNNING:
            self._witness.ended(launch_id, exit_code)


class _FaultyLaunches(SimulatedLaunches):
    def __init__(self, node: "FaultyNode") -> None:
        super().__init__(node)
        self._runtime = node.runtime

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        self._runtime.lingers = False
        try:
            return super().reconcile(allocated, waiting)
        finally:
            self._runtime.lingers = True


class FaultyNode(SimulatedNode):
    """A node with devices. It can fall silent, lose calls or their answers, restart its agent and lose its power.

    Its disk can be full, and its clock wrong.

    Attributes:
        silent: it does not answer; its work goes on.
        sick: devices that have failed, by UUID.
    """

    runtime: WitnessedRuntime

    def __init__(self, inventory: Node, clock: Clock, witness: Witness) -> None:
        self.wrong_clock = WrongClock(clock)
        super().__init__(WitnessedRuntime(inventory.name, self.wrong_clock, witness), self.wrong_clock)
        self.parts["launches"] = _FaultyLaunches(self)
        self.inventory = inventory
        self.silent = False
        self.sick: set[str] = set()
        self._in_hand: list[Callable[[], object]] = []
        self._mishap: tuple[str, str] | None = None
        self.runtime.on_event = self.launch_changed
        self.sample_all()

    def sample_all(self) -> None:
        """Sample every device, and report the node."""
        self.samples = {device.uuid: self._sample(device.uuid) for device in self.inventory.devices}
        self.show(self.inventory, tuple(self.samples.values()))

    def fail_at(self, call: str, how: str) -> None:
        """Fail at the next call of this name.

        `how` says what happens to that call: the node falls silent "before" or "after" it is carried out, or it is
        carried out "late". Or the agent "crashes before" or "crashes after" it, and starts again at once.
        """
        self._mishap = (str(METHODS[call]), how)

    def speak(self) -> None:
        """Answer again from now on. Calls received when it fell silent are carried out first."""
        in_hand, self._in_hand = self._in_hand, []
        self.runtime.is_late = True
        for call in in_hand:
            call()
        self.runtime.is_late = False
        self._mishap, self.silent = None, False

    def restart_agent(self) -> None:
        """Replace the agent: the old agent's memory and its received calls are lost."""
        self._in_hand.clear()
        self._mishap = None
        self.restart()
        self.sample_all()

    def lose_power(self) -> None:
        """End all work here without a report of its end."""
        for launch_id in self.runtime.running():
            self.runtime.die(launch_id)
        self.restart_agent()
        self.silent = True

    def receive(self, call: str, do: Callable[[], object]) -> object:
        """Receive a call and carry it out. Raises NodeUnreachable if the node does not answer."""
        if self.silent:
            raise NodeUnreachable("the node does not answer")
        mishap = self._mishap
        if mishap is None or mishap[0] != call:
            return do()
        how, self._mishap = mishap[1], None
        self.silent = not how.startswith("crashes")
        if how.endswith("after"):
            do()
        elif how == "late":
            self._in_hand.append(do)
        if how.startswith("crashes"):
            self.restart_agent()
        raise NodeUnreachable("the node did not answer")

    def _sample(self, uuid: str) -> DeviceSample:
        memory_mib = next(device.memory_mib for device in self.inventory.devices if device.uuid == uuid)
        fault = "it failed in the simulation" if uuid in self.sick else None
        return DeviceSample(uuid, self.clock.now(), 0, 0, memory_mib, memory_mib, processes=(), fault=fault)


class Cable:
    """Carries the calls of one server to its nodes until the server is killed: at once, or after a number of further
    calls.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: int | None = None
        self.calls = 0

    @property
    def is_cut(self) -> bool:
        """Whether no call is carried any more."""
        return self._left is not None and self._left <= 0

    def cut_after(self, calls: int) -> None:
        """Carry `calls` more calls, and then none."""
        self._left = calls

    def carry(self) -> None:
        """Count a call. Raises NodeUnreachable if it is not carried."""
        with self._lock:
            self.calls += 1
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise NodeUnreachable("the server was killed")


class NodeLink(CarriedAgent):
    """Implements `corral.core.ports.node.NodeAgent`: one server's connection to one node."""

    def __init__(self, node: FaultyNode, cable: Cable) -> None:
        super().__init__(self._call)
        self._node = node
        self._cable = cable
        for part in CarriedAgent.__annotations__:
            if getattr(node, part, None) is None:
                setattr(self, part, None)

    def close(self) -> None:
        """Do nothing: the node outlives the server."""

    def _call(self, method: Method, *arguments: Any, **named: Any) -> Any:
        self._cable.carry()
        return self._node.receive(str(method), partial(method.of(self._node), *arguments, **named))
