"""The site's settings, read once from `config.yaml` in the server's home. Without the file everything has its default.

A mistake in the file is Refused with the file, the line, and what would be accepted: a server that starts with half
of its settings would hand out GPUs by rules that nobody chose.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from corral.model.errors import Refused, nearest
from corral.model.means import Means
from corral.model.split import Strategy
from corral.model.units import parse_duration_s, parse_memory_mib

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node, ScalarNode

E = TypeVar("E", bound=StrEnum)
Reader = Callable[["ScalarNode"], Any]
_INTEGER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a site may decide. In the file a key has no unit in its name and its value has one: `stale_after: 30m`.

    Attributes:
        sample_interval_s: how often the devices are sampled.
        stale_sample_s: a device whose last sample is older cannot be read, and nothing starts on it.
        stale_after_s: a stranger's process that has not used its device for so long leaves the device stale.
        lend_stale: a stale device counts as free for the memory it has left.
        accept_in_use: a device that strangers use is handed out too when enough memory is free on it.
        assume_available: the library takes GPUs that it cannot see for available.
        max_temperature_c: a hotter device is unhealthy.
        max_running_jobs: jobs that run at once on this machine.
        max_queue_size: jobs that may wait; further ones are refused.
        default_priority: of a job that names none; a lower number runs first.
        log_max_mib: what one launch may write to its job's log.
        kill_grace_s: between SIGTERM and SIGKILL.
        retry_backoff_s, retry_backoff_max_s: the pause before the second attempt, doubled for each further one up to
            the largest.
        sharing: how jobs meet on devices, (which, means) pairs; `corral.sharing.arrange` says what `which` may be.
        split: how a share that no single device has room for is spread; split_fragments lets it take parts of several.
        resource_names: a file of definitions beside those that come with Corral.
        guard_grace_s: how long a job may hold more memory of a shared device than it was granted.
        guard_reserve_mib: when less is free on the device, that grace is over.
        mps_control: the program that starts MPS daemons; mps_multi_user lets several users meet in one.
        exclusive_process_mode: the driver lets a single process onto a device that was given whole.
        strict_cuda: a runtime newer than the driver's CUDA is refused within a major version too.
    """

    sample_interval_s: float = 1.0
    stale_sample_s: float = 10.0
    stale_after_s: float = 1800.0
    lend_stale: bool = False
    accept_in_use: bool = False
    assume_available: bool = False
    max_temperature_c: int = 95
    max_running_jobs: int = 512
    max_queue_size: int = 100_000
    default_priority: int = 5
    log_max_mib: int = 100
    kill_grace_s: float = 10.0
    retry_backoff_s: float = 1.0
    retry_backoff_max_s: float = 300.0
    sharing: tuple[tuple[str, Means], ...] = ()
    split: Strategy = Strategy.EVENLY
    split_fragments: bool = True
    resource_names: str | None = None
    guard_grace_s: float = 10.0
    guard_reserve_mib: int = 512
    mps_control: str = "nvidia-cuda-mps-control"
    mps_multi_user: bool = False
    exclusive_process_mode: bool = False
    strict_cuda: bool = False


