"""The Python API: a synchronous client of a Corral server, light to import.

>>> from corral import Client
>>> with Client() as client:                                   # doctest: +SKIP
...     job = client.submit(["python", "train.py"], gpus=2, min_memory="40G", time="2h")
...     print(job.why().reason)
...     (row,) = job.wait()
...     print(row.phase, row.exit_code)
...     print("".join(job.logs()))

`Client` submits and waits; `client.jobs`, `client.devices` and `client.nodes` list jobs, devices and nodes, and change
them. A client keeps one connection and belongs to one thread.

Start with `Client`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would slow down a program that needs one module of this package
if TYPE_CHECKING:
    from typing import Any

    from corral.client.client import Client as Client
    from corral.client.client import JobHandle as JobHandle
    from corral.client.client import WaitTimedOut as WaitTimedOut
    from corral.client.cluster import ClusterNodes as ClusterNodes
    from corral.client.cluster import Devices as Devices
    from corral.client.cluster import Tokens as Tokens
    from corral.client.connecting.address import Address as Address
    from corral.client.connecting.address import find_address as find_address
    from corral.client.connecting.server_home import own_home as own_home
    from corral.client.connecting.transport import NoServer as NoServer
    from corral.client.connecting.transport import UntrustedServer as UntrustedServer
    from corral.client.jobs import Jobs as Jobs
    from corral.core.model.answers.devices import ContainerRow as ContainerRow
    from corral.core.model.answers.devices import DeviceRow as DeviceRow
    from corral.core.model.answers.devices import HolderRow as HolderRow
    from corral.core.model.answers.devices import LinkRow as LinkRow
    from corral.core.model.answers.devices import MappedDevice as MappedDevice
    from corral.core.model.answers.devices import PodRow as PodRow
    from corral.core.model.answers.devices import ProcessRow as ProcessRow
    from corral.core.model.answers.devices import SlicePlan as SlicePlan
    from corral.core.model.answers.dry_run import DeviceChoice as DeviceChoice
    from corral.core.model.answers.dry_run import DryRun as DryRun
    from corral.core.model.answers.dry_run import NearestRequest as NearestRequest
    from corral.core.model.answers.events import Event as Event
    from corral.core.model.answers.gpu_monitoring import GpuMonitoring as GpuMonitoring
    from corral.core.model.answers.gpu_monitoring import GpuStats as GpuStats
    from corral.core.model.answers.gpu_monitoring import MeasuredRange as MeasuredRange
    from corral.core.model.answers.gpu_monitoring import MeasuredUtilization as MeasuredUtilization
    from corral.core.model.answers.job_changes import ChangedJobs as ChangedJobs
    from corral.core.model.answers.job_changes import InputProgress as InputProgress
    from corral.core.model.answers.job_changes import UnchangedJob as UnchangedJob
    from corral.core.model.answers.job_details import AttemptRow as AttemptRow
    from corral.core.model.answers.job_details import ExecutedCommand as ExecutedCommand
    from corral.core.model.answers.job_details import Explanation as Explanation
    from corral.core.model.answers.job_details import GrantedDevice as GrantedDevice
    from corral.core.model.answers.job_details import JobDetail as JobDetail
    from corral.core.model.answers.job_details import JobUse as JobUse
    from corral.core.model.answers.job_details import MemberRow as MemberRow
    from corral.core.model.answers.job_details import WaitPart as WaitPart
    from corral.core.model.answers.jobs import GrantRow as GrantRow
    from corral.core.model.answers.jobs import JobRow as JobRow
    from corral.core.model.answers.site import ChangedSetting as ChangedSetting
    from corral.core.model.answers.site import NodeRow as NodeRow
    from corral.core.model.answers.site import QueueRow as QueueRow
    from corral.core.model.answers.site import ReloadedSettings as ReloadedSettings
    from corral.core.model.answers.site import ResourceNameRow as ResourceNameRow
    from corral.core.model.answers.site import ServerInfo as ServerInfo
    from corral.core.model.answers.tokens import MadeToken as MadeToken
    from corral.core.model.answers.tokens import TokenRow as TokenRow
    from corral.features.accounting.answers import Report as Report
    from corral.features.accounting.answers import ReportRow as ReportRow
    from corral.features.accounting.answers import Usage as Usage
    from corral.features.accounting.answers import UsageRow as UsageRow
    from corral.features.accounting.answers import Waste as Waste
    from corral.features.accounting.answers import WasteRow as WasteRow
    from corral.features.alerts.answers import AlertList as AlertList
    from corral.features.alerts.answers import AlertRow as AlertRow
    from corral.features.alerts.answers import SilenceList as SilenceList
    from corral.features.alerts.answers import SilenceRow as SilenceRow
    from corral.features.alerts.client import Alerts as Alerts
    from corral.features.dashboard.answers import PageLink as PageLink
    from corral.features.history.answers import DeviceHistory as DeviceHistory
    from corral.features.history.answers import GroupHistory as GroupHistory
    from corral.features.history.answers import HistoryPoint as HistoryPoint
    from corral.features.history.answers import JobHistory as JobHistory
    from corral.features.history.answers import Kpi as Kpi
    from corral.features.history.answers import KpiRow as KpiRow
    from corral.features.history.answers import Kpis as Kpis
    from corral.features.history.client import Groups as Groups
    from corral.features.rebalancing.answers import MoveRow as MoveRow
    from corral.features.rebalancing.answers import Rebalance as Rebalance

__all__ = [
    "Address",
    "AlertList",
    "AlertRow",
    "Alerts",
    "AttemptRow",
    "ChangedJobs",
    "ChangedSetting",
    "Client",
    "ClusterNodes",
    "ContainerRow",
    "DeviceChoice",
    "DeviceHistory",
    "DeviceRow",
    "Devices",
    "DryRun",
    "Event",
    "Explanation",
    "GpuMonitoring",
    "GpuStats",
    "GrantRow",
    "GrantedDevice",
    "GroupHistory",
    "Groups",
    "HistoryPoint",
    "HolderRow",
    "InputProgress",
    "JobDetail",
    "JobHandle",
    "JobHistory",
    "JobRow",
    "JobUse",
    "Jobs",
    "Kpi",
    "KpiRow",
    "Kpis",
    "LinkRow",
    "MadeToken",
    "MappedDevice",
    "MeasuredRange",
    "MeasuredUtilization",
    "MemberRow",
    "NearestRequest",
    "NoServer",
    "NodeRow",
    "PageLink",
    "PodRow",
    "ProcessRow",
    "QueueRow",
    "ReloadedSettings",
    "Report",
    "ReportRow",
    "ResourceNameRow",
    "ServerInfo",
    "SilenceList",
    "SilenceRow",
    "SlicePlan",
    "TokenRow",
    "Tokens",
    "UnchangedJob",
    "UntrustedServer",
    "Usage",
    "UsageRow",
    "WaitPart",
    "WaitTimedOut",
    "Waste",
    "WasteRow",
    "find_address",
    "own_home",
]

_LOADED_ON_USE = {
    "corral.client.connecting.address": ("Address", "find_address"),
    "corral.features.alerts.client": ("Alerts",),
    "corral.client.client": (
        "Client",
        "JobHandle",
        "WaitTimedOut",
    ),
    "corral.client.cluster": (
        "ClusterNodes",
        "Devices",
        "Tokens",
    ),
    "corral.features.history.client": ("Groups",),
    "corral.client.jobs": ("Jobs",),
    "corral.client.connecting.server_home": ("own_home",),
    "corral.client.connecting.transport": ("NoServer", "UntrustedServer"),
    "corral.features.alerts.answers": (
        "AlertList",
        "AlertRow",
        "SilenceList",
        "SilenceRow",
    ),
    "corral.features.dashboard.answers": ("PageLink",),
    "corral.core.model.answers.devices": (
        "ContainerRow",
        "DeviceRow",
        "HolderRow",
        "LinkRow",
        "PodRow",
        "MappedDevice",
        "ProcessRow",
        "SlicePlan",
    ),
    "corral.core.model.answers.dry_run": (
        "DeviceChoice",
        "DryRun",
        "NearestRequest",
    ),
    "corral.core.model.answers.events": ("Event",),
    "corral.core.model.answers.gpu_monitoring": (
        "GpuMonitoring",
        "GpuStats",
        "MeasuredRange",
        "MeasuredUtilization",
    ),
    "corral.features.history.answers": (
        "DeviceHistory",
        "GroupHistory",
        "HistoryPoint",
        "JobHistory",
        "Kpi",
        "KpiRow",
        "Kpis",
    ),
    "corral.core.model.answers.job_changes": (
        "ChangedJobs",
        "InputProgress",
        "UnchangedJob",
    ),
    "corral.core.model.answers.job_details": (
        "AttemptRow",
        "ExecutedCommand",
        "Explanation",
        "GrantedDevice",
        "JobDetail",
        "JobUse",
        "MemberRow",
        "WaitPart",
    ),
    "corral.core.model.answers.jobs": (
        "GrantRow",
        "JobRow",
    ),
    "corral.features.accounting.answers": (
        "Report",
        "ReportRow",
        "Usage",
        "UsageRow",
        "Waste",
        "WasteRow",
    ),
    "corral.features.rebalancing.answers": (
        "MoveRow",
        "Rebalance",
    ),
    "corral.core.model.answers.site": (
        "ChangedSetting",
        "NodeRow",
        "QueueRow",
        "ReloadedSettings",
        "ResourceNameRow",
        "ServerInfo",
    ),
    "corral.core.model.answers.tokens": (
        "MadeToken",
        "TokenRow",
    ),
}
"""Public names by their module. A command that uses few of them does not load the other modules."""


def __getattr__(name: str) -> Any:
    """Load the module of a name on first use."""
    from importlib import import_module

    for module, names in _LOADED_ON_USE.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'corral.client' has no attribute {name!r}")
