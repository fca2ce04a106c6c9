"""A kubelet for tests: a gRPC server that answers as a kubelet does, on sockets in a directory of the test."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from corral.engines.kubernetes.agent.agent_report import GivenDevices
from corral.engines.kubernetes.agent.kubelet_api.messages import POD_RESOURCES


class FakePodResources:
    """The pod-resources socket of a kubelet, from `start` to `close`. It can be started again.

    Attributes:
        given: the devices that it says it has given.
        allocatable: those that it can give; None as a kubelet that does not know the call.
    """

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.given: tuple[GivenDevices, ...] = ()
        self.allocatable: dict[str, tuple[str, ...]] | None = {}
        self._server: Any = None

    def start(self) -> None:
        calls = {"List": self._list, **({} if self.allocatable is None else {"GetAllocatableResources": self._all})}
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                call, response_serializer=lambda message: message.SerializeToString()
            )
            for name, call in calls.items()
        }
        self._server = grpc.server(ThreadPoolExecutor(2))
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers)
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def close(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait(10)
            self.socket.unlink(missing_ok=True)

    def _list(self, _request: bytes, _context: Any) -> Any:
        pods = [
            POD_RESOURCES.PodResources(
                name=one.pod,
                namespace=one.namespace,
                containers=[
                    POD_RESOURCES.ContainerResources(name=one.container, devices=_devices(one.resource, one.device_ids))
                ],
            )
            for one in self.given
        ]
        return POD_RESOURCES.ListPodResourcesResponse(pod_resources=pods)

    def _all(self, _request: bytes, _context: Any) -> Any:
        found = [one for resource, ids in (self.allocatable or {}).items() for one in _devices(resource, ids)]
        return POD_RESOURCES.AllocatableResourcesResponse(devices=found)


def _devices(resource: str, ids: tuple[str, ...]) -> list[Any]:
    """Each device on its own, as kubelets list devices of different NUMA nodes."""
    return [POD_RESOURCES.ContainerDevices(resource_name=resource, device_ids=[one]) for one in ids]
