"""A device plugin's gRPC server, its registration at the kubelet, and questions to plugins of others.

Each resource has a server of its own, with a socket in the kubelet's directory of plugins.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from corral.core.model.errors import BackendFailed, CorralError
from corral.engines.kubernetes.agent.kubelet_api.allocations import (
    ContainerAccess,
    KubeletChoice,
    ListedDevice,
    PluginCalls,
)
from corral.engines.kubernetes.agent.kubelet_api.messages import DEVICE_PLUGIN

PLUGINS = Path("/var/lib/kubelet/device-plugins")
KUBELET_SOCKET = "kubelet.sock"

_VERSION = "v1beta1"
_THREADS = 8
"""A kubelet follows the list in one, and makes its other calls one after another."""
_STOP_S = 2.0
_CALL_S = 5.0
_LOOK_S = 2.0
_PERMISSIONS = "rw"
_OPTIONS = (("grpc.max_receive_message_length", 16 << 20), ("grpc.enable_http_proxy", 0))


class PluginServer:
    """Serves one resource at a socket, from `start` to `close`."""

    def __init__(self, socket: Path, calls: PluginCalls) -> None:
        self.socket = socket
        self._calls = calls
        self._changed = threading.Condition()
        self._version = 0
        self._followers = 0
        self._closed = False
        self._server: Any = None
        self._inode: int | None = None

    def start(self) -> None:
        """Listen, in place of whoever listened there before. Raises BackendFailed."""
        try:
            self.socket.unlink(missing_ok=True)
        except OSError as error:
            raise BackendFailed(f"{self.socket} is in the way of a device plugin: {error.strerror}") from None
        server = grpc.server(ThreadPoolExecutor(_THREADS, thread_name_prefix="device-plugin"))
        calls = {
            "GetDevicePluginOptions": self._options,
            "GetPreferredAllocation": self._preferred,
            "Allocate": self._allocate,
            "PreStartContainer": self._starting,
        }
        requests = {
            "GetPreferredAllocation": DEVICE_PLUGIN.PreferredAllocationRequest,
            "Allocate": DEVICE_PLUGIN.AllocateRequest,
            "PreStartContainer": DEVICE_PLUGIN.PreStartContainerRequest,
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                call,
                request_deserializer=requests.get(name, DEVICE_PLUGIN.Empty).FromString,
                response_serializer=_serialized,
            )
            for name, call in calls.items()
        }
        handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(
            self._list_and_watch,
            request_deserializer=DEVICE_PLUGIN.Empty.FromString,
            response_serializer=_serialized,
        )
        service = grpc.method_handlers_generic_handler(f"{_VERSION}.DevicePlugin", handlers)
        server.add_generic_rpc_handlers((service,))
        try:
            server.add_insecure_port(f"unix:{self.socket}")
            server.start()
            self._inode = self.socket.stat().st_ino
        except (RuntimeError, OSError) as error:
            raise BackendFailed(f"no device plugin can listen at {self.socket}: {error}") from None
        self._server = server

    def close(self) -> None:
        """End the kubelet's connections, and remove the socket if it is still this server's."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop(None).wait(_STOP_S)
        if self.in_place:
            self.socket.unlink(missing_ok=True)

    @property
    def in_place(self) -> bool:
        """Whether the socket's file is there and is this server's. A kubelet that starts removes all such files."""
        try:
            return self.socket.stat().st_ino == self._inode
        except OSError:
            return False

    @property
    def followed(self) -> bool:
        """Whether a kubelet follows the list."""
        with self._changed:
            return self._followers > 0

    def tell(self) -> None:
        """Send the list again to who follows it."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def _options(self, _request: Any, _context: Any) -> Any:
        return _plugin_options(self._calls.sees_starts)

    def _list_and_watch(self, _request: Any, context: Any) -> Iterator[Any]:
        def ended() -> None:
            with self._changed:
                self._changed.notify_all()

        context.add_callback(ended)
        with self._changed:
            self._followers += 1
        try:
            sent = -1
            while True:
                with self._changed:
                    while self._version == sent and not self._closed and context.is_active():
                        self._changed.wait()
                    if self._closed or not context.is_active():
                        return
                    sent = self._version
                yield DEVICE_PLUGIN.ListAndWatchResponse(devices=[_device(one) for one in self._calls.listed()])
        finally:
            with self._changed:
                self._followers -= 1

    def _preferred(self, request: Any, context: Any) -> Any:
        answer = DEVICE_PLUGIN.PreferredAllocationResponse()
        for one in request.container_requests:
            chosen = _answered(
                context,
                self._calls.preferred,
                KubeletChoice(tuple(one.available_deviceIDs), tuple(one.must_include_deviceIDs), one.allocation_size),
            )
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    def _allocate(self, request: Any, context: Any) -> Any:
        answer = DEVICE_PLUGIN.AllocateResponse()
        for one in request.container_requests:
            answer.container_responses.append(_access(_answered(context, self._calls.allocate, tuple(one.devices_ids))))
        return answer

    def _starting(self, request: Any, context: Any) -> Any:
        _answered(context, self._calls.starting, tuple(request.devices_ids))
        return DEVICE_PLUGIN.PreStartContainerResponse()


def register(directory: Path, socket: str, resource: str, *, sees_starts: bool = False) -> None:
    """Tell the kubelet that a server at this socket of its directory has the devices of a resource.

    Raises BackendFailed if the kubelet does not answer, or takes no such plugin.
    """
    request = DEVICE_PLUGIN.RegisterRequest(
        version=_VERSION, endpoint=socket, resource_name=resource, options=_plugin_options(sees_starts)
    )
    with grpc.insecure_channel(f"unix:{directory / KUBELET_SOCKET}", options=_OPTIONS) as channel:
        call = channel.unary_unary(
            f"/{_VERSION}.Registration/Register",
            request_serializer=_serialized,
            response_deserializer=DEVICE_PLUGIN.Empty.FromString,
        )
        try:
            call(request, timeout=_CALL_S)
        except grpc.RpcError as error:
            raise BackendFailed(f"the kubelet does not take {resource}: {error.details()}") from None


def devices_served_at(socket: Path) -> frozenset[str] | None:
    """The ids of the devices that the plugin at a socket lists; None if none answers there."""
    with grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
        call = channel.unary_stream(
            f"/{_VERSION}.DevicePlugin/ListAndWatch",
            request_serializer=_serialized,
            response_deserializer=DEVICE_PLUGIN.ListAndWatchResponse.FromString,
        )
        try:
            stream = call(DEVICE_PLUGIN.Empty(), timeout=_LOOK_S)
            first = next(stream, None)
            stream.cancel()
        except grpc.RpcError:
            return None
    return None if first is None else frozenset(one.ID for one in first.devices)


def _answered(context: Any, call: Any, *words: Any) -> Any:
    try:
        return call(*words)
    except CorralError as error:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))


def _plugin_options(sees_starts: bool) -> Any:
    return DEVICE_PLUGIN.DevicePluginOptions(get_preferred_allocation_available=True, pre_start_required=sees_starts)


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _device(listed: ListedDevice) -> Any:
    device = DEVICE_PLUGIN.Device(ID=listed.device_id, health="Healthy" if listed.healthy else "Unhealthy")
    if listed.numa_node is not None:
        device.topology.nodes.add(ID=listed.numa_node)
    return device


def _access(access: ContainerAccess) -> Any:
    return DEVICE_PLUGIN.ContainerAllocateResponse(
        envs=dict(access.variables),
        mounts=[
            DEVICE_PLUGIN.Mount(host_path=one.host_path, container_path=one.container_path, read_only=one.read_only)
            for one in access.mounts
        ],
        devices=[
            DEVICE_PLUGIN.DeviceSpec(host_path=file, container_path=file, permissions=_PERMISSIONS)
            for file in access.files
        ],
    )
