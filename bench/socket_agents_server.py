"""The server of `bench.socket_agents`: its nodes are agents behind the sockets of a directory."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.socket_agents import SOCKETS, names
from corral.app import server
from corral.app.daemon import leave, main
from corral.core.ports.engine import EngineTraits, Joined, Left
from corral.core.ports.node import NodeAgent
from corral.core.ports.pod_jobs import PodJobs
from corral.host.node.remote import AgentSocket, RemoteNode


class SocketAgents:
    """Implements `corral.core.ports.engine.NodeEngine`."""

    traits = EngineTraits("mock")
    remarks = ()
    pod_scheduler = None

    def log_path(self, node: str, job_id: str, rank: int) -> str | None:
        return None

    def start(self) -> Mapping[str, NodeAgent]:
        directory = os.environ[SOCKETS]
        return {name: RemoteNode(AgentSocket(Path(directory, name))) for name in names()}

    def on_record(self) -> tuple[str, ...]:
        return ()

    def at_work(self) -> tuple[str, ...]:
        return ()

    def departed(self, node: str) -> NodeAgent | None:
        return None

    def attend(self, jobs: PodJobs) -> None:
        pass

    def watch(self, joined: Joined, left: Left) -> None:
        pass

    def close(self) -> None:
        pass


def _engine(*_: Any, **__: Any) -> SocketAgents:
    return SocketAgents()


if __name__ == "__main__":
    setattr(server, "find_host_engine", _engine)  # noqa: B010
    leave(main())
