"""The site's settings, read from `config.yaml` in the server's home. Without the file every setting has its default.

A mistake is Refused with file, line and the accepted values. A server with a mistake in its settings does not start: it
would allocate GPUs by rules that nobody chose.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from corral.config.agreement import check_agreement
from corral.config.alert_plans import AlertPlan
from corral.config.channel_url import SAFE_KINDS, Channel
from corral.config.channels import kind, network, read_channels
from corral.config.docker import DockerSettings, read_docker
from corral.config.groups import Key, KeyGroup, line_of, lines_of, one, read_group, several
from corral.config.hosts import read_hosts
from corral.config.keys import LIVE, OF_THE_FILE, Reads, keys_of, words_of
from corral.config.kubernetes import KubernetesSettings, read_kubernetes
from corral.config.lines import (
    MAX_PRIORITY,
    read_labels,
    read_layers,
    read_placement,
    read_priority_range,
    read_sharing,
)
from corral.config.mistakes import Collecting
from corral.config.prices import code_of_currency, read_prices
from corral.config.readers import absolute_path, host_name, registry, site_name
from corral.config.site import (
    PoolPlan,
    PoolStrategy,
    places_of,
    read_alerts,
    read_pools,
    read_projects,
    read_queues,
    read_thresholds,
    read_user_quota,
    with_policies,
)
from corral.config.tuner import TunerSettings, read_tuner
from corral.core.model.devices.device import MEMORY_WEIGHT, VirtualLayer
from corral.core.model.devices.joined_host import HostEntry
from corral.core.model.devices.means import Means
from corral.core.model.devices.price import Price
from corral.core.model.errors import Refused
from corral.core.model.field import Field
from corral.core.model.placing.split import Strategy
from corral.core.model.queues.queue import Project, Queue, Quota
from corral.core.model.runs.packing import MOST_PACKED
from corral.files import read_whole

if TYPE_CHECKING:
    from yaml.nodes import Node


class OnIsolation(StrEnum):
    """The fate of jobs on a node that has lost its server."""

    RUN = "run"
    STOP = "stop"


class HostnameLabel(StrEnum):
    """The spelling of the label in device metrics that names the node."""

    HOSTNAME = "hostname"
    CAPITALIZED = "Hostname"


class GpuReset(StrEnum):
    """Whether a quarantined GPU is reset by Corral once nothing uses it."""

    NEVER = "never"
    WHEN_IDLE = "when-idle"


class RebalanceTime(StrEnum):
    """The times at which the scheduler moves running jobs, so that large jobs find room."""

    NEVER = "never"
    NIGHTLY = "nightly"


class Numa(StrEnum):
    """Whether jobs with whole devices are bound to the NUMA nodes of these devices."""

    BIND = "bind"
    OFF = "off"


_HOUR_S = 3600.0
_MOST_BYTES = 4 * 1024 * 1024
_SAMPLES_BEFORE_STALE = 3

HOST = "host"
"""The engine for this machine alone."""

LEAST_URGENT = 10
"""The highest priority number that users may choose, unless the site says otherwise."""

MOST_RUNNING_ON_HOSTS = 512
"""The most jobs that run on hosts at a time: their processes have only the memory and ids of their kernels."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a site. In the file, units are in the value and not in the key: `stale_after: 30m`.

    Each setting is declared only here. Its key is its name without the unit, unless the declaration names another.
    """

    sample_interval_s: Annotated[float, Field(least=0.1, most=_HOUR_S, also="monitoring.interval_seconds")] = 1.0
    """The interval between two samples of the devices."""

    metrics_retention_days: Annotated[int, Field(least=0, most=3650, also="monitoring.metrics_retention_days")] = 7
    """The days for which their history is kept by the minute; 0 keeps only the last hour."""

    stale_sample_s: Annotated[float, Field(least=0.2, most=24 * _HOUR_S)] = 10.0
    """A device whose last sample is older counts as unreadable, and no job starts on it."""

    node_silent_after_s: Annotated[float, Field(least=0.2, most=_HOUR_S)] = 10.0
    """A node that has not answered for this time is silent: its devices count as unreadable, and no job starts
    there."""

    node_gone_after_s: Annotated[float, Field(least=0.4, most=30 * 24 * _HOUR_S)] = 300.0
    """A node that has not answered for this time is gone: its jobs are lost, or run again elsewhere if they may."""

    on_isolation: OnIsolation = OnIsolation.RUN
    """Whether an agent keeps or ends its jobs if its server has not called for `node_gone_after`."""

    stale_after_s: Annotated[float, Field(least=1.0, most=365 * 24 * _HOUR_S)] = 1800.0
    """A device is stale once a process outside Corral has not used it for this time."""

    lend_stale: bool = False
    """Jobs may use the free memory of a stale device."""

    accept_in_use: bool = False
    """Jobs may use a device that processes outside Corral use, if enough memory is free on it."""

    assume_available: bool = False
    """`corral.gpu` treats GPUs that it cannot read as available."""

    max_temperature_c: Annotated[int, Field(least=30, most=150)] = 95
    """A hotter device is quarantined."""

    probation_command: str | None = None
    """The command that tests a device before jobs run on it again after a fault; None is Corral's own test."""

    probation_timeout_s: Annotated[float, Field(least=1.0, most=24 * _HOUR_S)] = 300.0
    """The time after which a test is ended, and the device has failed."""

    probation_watch_s: Annotated[float, Field(least=1.0, most=30 * 24 * _HOUR_S)] = 600.0
    """The time for which a device is watched after its test, and a suspect device without signs; each relapse
    doubles it."""

    probation_watch_max_s: Annotated[float, Field(least=1.0, most=365 * 24 * _HOUR_S)] = 24 * _HOUR_S
    """The longest watch."""

    gpu_reset: GpuReset = GpuReset.NEVER
    """Whether Corral resets a quarantined device once nothing uses it."""

    max_running_jobs: Annotated[int | None, Field(least=1, most=1_000_000), LIVE] = None
    """The most jobs that run at a time; None if the site sets none (`most_running_jobs`)."""

    max_queue_size: Annotated[int, Field(least=1, most=10_000_000, also="scheduling.max_queue_size"), LIVE] = 100_000
    """The most jobs in the queue; further jobs are refused."""

    default_priority: Annotated[
        int, Field(least=-MAX_PRIORITY, most=MAX_PRIORITY, also="scheduling.default_priority"), LIVE
    ] = 5
    """Priority of a job that gives none; lower numbers run first."""

    priority_range: Annotated[tuple[int, int] | None, Reads(read_priority_range), LIVE] = None
    """The lowest and highest priority that users may choose; administrators may choose any. None if the site sets
    none (`priorities_of_users`)."""

    pass_unknown_limit_s: Annotated[float, Field(least=0, most=30 * 24 * _HOUR_S), LIVE] = 3600.0
    """Jobs with at most this time limit may start before a job whose start time is unknown; with 0 no job may."""

    pass_unknown_until_s: Annotated[float, Field(least=0, most=365 * 24 * _HOUR_S), LIVE] = 4 * 3600.0
    """A job whose start time is unknown may be passed until it has waited for this time."""

    power_budget_w: Annotated[int | None, Field(least=1, most=10**9), LIVE] = None
    """The most that the power limits of all GPUs with jobs may add up to, in watts; None for no budget."""

    log_max_mib: Annotated[int, Field(least=1, most=1024 * 1024)] = 100
    """The most that one launch may write to its job's log."""

    kill_grace_s: Annotated[float, Field(least=0, most=24 * _HOUR_S)] = 10.0
    """The time between SIGTERM and SIGKILL."""

    checkpoint_keep_s: Annotated[float, Field(least=0, most=366 * 24 * _HOUR_S)] = 7 * 86400.0
    """The time for which checkpoints in the scratch of a job are kept after its end, unless it succeeded."""

    upload_max_mib: Annotated[int, Field(least=1, most=2**26)] = 10 * 1024
    """The most that one directory may have that is uploaded for a job, or fetched from one."""

    upload_user_max_mib: Annotated[int, Field(least=1, most=2**30)] = 40 * 1024
    """The most that the server, and each node, keeps of the files of a user's jobs."""

    upload_keep_s: Annotated[float, Field(least=0, most=366 * 24 * _HOUR_S)] = 14 * 86400.0
    """The time for which such files are kept after their last use."""

    retry_backoff_s: Annotated[float, Field(least=0, most=24 * _HOUR_S)] = 1.0
    retry_backoff_max_s: Annotated[float, Field(least=0, most=24 * _HOUR_S)] = 300.0
    """The pause before the second attempt; it doubles for each further attempt, up to the largest pause."""

    fair_share_half_life_s: Annotated[float, Field(least=60.0, most=366 * 24 * _HOUR_S)] = 7 * 86400.0
    """The time after which past usage counts half in fair shares."""

    sharing: Annotated[tuple[tuple[str, Means], ...], Reads(read_sharing)] = ()
    """The means of sharing of devices, as pairs (which, means); `which` is a UUID, index, model or "*"."""

    split: Strategy | None = None
    """The rule by which a share is split over several devices if no single one has room."""

    split_fragments: bool = True
    """A share may be split into parts of several devices."""

    resource_names: str | None = None
    """A file of resource names besides those that come with Corral."""

    pack_jobs: Annotated[int, Field(least=1, most=MOST_PACKED), LIVE] = 2
    """The most jobs of one user and program that share a GPU if they are submitted as packable; 1 packs none."""

    pack_slowdown: Annotated[float, Field(least=1.0, most=float(MOST_PACKED)), LIVE] = 1.25
    """Fewer such jobs share a GPU if runs together take more than this many times as long as runs alone."""

    guard_grace_s: Annotated[float, Field(least=0, most=_HOUR_S)] = 10.0
    """The time for which a job may use more memory of a shared device than it was granted."""

    guard_reserve_mib: Annotated[int, Field(least=1, most=1024 * 1024)] = 512
    """The grace ends at once if less memory is free on the device."""

    reclaim_idle_after_s: Annotated[float | None, Field(least=60.0, most=7 * 24 * _HOUR_S)] = None
    """GPUs that were not used for this time are taken back if other jobs wait for them; None means never."""

    reclaim_idle_grace_s: Annotated[float, Field(least=0, most=24 * _HOUR_S)] = 300.0
    """The time between the warning and taking them back."""

    tell_idle_after_s: Annotated[float | None, Field(least=60.0, most=7 * 24 * _HOUR_S)] = None
    """A job that has not used its GPUs for this time is told so in its log, once, whether or not others wait for them;
    None means never."""

    test_idle_gpus: bool = False
    """A GPU whose job was told so is tested once that job has ended."""

    rebalance: RebalanceTime = RebalanceTime.NEVER
    """When jobs that may be moved are moved, so that other jobs start and nodes become empty: never, or nightly (from
    3:00 to 4:00 by the server's time zone)."""

    mps_control: str = "nvidia-cuda-mps-control"
    """The program that starts MPS daemons."""

    mps_multi_user: bool = False
    """Several users may share one MPS daemon."""

    mps_slots: Annotated[int | None, Field(least=2, most=48)] = None
    """The equal parts of an MPS device, to one of which its daemon holds each client; None lets parts differ."""

    hook: str | None = None
    """The library that limits jobs on devices shared by `hook`: HAMi-core's libvgpu.so."""

    exclusive_process_mode: bool = False
    """The driver allows only one process on a device that is allocated whole."""

    mig_changes: bool = False
    """Administrators may create and delete MIG slices through the server."""

    numa: Numa = Numa.BIND
    """Whether jobs with whole devices use the CPUs and the memory nearest to the devices."""

    default_vendor: str | None = None
    """The maker of GPUs for jobs that name none. None means the maker of the site's GPUs."""

    strict_cuda: bool = False
    """Refuse a CUDA runtime newer than the driver's, also within one major version."""

    image_registries: Annotated[tuple[str, ...], Reads(several(registry))] = ()
    """The registries in which preflight looks up what images of jobs need, as https://HOST[:PORT]; HTTP on this machine
    alone."""

    min_compute: Annotated[tuple[int, int] | None, Field(key="min_compute_capability")] = None
    """Devices with a lower or unknown compute capability are not used."""

    vgpu: Annotated[tuple[tuple[str, VirtualLayer], ...], Reads(read_layers)] = ()
    """The virtual GPU layers of devices, as pairs (which, layer); `which` is as in `sharing`."""

    availability_memory_weight: Annotated[float, Field(least=0, most=1)] = MEMORY_WEIGHT
    """Weight of free memory in a device's availability; idle time has the rest."""

    labels: Annotated[tuple[tuple[str, str], ...], Reads(read_labels)] = ()
    """Labels of this host's node for --label, (key, value) pairs sorted by key."""

    job_mapping_dir: Annotated[str | None, Reads(one(absolute_path))] = None
    """The directory in which the node tells dcgm-exporter the jobs on each GPU; None for none."""

    dashboard_host: Annotated[str | None, Reads(one(host_name))] = None
    """The host name under which a reverse proxy on this machine shows the pages; None for no proxy."""

    metrics_hostname_label: HostnameLabel = HostnameLabel.HOSTNAME
    """The label of devices in `/metrics` that names their node."""

    prices: Annotated[tuple[Price, ...], Reads(read_prices)] = ()
    """The prices of a GPU-hour."""

    currency: Annotated[str | None, Reads(one(code_of_currency))] = None
    """The currency of the prices."""

    channels: Annotated[tuple[Channel, ...], Reads(read_channels), LIVE] = ()
    """The channels for messages about alerts; their URLs are secrets."""

    user_channel_kinds: Annotated[tuple[str, ...], Reads(several(kind)), LIVE] = SAFE_KINDS
    """The kinds of URLs that channels of users may have."""

    user_channel_networks: Annotated[tuple[str, ...], Reads(several(network)), LIVE] = ()
    """The networks that channels of users may reach besides public addresses, such as "10.1.0.0/16"."""

    cluster_name: Annotated[str | None, Field(key="cluster.name"), Reads(one(site_name)), LIVE] = None
    expected_gpus: Annotated[int | None, Field(least=0, most=1_000_000, key="cluster.total_gpus"), LIVE] = None
    """The expected number of GPUs of the cluster."""

    strategy: Annotated[PoolStrategy | None, Field(key="allocation.strategy"), LIVE] = None
    """Whether pools set GPUs apart, and lend them."""

    reserved_ratio: Annotated[float, Field(least=0, most=1, key="allocation.reserved_ratio"), LIVE] = 0.3
    """The part of all GPUs for the pool without `gpus`."""

    algorithm: Annotated[str, Field(key="scheduling.algorithm"), LIVE] = "priority"
    """The policy of all queues that name none, such as the queue `default`."""

    placement: Annotated[tuple[tuple[str, float], ...], Reads(read_placement)] = (("corral", 1.0),)
    """The scores that choose a placement, each with its weight."""

    max_milli_per_user: Annotated[int | None, Field(key="policies.max_gpus_per_user"), LIVE] = None
    """The most milli-GPU that each user may use at a time."""

    user_quota: Annotated[Quota, Reads(read_user_quota), LIVE] = field(default_factory=Quota)
    """The quota of each user."""

    max_job_duration_s: Annotated[
        float | None, Field(least=3.6, most=3.6e9, key="policies.max_job_duration_hours"), LIVE
    ] = None
    """The longest time limit, and the default one."""

    enable_preemption: Annotated[bool, Field(key="policies.enable_preemption"), LIVE] = False
    """The first waiting job of a queue may stop less urgent jobs, unless the queue says otherwise."""

    auto_retry_failed_jobs: Annotated[bool, Field(key="fault_tolerance.auto_retry_failed_jobs"), LIVE] = False
    """Whether jobs are retried by default."""

    max_retries: Annotated[int, Field(least=0, most=1000, key="fault_tolerance.max_retries"), LIVE] = 3
    """The number of retries by default, if `auto_retry_failed_jobs` is set."""

    site_retries: Annotated[int, Field(least=0, most=1000), LIVE] = 3
    """How often a job is requeued because one of its GPUs fell sick. That uses up none of its retries."""

    enable_checkpointing: Annotated[bool, Field(key="fault_tolerance.enable_checkpointing"), LIVE] = False
    """Whether jobs with a checkpoint signal get it also while they run, if they name no interval."""

    checkpoint_interval_s: Annotated[
        float, Field(least=6.0, most=7 * 24 * _HOUR_S, key="fault_tolerance.checkpoint_interval_minutes"), LIVE
    ] = 600.0
    """The interval of that signal."""

    engine: str = HOST
    """The source of the nodes; HOST is this machine."""

    hosts: Annotated[tuple[HostEntry, ...], Reads(read_hosts)] = ()
    """Hosts that are joined by SSH, besides those that `corral hosts add` joins."""

    ssh_config: Annotated[str | None, Reads(one(absolute_path))] = None
    """The configuration file of `ssh` for these hosts, in place of the account's own."""

    kubernetes: Annotated[KubernetesSettings, Reads(read_kubernetes)] = field(default_factory=KubernetesSettings)
    """The settings of the engine `kubernetes`."""

    docker: Annotated[DockerSettings, Reads(read_docker)] = field(default_factory=DockerSettings)
    """The things that jobs in containers on hosts may ask for."""

    tuner: Annotated[TunerSettings, Reads(read_tuner)] = field(default_factory=TunerSettings)
    """Models, images and health checks of the inference servers that the autotuner deploys."""

    queues: Annotated[tuple[Queue, ...], Reads(read_queues), LIVE] = ()
    projects: Annotated[tuple[Project, ...], Reads(read_projects), LIVE] = ()
    pools: Annotated[tuple[PoolPlan, ...], Reads(read_pools), LIVE] = ()

    alerts: Annotated[tuple[AlertPlan, ...], Reads(read_alerts), LIVE] = ()
    """Rules for alerts, besides Corral's own. A rule with the name of one of Corral's lists only the differences."""

    alert_thresholds: Annotated[
        tuple[tuple[str, float], ...], Field(key="monitoring.alert_thresholds"), Reads(read_thresholds), LIVE
    ] = ()
    """Thresholds of alerts on devices: for temperature, utilization, memory, power."""

    places: Annotated[Mapping[str, str], OF_THE_FILE, LIVE] = field(default_factory=dict, compare=False)
    """File and line of each key that was given, and of each queue, project, pool and alert ("queue night")."""

    @property
    def default_retries(self) -> int:
        """The number of retries of a job by default."""
        return self.max_retries if self.auto_retry_failed_jobs else 0

    @property
    def default_checkpoint_every_s(self) -> float | None:
        """The interval of the checkpoint signal of a job by default; None is never."""
        return self.checkpoint_interval_s if self.enable_checkpointing else None

    @property
    def most_running_jobs(self) -> int | None:
        """The most jobs that run at a time. In a cluster only its nodes limit that, unless the site does."""
        if self.max_running_jobs is None and self.engine == HOST:
            return MOST_RUNNING_ON_HOSTS
        return self.max_running_jobs

    @property
    def priorities_of_users(self) -> tuple[int, int]:
        """The lowest and highest priority that users may choose. By default, none is ahead of the default priority."""
        if self.priority_range is None:
            return self.default_priority, max(self.default_priority, LEAST_URGENT)
        return self.priority_range

    def sampled_at_most_each(self, interval_s: float) -> "Settings":
        """The settings with devices sampled at most this often; then samples also stay valid longer."""
        if self.sample_interval_s >= interval_s:
            return self
        stale_s = max(self.stale_sample_s, _SAMPLES_BEFORE_STALE * interval_s)
        return replace(self, sample_interval_s=interval_s, stale_sample_s=stale_s)


