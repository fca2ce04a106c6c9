"""Answers about the server, its settings, queues and nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.core.model.queues.queue import Quota


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A setting whose value in the file differs from that in force, as the file has them; null is not set."""

    setting: str
    old: str | None = None
    new: str | None = None


@dataclass(frozen=True, slots=True)
class ReloadedSettings:
    """The result of reading the settings again.

    Attributes:
        changed: settings that are in force now.
        after_restart: settings that need a restart of the server; `old` is the value in force.
        remarks: facts for administrators, a sentence each.
    """

    changed: tuple[ChangedSetting, ...] = ()
    after_restart: tuple[ChangedSetting, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue as `queues` lists it; or the limits of the caller, or of a project, in every queue.

    Attributes:
        kind: user, project or queue.
        parent: the queue above it, None for one at the top and for users and projects.
        quota: its own limits.
        policy: the name of the policy that its jobs are served by; None for users, projects and a removed queue.
        used_milli, waiting: milli-GPU in use and jobs that wait, of a queue with those of all queues below it.
        left_milli: milli-GPU that a job of the caller may have there by all quotas that it would count to, with what
            can be borrowed now; None is no limit.
        removed: the settings do not have the queue any more, and jobs are in it: it takes no others.
    """

    name: str
    kind: str = "queue"
    parent: str | None = None
    quota: Quota = field(default_factory=Quota)
    used_milli: int = 0
    waiting: int = 0
    left_milli: int | None = None
    removed: bool = False
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceNameRow:
    """A resource name of another system that submissions may use here.

    Attributes:
        group: names of one group may be used together.
        integer: only whole amounts are accepted.
        default: the amount where the name is given without one, or is left out and needed; None for none.
        required: it is needed beside every other name of its group.
        descriptions: what one unit is, by language: en, zh.
        limits, requests: the policies of the name's limit and its request in a pod.
    """

    name: str
    group: str
    integer: bool = True
    default: str | None = None
    required: bool = False
    descriptions: Mapping[str, str] = field(default_factory=dict)
    limits: str = "optional"
    requests: str = "fromLimits"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node as `nodes` lists it. Unknown values of a node that never answered are None.

    Attributes:
        state: ready, silent, gone, draining or cordoned; only on a ready node can jobs start.
        reason: the reason for that state, for a person; None for a ready node.
        last_seen_at: when it answered last.
        connected_at: since when it answers without a break; None while it does not.
        via: how the server reaches it, such as "ssh gpu-05"; None if it is the server's machine.
        devices: the number of devices; slices of a device are not counted.
        cpus: the cores that its jobs may have in all.
        boot_id: the kernel's identifier of its boot, which is the same for nodes on one host.
        clock_ahead_s: how far its clock is ahead of the server's; 0 if they agree within a second.
        no_docker: the reason why no container can run there; None if one can, or if that is unknown.
        barred: the reason why no job of a user can run there, by user, of those whose jobs were checked.
    """

    name: str
    state: str = "ready"
    reason: str | None = None
    last_seen_at: float | None = None
    devices: int = 0
    cpus: float | None = None
    memory_mib: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    boot_id: str | None = None
    connected_at: float | None = None
    via: str | None = None
    clock_ahead_s: float = 0.0
    no_docker: str | None = None
    barred: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server about itself. `mock` says that its devices are described, not real; `devices` counts them.

    `cluster` is the name of the site (`cluster.name`), None if its settings have none. `obstacle` is the reason why
    no job at all can start now (a full disk), None if there is none. `alerts` counts the firing alerts by severity,
    without acknowledged and silenced ones. `keyring_shared` is why jobs are left with the server's session keyring
    (a filter of system calls), None where each has one of its own. `pod_scheduler` is the scheduler name of the pods of
    others that it binds now in the Kubernetes cluster `cluster_uid`; both are None if it binds none. `power_budget_w`
    is the site's power budget, and `power_counted_w` what counts of it now; both are None if it has none.
    """

    version: str = ""
    pid: int | None = None
    home: str = ""
    user: str = ""
    node: str | None = None
    source: str = ""
    driver_version: str | None = None
    cuda_version: str | None = None
    started_at: float | None = None
    mock: bool = False
    uptime_s: float | None = None
    devices: int = 0
    obstacle: str | None = None
    alerts: Mapping[str, int] = field(default_factory=dict)
    keyring_shared: str | None = None
    cluster: str | None = None
    pod_scheduler: str | None = None
    cluster_uid: str | None = None
    power_budget_w: int | None = None
    power_counted_w: float | None = None