def load_settings(path: Path) -> Settings:
    """The settings in the file, or the defaults when there is none.

    Raises Refused, naming file and line, for anything in it that is not a setting.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise Refused(f"cannot read the settings in {path}: {error.strerror}") from None
    # A server without a file of settings starts without the parser of one.
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise Refused(f"{path}{_place_of(error)}: this is not YAML: {_problem_of(error)}") from None
    return _settings_of(path, root)


def _settings_of(path: Path, root: "Node | None") -> Settings:
    from yaml.nodes import MappingNode, ScalarNode

    if root is None or root.tag.endswith(":null"):
        return Settings()
    if not isinstance(root, MappingNode):
        raise Refused(f"{path}, {_line(root)}: settings are lines like `kill_grace: 10s`, a key and its value")
    values: dict[str, Any] = {}
    lines: dict[str, str] = {}
    for key_node, value_node in root.value:
        key, place = str(key_node.value), f"{path}, {_line(key_node)}"
        if key not in _SETTINGS:
            raise Refused(f"{place}: {key} is not a setting; {nearest(key, _SETTINGS)}", field=key)
        if key in lines:
            raise Refused(f"{place}: {key} is set already in {lines[key]}; keep one of the two", field=key)
        lines[key] = _line(key_node)
        name, read = _SETTINGS[key]
        try:
            if key == _GROUP and isinstance(value_node, MappingNode):
                values[name] = _sharing_group(value_node)
            elif not isinstance(value_node, ScalarNode):
                raise Refused("takes a single value, not a list or a group")
            else:
                values[name] = read(value_node)
        except Refused as refused:
            raise Refused(f"{place}: {key}: {_without_prefix(str(refused))}", field=key) from None
    settings = Settings(**values)
    _check_together(path, settings, lines)
    return settings


def _check_together(path: Path, settings: Settings, lines: dict[str, str]) -> None:
    if settings.stale_sample_s < 2 * settings.sample_interval_s:
        where = lines.get("stale_sample") or lines["sample_interval"]
        raise Refused(
            f"{path}, {where}: stale_sample ({settings.stale_sample_s:g}s) must be at least twice sample_interval "
            f"({settings.sample_interval_s:g}s), or devices would count as unreadable between two samples",
            field="stale_sample",
        )
    if settings.retry_backoff_max_s < settings.retry_backoff_s:
        where = lines.get("retry_backoff_max") or lines["retry_backoff"]
        raise Refused(
            f"{path}, {where}: retry_backoff_max ({settings.retry_backoff_max_s:g}s) is less than retry_backoff "
            f"({settings.retry_backoff_s:g}s)",
            field="retry_backoff_max",
        )


def _duration(least_s: float, most_s: float) -> Reader:
    def read(node: "ScalarNode") -> float:
        seconds = 0.0 if node.value == "0s" else parse_duration_s(node.value, field=_PREFIX)
        if not least_s <= seconds <= most_s:
            raise Refused(f"{node.value} is out of bounds; from {least_s:g}s to {most_s:g}s is accepted")
        return seconds

    return read


def _memory(least_mib: int, most_mib: int) -> Reader:
    def read(node: "ScalarNode") -> int:
        mib = parse_memory_mib(node.value, field=_PREFIX)
        if not least_mib <= mib <= most_mib:
            raise Refused(f"{node.value} is out of bounds; from {least_mib}M to {most_mib}M is accepted")
        return mib

    return read


def _integer(least: int, most: int) -> Reader:
    def read(node: "ScalarNode") -> int:
        if not _INTEGER.fullmatch(node.value) or not least <= int(node.value) <= most:
            raise Refused(f"{node.value!r} will not do; a whole number from {least} to {most} is accepted")
        return int(node.value)

    return read


def _yes_or_no(node: "ScalarNode") -> bool:
    if node.value.lower() not in ("true", "false"):
        raise Refused(f"{node.value!r} will not do; true or false is accepted")
    return bool(node.value.lower() == "true")


def _one_of(kind: type[E]) -> Reader:
    def read(node: "ScalarNode") -> E:
        known = {str(member.value): member for member in kind}
        if node.value not in known:
            raise Refused(f"{node.value!r} will not do; {nearest(node.value, known)}")
        return known[node.value]

    return read


def _text(node: "ScalarNode") -> str:
    if not node.value:
        raise Refused("it is empty; write a path or a name")
    return str(node.value)


def _sharing_of_all(node: "ScalarNode") -> tuple[tuple[str, Means], ...]:
    return (("*", _shared_means(node)),)


def _sharing_group(node: "MappingNode") -> tuple[tuple[str, Means], ...]:
    """Lines such as `0: mps`, `A100: timeslice`, `"*": exclusive`, in their order."""
    from yaml.nodes import ScalarNode

    rules = []
    for which, means in node.value:
        if not isinstance(which, ScalarNode) or not isinstance(means, ScalarNode):
            raise Refused("each line of it is a device and a means, such as `0: mps`")
        rules.append((str(which.value), _shared_means(means)))
    return tuple(rules)


def _shared_means(node: "ScalarNode") -> Means:
    means: Means = _one_of(Means)(node)
    if means is Means.MIG:
        raise Refused("mig is not set here: a device whose driver says that it is in MIG mode is shared by its slices")
    return means


_GROUP = "sharing"
"""The one setting that may be a group of lines."""

_PREFIX = "value"
"""What the readers of units call the value; the line and the key say it better and replace it."""

_HOUR_S = 3600.0
_SETTINGS: dict[str, tuple[str, Reader]] = {
    "sample_interval": ("sample_interval_s", _duration(0.1, _HOUR_S)),
    "stale_sample": ("stale_sample_s", _duration(0.2, 24 * _HOUR_S)),
    "stale_after": ("stale_after_s", _duration(1.0, 365 * 24 * _HOUR_S)),
    "lend_stale": ("lend_stale", _yes_or_no),
    "accept_in_use": ("accept_in_use", _yes_or_no),
    "assume_available": ("assume_available", _yes_or_no),
    "max_temperature": ("max_temperature_c", _integer(30, 150)),
    "max_running_jobs": ("max_running_jobs", _integer(1, 1_000_000)),
    "max_queue_size": ("max_queue_size", _integer(1, 10_000_000)),
    "default_priority": ("default_priority", _integer(-1_000_000, 1_000_000)),
    "log_max": ("log_max_mib", _memory(1, 1024 * 1024)),
    "kill_grace": ("kill_grace_s", _duration(0.0, 24 * _HOUR_S)),
    "retry_backoff": ("retry_backoff_s", _duration(0.0, 24 * _HOUR_S)),
    "retry_backoff_max": ("retry_backoff_max_s", _duration(0.0, 24 * _HOUR_S)),
    _GROUP: ("sharing", _sharing_of_all),
    "split": ("split", _one_of(Strategy)),
    "split_fragments": ("split_fragments", _yes_or_no),
    "resource_names": ("resource_names", _text),
    "guard_grace": ("guard_grace_s", _duration(0.0, _HOUR_S)),
    "guard_reserve": ("guard_reserve_mib", _memory(1, 1024 * 1024)),
    "mps_control": ("mps_control", _text),
    "mps_multi_user": ("mps_multi_user", _yes_or_no),
    "exclusive_process_mode": ("exclusive_process_mode", _yes_or_no),
    "strict_cuda": ("strict_cuda", _yes_or_no),
}


def _without_prefix(message: str) -> str:
    return message.removeprefix(f"{_PREFIX}: ")


def _line(node: "Node") -> str:
    return f"line {node.start_mark.line + 1}"


def _place_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f", line {mark.line + 1}" if mark else ""


def _problem_of(error: Exception) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).splitlines()[0]