def load_settings(path: Path) -> Settings:
    """Read the settings in the file; without the file, return the defaults.

    Raises Refused, with file and line, for anything in it that is not a setting: one mistake, or several together.
    """
    try:
        text = read_whole(path, _MOST_BYTES)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise Refused(f"cannot read the settings in {path}: {error.strerror}") from None
    # Imported here, so that a server without a settings file starts without the parser.
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
    settings = Settings(**found.values, places=places)
    settings = replace(settings, queues=with_policies(settings.queues, settings.algorithm))
    check_agreement(path, settings, found.lines)
    return settings


def _merge_sections(path: Path, found: KeyGroup) -> None:
    """Merge the values of sections with top-level ones. A value may be set only once."""
    said = {SETTINGS[key].sets: key for key in found.lines if key in SETTINGS}
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
            found.lines.setdefault(KEY_OF[sets].rpartition(".")[2], line)
        found.values.update(section.values)
    wrong.tell()


_ALL = keys_of(Settings)

KEY_OF = words_of(_ALL)
"""The key of each setting, "SECTION.KEY" for one that is in a section alone."""

SETTINGS = {word: key for word, key in _ALL.items() if "." not in word}
"""The keys outside of sections."""

SECTIONS = {
    name: {word.removeprefix(f"{name}."): key for word, key in _ALL.items() if word.startswith(f"{name}.")}
    for name in dict.fromkeys(word.partition(".")[0] for word in _ALL if "." in word)
}
"""The keys of each section."""


def _read_section(name: str, path: Path, node: "Node") -> KeyGroup:
    return read_group(path, lines_of(node), SECTIONS[name], f"{name}.")


_KEYS = SETTINGS | {name: Key(name, partial(_read_section, name)) for name in SECTIONS}


def _place_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f", line {mark.line + 1}" if mark else ""


def _problem_of(error: Exception) -> str:
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error).splitlines()[0]
