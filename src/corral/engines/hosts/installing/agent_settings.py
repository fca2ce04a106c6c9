"""The settings of the agents of joined hosts: those of the server's settings that an agent reads."""

from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.settings import SECTIONS, SETTINGS
from corral.core.model.errors import BackendFailed
from corral.files import read_whole

if TYPE_CHECKING:
    from yaml.nodes import Node

OF_AGENTS = frozenset(
    {
        "accept_in_use",
        "checkpoint_keep_s",
        "docker",
        "exclusive_process_mode",
        "hook",
        "job_mapping_dir",
        "kill_grace_s",
        "lend_stale",
        "log_max_mib",
        "max_temperature_c",
        "mig_changes",
        "mps_control",
        "mps_multi_user",
        "mps_slots",
        "node_gone_after_s",
        "node_silent_after_s",
        "numa",
        "on_isolation",
        "sample_interval_s",
        "sharing",
        "stale_after_s",
        "stale_sample_s",
        "upload_keep_s",
        "upload_max_mib",
        "upload_user_max_mib",
        "vgpu",
    }
)
"""The settings that an agent reads. `labels` are of one host each, and stay the host's own."""

_MOST_BYTES = 4 * 1024 * 1024


def agent_settings(path: Path) -> str:
    """Return the text of an agent's `config.yaml`, made of the server's. Raises BackendFailed if it cannot be read."""
    import yaml

    try:
        root = yaml.compose(read_whole(path, _MOST_BYTES), Loader=yaml.SafeLoader)
    except FileNotFoundError:
        return ""
    except (OSError, yaml.YAMLError) as error:
        raise BackendFailed(f"the settings in {path} cannot be read: {error}") from None
    if not isinstance(root, yaml.MappingNode):
        return ""
    root.value = [pair for pair in root.value if _is_of_agents(*pair)]
    # Nodes keep the spelling of each value: `1:30` read and written again would be a number.
    return f"# Made by the server of this host.\n{yaml.serialize(root)}" if root.value else ""


def _is_of_agents(key: "Node", value: "Node") -> bool:
    """Whether a line is of an agent's settings. In a section only these lines are kept."""
    from yaml.nodes import MappingNode

    name = str(key.value)
    if name in SETTINGS:
        return SETTINGS[name].sets in OF_AGENTS
    if name not in SECTIONS or not isinstance(value, MappingNode):
        return False
    keys = SECTIONS[name]
    value.value = [
        (one, given) for one, given in value.value if one.value in keys and keys[one.value].sets in OF_AGENTS
    ]
    return bool(value.value)
