"""What a server of many nodes does while nothing happens: a mock cluster with real agents, and the hub that hears them.

`python -m bench.cluster [NODES]` prints the hub's share of a core with 64 nodes of 8 devices, sampled each 5 seconds.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from corral.clock import SystemClock
from corral.config import Settings
from corral.model.fact import Observation
from corral.model.home import Home
from corral.model.view import View
from corral.node.mock_nodes import MockNodes
from corral.ports.node import ServiceLost
from corral.telemetry.hub import Hub

NODES = 64
DEVICES = 8
IDLE_S = 30.0
SETTINGS = "sample_interval: 5s\nstale_sample: 20s\n"


class Listener:
    """Readmits every node at once, and counts what is told of nodes that do nothing."""

    def __init__(self) -> None:
        self.view = View()
        self.told = 0
        self.hub: Hub | None = None

    def observe(self, observations: Sequence[Observation]) -> None:
        self.told += len(observations)
        self.view = self.view.advance(observations)

    def on_return(self, node: str, visit: int) -> None:
        assert self.hub is not None
        self.hub.readmit(node, visit)

    def on_launches(self, node: str, launch_ids: tuple[str, ...]) -> None: ...

    def on_services_lost(self, node: str, lost: tuple[ServiceLost, ...]) -> None: ...

    def on_gone(self, node: str) -> None: ...


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    root = Path(tempfile.mkdtemp(prefix="cluster-"))
    try:
        _measure(Home(root), count)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _measure(home: Home, count: int) -> None:
    path = home.root / "mock.toml"
    path.write_text("".join(_node(number) for number in range(count)))
    home.config_file.write_text(SETTINGS)
    nodes, listener = MockNodes(home, path), Listener()
    settings = replace(Settings(), sample_interval_s=5.0, stale_sample_s=20.0)
    try:
        began = time.monotonic()
        agents = nodes.start()
        print(f"{count} agents answer after {time.monotonic() - began:.1f} s")
        listener.hub = Hub(agents, SystemClock(), settings, view=lambda: listener.view, observe=listener.observe)
        listener.hub.start(listener)
        listener.told = 0
        began, before_s = time.monotonic(), time.process_time()
        time.sleep(IDLE_S)
        busy_pct = 100 * (time.process_time() - before_s) / (time.monotonic() - began)
        ready = sum(each.contact == "ready" for each in listener.hub.contacts())
        print(f"{count} nodes x {DEVICES} devices, sampled each 5 s: {busy_pct:.2f} % of a core, {ready} nodes ready, "
              f"{listener.told} observations (goal for a whole server: 2 %)")  # fmt: skip
        listener.hub.stop()
    finally:
        nodes.close()


def _node(number: int) -> str:
    rows = "".join(
        f'  {{ mother_uuid = "GPU-{number:03d}-{i}", model_name = "Mock A100", memory_size = "80G" }},\n'
        for i in range(DEVICES)
    )
    return f'[[nodes]]\nname = "n{number:03d}"\ndevices = [\n{rows}]\n'


if __name__ == "__main__":
    main()
