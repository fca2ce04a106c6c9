"""A kubelet for tests: gRPC servers that answer as a kubelet does, on sockets in a directory of the test."""

import contextlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from corral.engines.kubernetes.agent.agent_report import GivenDevices
from corral.engines.kubernetes.agent.kubelet_api.device_plugin import KUBELET_SOCKET
from corral.engines.kubernetes.agent.kubelet_api.messages import DEVICE_PLUGIN, POD_RESOURCES
from corral.engines.kubernetes.agent.plugin.other_plugins import CHECKPOINT


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


class FakeKubelet:
    """The part of a kubelet that meets device plugins, in a directory of the test.

    Attributes:
        devices: the newest list of each resource, with whether each device is healthy.
        registered: the sockets that have registered, in order.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.devices: dict[str, dict[str, bool]] = {}
        self.registered: list[str] = []
        self._plugins: dict[str, Any] = {}
        self._server: Any = None
        self._heard = threading.Condition()

    def start(self) -> None:
        """As a kubelet does that starts: it removes the sockets of all plugins, and knows none."""
        for path in self.directory.iterdir():
            if not path.is_dir() and path.name != CHECKPOINT:
                path.unlink()
        handler = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=DEVICE_PLUGIN.RegisterRequest.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        self._server = grpc.server(ThreadPoolExecutor(2))
        service = grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler})
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{self.directory / KUBELET_SOCKET}")
        self._server.start()

    def close(self) -> None:
        """It crashes: its socket stays."""
        if self._server is not None:
            self._server.stop(None).wait(10)
        for channel in self._plugins.values():
            channel.close()
        with self._heard:
            self._plugins.clear()
            self.devices.clear()

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until this holds of what was heard."""
        with self._heard:
            assert self._heard.wait_for(holds, 30), (self.registered, self.devices)

    def preferred(self, resource: str, available: Sequence[str], count: int) -> list[str]:
        request = DEVICE_PLUGIN.PreferredAllocationRequest()
        request.container_requests.add(available_deviceIDs=available, allocation_size=count)
        answer = self._call(resource, "GetPreferredAllocation", request, DEVICE_PLUGIN.PreferredAllocationResponse)
        return list(answer.container_responses[0].deviceIDs)

    def allocate(self, resource: str, ids: Sequence[str]) -> Any:
        """What a container gets for these devices. Raises grpc.RpcError if the plugin refuses."""
        request = DEVICE_PLUGIN.AllocateRequest()
        request.container_requests.add(devices_ids=ids)
        return self._call(resource, "Allocate", request, DEVICE_PLUGIN.AllocateResponse).container_responses[0]

    def begin(self, resource: str, ids: Sequence[str]) -> None:
        """A container with these devices starts. Raises grpc.RpcError if the plugin refuses."""
        request = DEVICE_PLUGIN.PreStartContainerRequest(devices_ids=ids)
        self._call(resource, "PreStartContainer", request, DEVICE_PLUGIN.PreStartContainerResponse)

    def note(self) -> None:
        """Write the checkpoint, as a kubelet does after each list."""
        listed = {resource: sorted(known) for resource, known in self.devices.items()}
        document = {"Data": {"PodDeviceEntries": None, "RegisteredDevices": listed}, "Checksum": 0}
        (self.directory / CHECKPOINT).write_text(json.dumps(document))

    def _register(self, request: Any, _context: Any) -> Any:
        channel = grpc.insecure_channel(f"unix:{self.directory / request.endpoint}")
        with self._heard:
            self.registered.append(request.endpoint)
            old = self._plugins.pop(request.resource_name, None)
            self._plugins[request.resource_name] = channel
        if old is not None:
            old.close()
        following = threading.Thread(target=self._follow, args=(request.resource_name, channel), daemon=True)
        following.start()
        return DEVICE_PLUGIN.Empty()

    def _follow(self, resource: str, channel: Any) -> None:
        call = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=DEVICE_PLUGIN.ListAndWatchResponse.FromString,
        )
        with contextlib.suppress(grpc.RpcError, ValueError):
            for answer in call(DEVICE_PLUGIN.Empty(), wait_for_ready=True):
                with self._heard:
                    self.devices[resource] = {one.ID: one.health == "Healthy" for one in answer.devices}
                    self.note()
                    self._heard.notify_all()

    def _call(self, resource: str, call: str, request: Any, answer: Any) -> Any:
        method = self._plugins[resource].unary_unary(
            f"/v1beta1.DevicePlugin/{call}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return method(request, timeout=30)
