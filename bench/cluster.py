"""A server of many nodes while nothing happens: a mock cluster of 64 nodes x 8 devices, with real agents.

`python -m bench cluster` prints how soon it is there, and what the server takes of a core with samples each 5 seconds.
"""

import time
from pathlib import Path

from bench.server import RunningServer, throw_away
from corral.client import Client

NODES = 64
DEVICES = 8
SETTLE_S = 10.0
IDLE_S = 30.0
SETTINGS = "sample_interval: 5s\nstale_sample: 20s\n"


def main() -> None:
    with throw_away(prepare=describe) as server:
        print(f"server and {NODES} agents ready after {server.ready_s:.1f} s")
        await_nodes(server)
        time.sleep(SETTLE_S)
        before_s = server.cpu_s()
        time.sleep(IDLE_S)
        busy_pct = 100 * (server.cpu_s() - before_s) / IDLE_S
        print(f"idle, {NODES} nodes x {DEVICES} devices sampled each 5 s: {busy_pct:.2f} % of a core (goal below 2 %), "
              f"{server.private_mib():.0f} MiB private")  # fmt: skip


def describe(home: Path) -> None:
    """Nodes in the place of a mock file's devices."""
    (home / "mock-accelerator.toml").write_text("".join(_node(number) for number in range(NODES)))
    (home / "config.yaml").write_text(SETTINGS)


def await_nodes(server: RunningServer) -> None:
    with Client(server.home) as client:
        while {row.state for row in client.nodes.list()} != {"ready"}:
            time.sleep(0.5)


def _node(number: int) -> str:
    rows = "".join(
        f'  {{ mother_uuid = "GPU-{number:03d}-{i}", model_name = "Mock A100", memory_size = "80G" }},\n'
        for i in range(DEVICES)
    )
    return f'[[nodes]]\nname = "n{number:03d}"\ndevices = [\n{rows}]\n'


if __name__ == "__main__":
    main()
