"""The site's settings, read from `config.yaml` in the server's home. Without the file every setting has its default.

A mistake is Refused with file, line and what would be accepted. A server with half of its settings would allocate GPUs
by rules that nobody chose, so it does not start.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.agreement import check_agreement
from corral.config.alert_plans import AlertPlan
from corral.config.channels import kind, network, read_channels
from corral.config.docker import DockerSettings, read_docker
from corral.config.groups import Key, KeyGroup, NodeReader, line_of, lines_of, one, read_group, several
from corral.config.kubernetes import KubernetesSettings, read_kubernetes
from corral.config.mistakes import Collecting, Placed
from corral.config.prices import currency, read_prices
from corral.config.readers import absolute_path, duration, integer, memory, number, one_of, text, version, yes_or_no
from corral.config.site import (
    SECTIONS,
    PoolPlan,
    PoolStrategy,
    places_of,
    read_alerts,
    read_pools,
    read_projects,
    read_queues,
    read_section,
    read_user_quota,
    with_policies,
)
from corral.files import read_whole
from corral.model.channel import SAFE_KINDS, Channel
from corral.model.device import MEMORY_WEIGHT, VirtualLayer
from corral.model.errors import Refused
from corral.model.means import Means
from corral.model.price import Price
from corral.model.queue import Project, Queue, Quota
from corral.model.split import Strategy
from corral.model.version_labels import VERSION_LABELS

if TYPE_CHECKING:
    from yaml.nodes import Node, ScalarNode


class OnIsolation(StrEnum):
    """What becomes of the jobs of a node that has lost its server."""

    RUN = "run"
    STOP = "stop"


class HostnameLabel(StrEnum):
    """How the label is written in the metrics of devices that names their node."""

    HOSTNAME = "hostname"
    CAPITALIZED = "Hostname"


class Numa(StrEnum):
    """Whether jobs with whole devices are bound to the NUMA nodes of these."""

    BIND = "bind"
    OFF = "off"


HOST = "host"
"""The engine that is this machine alone."""

LEAST_URGENT = 10
"""The highest number that users may choose as a priority unless the site says otherwise."""

MOST_RUNNING_ON_HOSTS = 512
"""So many jobs run on hosts at a time, whose processes have only the memory and ids that their kernels give them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a site. In the file, units are in the value and not in the key: `stale_after: 30m`.

    Attributes:
        sample_interval_s: how often the devices are sampled.
        metrics_retention_days: how long their history is kept by the minute; 0 keeps the last hour alone.
        stale_sample_s: a device whose last sample is older counts as unreadable, and nothing starts on it.
        node_silent_after_s: a node that has not answered for so long has no readable devices, and nothing starts there.
        node_gone_after_s: then its jobs are lost, or run again elsewhere where they may.
        on_isolation: what an agent that its server has not asked for so long does with its jobs.
        stale_after_s: a process outside Corral that has not used its device for so long makes the device stale.
        lend_stale: jobs may use the free memory of a stale device.
        accept_in_use: jobs may use a device that processes outside Corral use, if enough memory is free on it.
        assume_available: `corral.gpu` treats GPUs that it cannot read as available.
        max_temperature_c: a hotter device is unhealthy.
        max_running_jobs: how many jobs may run at a time; None where the site does not say (`most_running_jobs`).
        max_queue_size: how many jobs may be in the queue; further ones are refused.
        default_priority: priority of a job that gives none; lower numbers run first.
        priority_range: the lowest and highest that users may choose; administrators may choose any. None where the
            site does not say (`priorities_of_users`).
        pass_unknown_limit_s: jobs with at most this time limit may start before a job whose start nobody can predict;
            0 lets none.
        pass_unknown_until_s: until that job has waited so long.
        log_max_mib: how much one launch may write to its job's log.
        kill_grace_s: between SIGTERM and SIGKILL.
        retry_backoff_s, retry_backoff_max_s: the pause before the second attempt, doubled for each further one up to
            the largest.
        fair_share_half_life_s: after so long, past usage counts half in fair shares.
        sharing: how devices are shared, as (which, means) pairs; `which` is a UUID, index, model or "*".
        split: how a share that no single device has room for is split; split_fragments allows parts of several devices.
        resource_names: a file of resource names besides those that come with Corral.
        guard_grace_s: how long a job may use more memory of a shared device than it was granted.
        guard_reserve_mib: when less is free on the device, that grace is over.
        reclaim_idle_after_s: after so long without use, GPUs are taken back if others wait; None is never.
        reclaim_idle_grace_s: time between the warning and that.
        mps_control: the program that starts MPS daemons; mps_multi_user lets several users share one daemon.
        exclusive_process_mode: the driver allows only one process on a device that is allocated whole.
        mig_changes: administrators may create and delete MIG slices through the server.
        numa: whether the CPUs and the memory of jobs with whole devices are those nearest to the devices.
        default_vendor: whose devices a job is for that names none; None is the one that the site has.
        strict_cuda: refuse a CUDA runtime newer than the driver's, also within one major version.
        min_compute: devices with a lower or unknown compute capability are not used.
        vgpu: which virtual GPU layer is on which devices, (which, layer) pairs; `which` is as in `sharing`.
        availability_memory_weight: weight of free memory in a device's availability; idle time has the rest.
        labels: labels of this host's node for --label, (key, value) pairs sorted by key.
        job_mapping_dir: where the node tells dcgm-exporter which jobs are on which GPU; None is nowhere.
        dashboard_host: the name under which a reverse proxy on this machine shows the pages; None for no proxy.
        metrics_hostname_label: the label of devices in `/metrics` that names their node.
        prices, currency: what a GPU-hour costs, and in what.
        channels: where people are told of alerts; their URLs are secrets.
        user_channel_kinds: the kinds of URLs that users may be told through.
        user_channel_networks: what these may reach besides public addresses, such as "10.1.0.0/16".
        cluster_name, expected_gpus: the cluster's name, and how many GPUs it should have.
        strategy, reserved_ratio: how pools keep GPUs, and the part of all GPUs for the pool that names none.
        algorithm: the policy of all queues that name none, the queue `default` among them.
        placement: the scores that choose a placement, each with its weight.
        max_milli_per_user: how many milli-GPU each user may use at a time.
        user_quota: the quota of each user.
        max_job_duration_s: the longest time limit, and the default one.
        enable_preemption: the first job of each queue that does not say otherwise may have less urgent jobs stopped.
        auto_retry_failed_jobs, max_retries: whether jobs are retried by default, and how often.
        engine: what brings the nodes, HOST being this machine; `kubernetes` is what the engine of that name needs.
        docker: what jobs in containers may ask for on hosts.
        queues, projects, pools: as the site defines them.
        alerts: rules by which alerts fire, besides Corral's own; of a rule of the same name what differs.
        alert_thresholds: above which readings of a device an alert fires: of temperature, utilization, memory, power.
        unbuilt: keys that were given but have no effect yet.
        places: file and line of each key that was given, and of each queue, project, pool and alert ("queue night").
    """

    sample_interval_s: float = 1.0
    metrics_retention_days: int = 7
    stale_sample_s: float = 10.0
    node_silent_after_s: float = 10.0
    node_gone_after_s: float = 300.0
    on_isolation: OnIsolation = OnIsolation.RUN
    stale_after_s: float = 1800.0
    lend_stale: bool = False
    accept_in_use: bool = False
    assume_available: bool = False
    max_temperature_c: int = 95
    max_running_jobs: int | None = None
    max_queue_size: int = 100_000
    default_priority: int = 5
    priority_range: tuple[int, int] | None = None
    pass_unknown_limit_s: float = 3600.0
    pass_unknown_until_s: float = 4 * 3600.0
    log_max_mib: int = 100
    kill_grace_s: float = 10.0
    retry_backoff_s: float = 1.0
    retry_backoff_max_s: float = 300.0
    fair_share_half_life_s: float = 7 * 86400.0
    sharing: tuple[tuple[str, Means], ...] = ()
    split: Strategy | None = None
    split_fragments: bool = True
    resource_names: str | None = None
    guard_grace_s: float = 10.0
    guard_reserve_mib: int = 512
    reclaim_idle_after_s: float | None = None
    reclaim_idle_grace_s: float = 300.0
    mps_control: str = "nvidia-cuda-mps-control"
    mps_multi_user: bool = False
    exclusive_process_mode: bool = False
    mig_changes: bool = False
    numa: Numa = Numa.BIND
    default_vendor: str | None = None
    strict_cuda: bool = False
    min_compute: tuple[int, int] | None = None
    vgpu: tuple[tuple[str, VirtualLayer], ...] = ()
    availability_memory_weight: float = MEMORY_WEIGHT
    labels: tuple[tuple[str, str], ...] = ()
    job_mapping_dir: str | None = None
    dashboard_host: str | None = None
    metrics_hostname_label: HostnameLabel = HostnameLabel.HOSTNAME
    prices: tuple[Price, ...] = ()
    currency: str | None = None
    channels: tuple[Channel, ...] = ()
    user_channel_kinds: tuple[str, ...] = SAFE_KINDS
    user_channel_networks: tuple[str, ...] = ()
    cluster_name: str | None = None
    expected_gpus: int | None = None
    strategy: PoolStrategy | None = None
    reserved_ratio: float = 0.3
    algorithm: str = "priority"
    placement: tuple[tuple[str, float], ...] = (("corral", 1.0),)
    max_milli_per_user: int | None = None
    user_quota: Quota = field(default_factory=Quota)
    max_job_duration_s: float | None = None
    enable_preemption: bool = False
    auto_retry_failed_jobs: bool = False
    max_retries: int = 3
    engine: str = HOST
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    docker: DockerSettings = field(default_factory=DockerSettings)
    queues: tuple[Queue, ...] = ()
    projects: tuple[Project, ...] = ()
    pools: tuple[PoolPlan, ...] = ()
    alerts: tuple[AlertPlan, ...] = ()
    alert_thresholds: tuple[tuple[str, float], ...] = ()
    unbuilt: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def default_retries(self) -> int:
        """How often a job is retried by default."""
        return self.max_retries if self.auto_retry_failed_jobs else 0

    @property
    def most_running_jobs(self) -> int | None:
        """How many jobs may run at a time. In a cluster its nodes alone limit that, unless the site does."""
        if self.max_running_jobs is None and self.engine == HOST:
            return MOST_RUNNING_ON_HOSTS
        return self.max_running_jobs

    @property
    def priorities_of_users(self) -> tuple[int, int]:
        """The lowest and highest priority that users may choose: unless the site says so, none ahead of the default."""
        if self.priority_range is None:
            return self.default_priority, max(self.default_priority, LEAST_URGENT)
        return self.priority_range

    def sampled_at_most_each(self, interval_s: float) -> "Settings":
        """The same where devices are not sampled more often than so: then samples count for longer, too."""
        if self.sample_interval_s >= interval_s:
            return self
        stale_s = max(self.stale_sample_s, _SAMPLES_BEFORE_STALE * interval_s)
        return replace(self, sample_interval_s=interval_s, stale_sample_s=stale_s)


def load_settings(path: Path) -> Settings:
    """The settings in the file, or the defaults when there is none.

    Raises Refused, naming file and line, for anything in it that is not a setting: one mistake, or several together.
    """
    try:
        text = read_whole(path, _MOST_BYTES)
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
    except RecursionError:
        raise Refused(f"{path}: brackets are nested too deeply to be read; settings need no more than five") from None
    return _settings_of(path, root)


def _settings_of(path: Path, root: "Node | None") -> Settings:
    from yaml.nodes import MappingNode

    if root is None or root.tag.endswith(":null"):
        return Settings()
    if not isinstance(root, MappingNode):
        raise Refused(f"{path}, {line_of(root)}: settings are lines of KEY: VALUE, such as `kill_grace: 10s`")
    found = read_group(path, root, _KEYS)
    _merge_sections(path, found)
    places = {key: f"{path}, {line}" for key, line in found.lines.items()} | places_of(path, root)
    settings = Settings(**found.values, unbuilt=tuple(found.unbuilt), places=places)
    settings = replace(settings, queues=with_policies(settings.queues, settings.algorithm))
    check_agreement(path, settings, found.lines)
    return settings


def _merge_sections(path: Path, found: KeyGroup) -> None:
    """Merge the values of sections with top-level ones. A value may be set only once."""
    said = {_SETTINGS[key][0]: key for key in found.lines if key in _SETTINGS}
    wrong = Collecting()
    for name in SECTIONS:
        section = found.values.pop(name, None)
        if section is None:
            continue
        for key, line in section.lines.items():
            sets = SECTIONS[name][key].sets
            if sets in said:
                before = f"{found.lines[said[sets]]}, as {said[sets]}"
                with wrong.at():
                    raise Refused(
                        f"{path}, {line}: {name}.{key} is already set in {before}; remove one of the two", field=key
                    )
            if sets is not None:
                found.lines.setdefault(KEY_OF.get(sets, key), line)
        found.values.update(section.values)
        found.unbuilt += section.unbuilt
    wrong.tell()


def _priority_range(path: Path, node: "Node") -> tuple[int, int]:
    """The least and the greatest, such as `[5, 10]`."""
    ends = several(integer(-MAX_PRIORITY, MAX_PRIORITY))(path, node)
    if len(ends) != 2 or ends[0] > ends[1]:
        raise Refused("write the lowest and the highest priority, such as [5, 10]")
    return ends[0], ends[1]


def _sharing(_path: Path, node: "Node") -> tuple[tuple[str, Means], ...]:
    """One means for all devices, or lines such as `0: mps`, `A100: timeslice`, `"*": exclusive`, in their order."""
    from yaml.nodes import MappingNode, ScalarNode

    if isinstance(node, ScalarNode):
        return (("*", _shared_means(node)),)
    if not isinstance(node, MappingNode):
        raise Refused("write a single value or lines of DEVICE: VALUE, not a list")
    rules = []
    for which, means in node.value:
        if not isinstance(which, ScalarNode) or not isinstance(means, ScalarNode):
            raise Refused("write lines of DEVICE: VALUE, such as `0: mps`")
        rules.append((str(which.value), _shared_means(means)))
    return tuple(rules)


def _vgpu(path: Path, node: "Node") -> tuple[tuple[str, VirtualLayer], ...]:
    """A layer for all devices, `{layer: gpu-manager, cuda: 12.2}`, or lines of devices and their layers, in order."""
    lines = lines_of(node).value
    if {str(key.value) for key, _ in lines} & _VGPU.keys():
        return (("*", _layer(path, node)),)
    return tuple((str(which.value), _layer(path, layer)) for which, layer in lines)


def _layer(path: Path, node: "Node") -> VirtualLayer:
    said = read_group(path, lines_of(node), _VGPU, "vgpu.").values
    if len(said) < len(_VGPU):
        raise Refused("write the layer and the CUDA version it is built for: {layer: gpu-manager, cuda: 12.2}")
    return VirtualLayer(said["layer"], said["cuda"])


def _labels(path: Path, node: "Node") -> tuple[tuple[str, str], ...]:
    """Lines such as `zone: a`. The labels that the driver sets cannot be set here."""
    from yaml.nodes import ScalarNode

    labels: dict[str, str] = {}
    for key, value in lines_of(node).value:
        place = f"{path}, {line_of(key)}: labels"
        if not isinstance(key, ScalarNode) or not isinstance(value, ScalarNode):
            raise Placed(f"{place}: write lines of KEY: VALUE, such as `zone: a`", field="labels")
        for word in (str(key.value), str(value.value)):
            if not word or len(word) > _LABEL_LENGTH or not word.isprintable() or "=" in key.value:
                raise Placed(
                    f"{place}: {word!r:.60} cannot be part of a label; write lines such as `zone: a`", field="labels"
                )
        if key.value in VERSION_LABELS:
            raise Placed(f"{place}.{key.value} is set by the driver; choose another name", field="labels")
        if key.value in labels:
            raise Placed(f"{place}.{key.value} is given twice; remove one of the two", field="labels")
        labels[str(key.value)] = str(value.value)
    return tuple(sorted(labels.items()))


def _placement(_path: Path, node: "Node") -> tuple[tuple[str, float], ...]:
    """The name of one score, or lines such as `pack: 1` and `topology: 0.5`."""
    from yaml.nodes import MappingNode, ScalarNode

    if isinstance(node, ScalarNode):
        return ((text(node), 1.0),)
    if not isinstance(node, MappingNode):
        raise Refused("write the name of a score, or lines of SCORE: WEIGHT, not a list")
    weights = []
    for name, weight in node.value:
        if not isinstance(name, ScalarNode) or not isinstance(weight, ScalarNode):
            raise Refused("write lines of SCORE: WEIGHT, such as `pack: 1`")
        weights.append((str(name.value), number(0.0, 1000.0)(weight)))
    return tuple(weights)


def _shared_means(node: "ScalarNode") -> Means:
    means: Means = one_of(Means)(node)
    if means is Means.MIG:
        raise Refused("mig cannot be set here: a device in MIG mode is always shared by its slices; remove this line")
    return means


_MOST_BYTES = 4 * 1024 * 1024
_LABEL_LENGTH = 200
_SAMPLES_BEFORE_STALE = 3
_VGPU = {"layer": Key("layer", one(text)), "cuda": Key("cuda", one(version))}
MAX_PRIORITY = 1_000_000
_HOUR_S = 3600.0
_SETTINGS: dict[str, tuple[str, NodeReader]] = {
    "sample_interval": ("sample_interval_s", one(duration(0.1, _HOUR_S))),
    "metrics_retention_days": ("metrics_retention_days", one(integer(0, 3650))),
    "stale_sample": ("stale_sample_s", one(duration(0.2, 24 * _HOUR_S))),
    "node_silent_after": ("node_silent_after_s", one(duration(0.2, _HOUR_S))),
    "node_gone_after": ("node_gone_after_s", one(duration(0.4, 30 * 24 * _HOUR_S))),
    "on_isolation": ("on_isolation", one(one_of(OnIsolation))),
    "stale_after": ("stale_after_s", one(duration(1.0, 365 * 24 * _HOUR_S))),
    "lend_stale": ("lend_stale", one(yes_or_no)),
    "accept_in_use": ("accept_in_use", one(yes_or_no)),
    "assume_available": ("assume_available", one(yes_or_no)),
    "max_temperature": ("max_temperature_c", one(integer(30, 150))),
    "max_running_jobs": ("max_running_jobs", one(integer(1, 1_000_000))),
    "max_queue_size": ("max_queue_size", one(integer(1, 10_000_000))),
    "default_priority": ("default_priority", one(integer(-MAX_PRIORITY, MAX_PRIORITY))),
    "priority_range": ("priority_range", _priority_range),
    "pass_unknown_limit": ("pass_unknown_limit_s", one(duration(0.0, 30 * 24 * _HOUR_S))),
    "pass_unknown_until": ("pass_unknown_until_s", one(duration(0.0, 365 * 24 * _HOUR_S))),
    "log_max": ("log_max_mib", one(memory(1, 1024 * 1024))),
    "kill_grace": ("kill_grace_s", one(duration(0.0, 24 * _HOUR_S))),
    "retry_backoff": ("retry_backoff_s", one(duration(0.0, 24 * _HOUR_S))),
    "retry_backoff_max": ("retry_backoff_max_s", one(duration(0.0, 24 * _HOUR_S))),
    "fair_share_half_life": ("fair_share_half_life_s", one(duration(60.0, 366 * 24 * _HOUR_S))),
    "placement": ("placement", _placement),
    "sharing": ("sharing", _sharing),
    "split": ("split", one(one_of(Strategy))),
    "split_fragments": ("split_fragments", one(yes_or_no)),
    "resource_names": ("resource_names", one(text)),
    "guard_grace": ("guard_grace_s", one(duration(0.0, _HOUR_S))),
    "guard_reserve": ("guard_reserve_mib", one(memory(1, 1024 * 1024))),
    "reclaim_idle_after": ("reclaim_idle_after_s", one(duration(60.0, 7 * 24 * _HOUR_S))),
    "reclaim_idle_grace": ("reclaim_idle_grace_s", one(duration(0.0, 24 * _HOUR_S))),
    "mps_control": ("mps_control", one(text)),
    "mps_multi_user": ("mps_multi_user", one(yes_or_no)),
    "exclusive_process_mode": ("exclusive_process_mode", one(yes_or_no)),
    "mig_changes": ("mig_changes", one(yes_or_no)),
    "numa": ("numa", one(one_of(Numa))),
    "default_vendor": ("default_vendor", one(text)),
    "strict_cuda": ("strict_cuda", one(yes_or_no)),
    "min_compute_capability": ("min_compute", one(version)),
    "vgpu": ("vgpu", _vgpu),
    "availability_memory_weight": ("availability_memory_weight", one(number(0, 1))),
    "labels": ("labels", _labels),
    "channels": ("channels", read_channels),
    "user_channel_kinds": ("user_channel_kinds", several(kind)),
    "user_channel_networks": ("user_channel_networks", several(network)),
    "job_mapping_dir": ("job_mapping_dir", one(absolute_path)),
    "dashboard_host": ("dashboard_host", one(text)),
    "metrics_hostname_label": ("metrics_hostname_label", one(one_of(HostnameLabel))),
    "prices": ("prices", read_prices),
    "currency": ("currency", one(currency)),
    "engine": ("engine", one(text)),
    "kubernetes": ("kubernetes", read_kubernetes),
    "docker": ("docker", read_docker),
}

KEY_OF = {sets: key for key, (sets, _) in _SETTINGS.items()}
"""The key in the file of each setting that has one of its own."""

_KEYS = {
    **{key: Key(sets, read) for key, (sets, read) in _SETTINGS.items()},
    **{name: Key(name, partial(read_section, name)) for name in SECTIONS},
    "queues": Key("queues", read_queues),
    "projects": Key("projects", read_projects),
    "user_quota": Key("user_quota", read_user_quota),
    "pools": Key("pools", read_pools),
    "alerts": Key("alerts", read_alerts),
}


def _place_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f", line {mark.line + 1}" if mark else ""


def _problem_of(error: Exception) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).splitlines()[0]
