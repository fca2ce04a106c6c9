"""Plugins of others that serve the same resources on the node.

A kubelet takes whichever plugin registered last, and does not say who that is. But its checkpoint has the devices of
each resource, and a plugin lists its own at its socket: the one with devices of the resource serves it.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from corral.engines.kubernetes.agent.kubelet_api.device_plugin import KUBELET_SOCKET, devices_served_at
from corral.engines.kubernetes.cluster.objects import mapping
from corral.files import read_whole
from corral.untrusted import Unread, guarded

CHECKPOINT = "kubelet_internal_checkpoint"
_MOST_BYTES = 64 << 20
_MOST_SOCKETS = 64


def other_plugins(directory: Path, resources: Collection[str], own: Collection[str]) -> Mapping[str, str]:
    """The socket of another plugin by the resource that it serves, of these resources. `own` are sockets of ours."""
    registered = {
        resource: ids for resource, ids in registered_devices(directory).items() if resource in resources and ids
    }
    if not registered:
        return {}
    sockets = sorted(path for path in directory.glob("*.sock") if path.is_socket())
    found: dict[str, str] = {}
    for socket in sockets[:_MOST_SOCKETS]:
        if socket.name == KUBELET_SOCKET or socket.name in own:
            continue
        listed = devices_served_at(socket)
        for resource, ids in registered.items():
            if listed and not ids.isdisjoint(listed):
                found.setdefault(resource, socket.name)
    return found


def registered_devices(directory: Path) -> Mapping[str, frozenset[str]]:
    """The healthy devices of each resource, by the kubelet's checkpoint; {} if there is none."""
    try:
        content = read_whole(directory / CHECKPOINT, _MOST_BYTES)
    except OSError:
        return {}
    found = guarded("the kubelet's checkpoint", lambda: _registered(json.loads(content)))
    return {} if isinstance(found, Unread) else found


def _registered(document: Any) -> Mapping[str, frozenset[str]]:
    listed = mapping(mapping(mapping(document).get("Data")).get("RegisteredDevices"))
    return {
        resource: frozenset(one for one in ids if isinstance(one, str))
        for resource, ids in listed.items()
        if isinstance(ids, list)
    }
