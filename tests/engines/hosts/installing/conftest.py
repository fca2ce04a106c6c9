from collections.abc import Iterator

import pytest

from corral.core.model.errors import NodeUnreachable
from corral.engines.hosts.installing.installer import Installed, InstallOrder, install
from corral.host.node.remote import AgentSocket, RemoteNode
from tests.engines.hosts.installing.other_host import WHY_NOT, OtherHost
from tests.host.node.conftest import MOCK, until

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB server@here"
LIBRARY = "/usr/local/lib/corral-agent"
HOME = "/var/lib/corral-agent"
ORDER = InstallOrder("tag1", ("--mock", "/root/mock.toml", "--node", "there"), "kill_grace: 0.2s\n", KEY)


class Installing(OtherHost):
    """A host with mock devices, on which an agent can be installed."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[RemoteNode] = []
        self.path("/root/mock.toml").write_text(MOCK)

    def install(self, order: InstallOrder = ORDER) -> Installed:
        return install(self.ssh, order)

    def agent(self) -> RemoteNode:
        """The agent there, once it answers."""
        node = RemoteNode(AgentSocket(self.path(f"{HOME}/agent.sock")))
        self.nodes.append(node)
        until(lambda: answers(node), "the agent answers")
        return node

    def versions(self) -> list[str]:
        return sorted(path.name for path in self.path(f"{LIBRARY}/versions").iterdir())


def answers(node: RemoteNode) -> bool:
    try:
        node.installation.state()
    except NodeUnreachable:
        return False
    return True


@pytest.fixture
def there() -> Iterator[Installing]:
    if WHY_NOT is not None:
        pytest.skip(WHY_NOT)
    host = Installing()
    yield host
    for node in host.nodes:
        node.close()
    host.close()
