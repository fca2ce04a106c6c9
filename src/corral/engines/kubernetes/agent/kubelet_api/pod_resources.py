"""Questions at the kubelet's pod-resources socket: which devices it can give, and which it has given to whom.

Each question has a connection of its own, so a kubelet that restarts is found again at once.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import grpc

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.agent.agent_report import GivenDevices
from corral.engines.kubernetes.agent.kubelet_api.messages import POD_RESOURCES

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")

_DEADLINE_S = 5.0
_OPTIONS = (("grpc.max_receive_message_length", 16 << 20), ("grpc.enable_http_proxy", 0))


def given_devices(socket: Path = SOCKET) -> tuple[GivenDevices, ...]:
    """The devices that containers have, also those of pods that have ended and are still on the node.

    Raises BackendFailed if the kubelet does not answer in time.
    """
    answer = _asked(socket, "List", POD_RESOURCES.ListPodResourcesRequest(), POD_RESOURCES.ListPodResourcesResponse)
    return tuple(chain.from_iterable(_given_to_pod(pod) for pod in answer.pod_resources))


def allocatable_devices(socket: Path = SOCKET) -> Mapping[str, frozenset[str]] | None:
    """The healthy devices by resource, whether given or not; None if the kubelet is older than 1.21.

    Raises BackendFailed if the kubelet does not answer in time.
    """
    request = POD_RESOURCES.AllocatableResourcesRequest()
    try:
        answer = _asked(socket, "GetAllocatableResources", request, POD_RESOURCES.AllocatableResourcesResponse)
    except _UnknownCall:
        return None
    return {resource: frozenset(ids) for resource, ids in _by_resource(answer.devices).items()}


class _UnknownCall(BackendFailed):
    """The kubelet is older than the call."""


def _asked(socket: Path, call: str, request: Any, answer: Any) -> Any:
    with grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
        method = channel.unary_unary(
            f"/v1.PodResourcesLister/{call}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        try:
            return method(request, timeout=_DEADLINE_S)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise _UnknownCall(f"the kubelet at {socket} has no call {call}") from error
            raise BackendFailed(f"the kubelet does not answer at {socket}: {error.details()}") from error


def _given_to_pod(pod: Any) -> Iterator[GivenDevices]:
    for container in pod.containers:
        for resource, ids in _by_resource(container.devices).items():
            yield GivenDevices(pod.namespace, pod.name, container.name, resource, tuple(ids))


def _by_resource(devices: Any) -> dict[str, list[str]]:
    """The ids by resource: a kubelet lists those of each NUMA node on their own."""
    found: dict[str, list[str]] = {}
    for one in devices:
        found.setdefault(one.resource_name, []).extend(one.device_ids)
    return found
