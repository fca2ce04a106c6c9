"""A server of the nodes whose agents answer on sockets: `python pool_server.py NAME=SOCKET... -- OPTIONS`."""

import sys
from pathlib import Path
from typing import Any

import corral.app.server
from corral.app.daemon import leave, main
from corral.core.ports.engine import EngineTraits
from corral.host.node.remote import AgentSocket, RemoteNode


class Sockets:
    """Implements `corral.core.ports.engine.NodeEngine` over sockets that the test made."""

    remarks = ()
    pod_scheduler = None
    traits = EngineTraits("mock")

    def __init__(self, places: dict[str, Path]) -> None:
        self._agents = {
            name: RemoteNode(AgentSocket(path), patience_s=3.0, distrust_s=0.1) for name, path in places.items()
        }

    def start(self) -> dict[str, RemoteNode]:
        return dict(self._agents)

    def log_path(self, *_: object) -> None:
        """None: logs are read through the agents."""

    def on_record(self) -> tuple[str, ...]:
        return ()

    at_work = on_record

    def departed(self, node: str) -> None:
        """None: no node leaves."""

    def attend(self, jobs: object) -> None:
        """Do nothing."""

    def watch(self, *_: object) -> None:
        """Do nothing: no node comes or goes."""

    def close(self) -> None:
        for agent in self._agents.values():
            agent.close()


def serve() -> int:
    at = sys.argv.index("--")
    places = {name: Path(path) for name, _, path in (word.partition("=") for word in sys.argv[1:at])}

    def engine(*_: Any, **__: Any) -> Sockets:
        return Sockets(places)

    corral.app.server.find_host_engine = engine  # type: ignore[attr-defined]
    return main(sys.argv[at + 1 :])


if __name__ == "__main__":
    leave(serve())
