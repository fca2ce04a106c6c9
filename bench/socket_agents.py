"""A server with 500 agents behind sockets, when nothing happens: `python -m bench socket_agents`.

The agents are simulated nodes of one process, which speak as real ones do; what they take is not counted. Each tells of
its eight devices every five seconds.
"""

import os
import tempfile
import threading
import time
from multiprocessing import get_context
from pathlib import Path

from bench.cluster import await_nodes
from bench.server import throw_away
from corral.client import Client
from corral.clock import SystemClock
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.host.node.agent import AgentServer
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime

AGENTS = 500
DEVICES = 8
INTERVAL_S = 5.0
SETTLE_S = 20.0
IDLE_S = 30.0
CORE_GOAL_PCT = 10
MEMORY_GOAL_MIB = 300
SOCKETS = "CORRAL_BENCH_SOCKETS"
SETTINGS = "sample_interval: 5s\nstale_sample: 60s\nnode_silent_after: 1m\n"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="corral-agents-") as directory:
        os.environ[SOCKETS] = directory
        agents = get_context("spawn").Process(target=serve_agents, args=(directory,), daemon=True)
        agents.start()
        try:
            measure()
        finally:
            agents.kill()
            agents.join()


def measure() -> None:
    def settle(home: Path) -> None:
        (home / "config.yaml").write_text(SETTINGS)

    with throw_away(0, prepare=settle, program="bench.socket_agents_server") as server, Client(server.home) as client:
        await_nodes(client)
        time.sleep(SETTLE_S)
        before_s = server.cpu_s()
        time.sleep(IDLE_S)
        busy_pct = 100 * (server.cpu_s() - before_s) / IDLE_S
        print(f"idle, {AGENTS} agents x {DEVICES} devices told of each {INTERVAL_S:.0f} s: {busy_pct:.1f} % of a core "
              f"(goal below {CORE_GOAL_PCT} %), {server.private_mib():.0f} MiB private "
              f"(goal {MEMORY_GOAL_MIB} MiB)")  # fmt: skip


def names() -> list[str]:
    return [f"n{number:03d}" for number in range(AGENTS)]


def serve_agents(directory: str) -> None:
    """Answer as all of them, until this process is killed."""
    clock = SystemClock()
    nodes = {name: SimulatedNode(SimulatedRuntime(clock), clock) for name in names()}
    for name, node in nodes.items():
        server = AgentServer(node, name, Path(directory, name))
        threading.Thread(target=server.serve, daemon=True).start()
    described = {name: _described(name) for name in nodes}
    for name, node in nodes.items():
        node.show(described[name], ())
    while True:
        began = time.monotonic()
        for number, (name, node) in enumerate(nodes.items()):
            # Agents started at different times, and tell of their devices at different times.
            time.sleep(max(0.0, began + INTERVAL_S * number / AGENTS - time.monotonic()))
            samples = tuple(_sample(device, clock.now()) for device in described[name].devices)
            node.parts["news"].sampled(None, samples)


def _described(name: str) -> Node:
    devices = tuple(Device(f"GPU-{name}-{index}", index, "Simulated", 81_920) for index in range(DEVICES))
    return Node(name, devices, 64_000, 512 * 1024)


def _sample(device: Device, at: float) -> DeviceSample:
    return DeviceSample(
        device.uuid,
        at,
        0,
        temperature_c=31,
        power_mw=61_000,
        processes=(),
        ecc_errors=0,
        memory_used_mib=0,
        memory_free_mib=81_920,
        memory_total_mib=81_920,
    )


if __name__ == "__main__":
    main()
