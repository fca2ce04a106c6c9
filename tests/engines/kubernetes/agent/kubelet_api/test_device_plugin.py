"""A server of a device plugin fails with its reason, and not its thread."""

from pathlib import Path

import pytest

from corral.core.model.errors import BackendFailed
from corral.engines.kubernetes.agent.kubelet_api.device_plugin import PluginServer


def test_a_directory_in_place_of_the_socket_is_told(tmp_path: Path) -> None:
    (tmp_path / "corral.sock").mkdir()
    server = PluginServer(tmp_path / "corral.sock", None)  # type: ignore[arg-type]
    with pytest.raises(BackendFailed, match="in the way of a device plugin"):
        server.start()
