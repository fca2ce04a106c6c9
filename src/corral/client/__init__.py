"""The Python API: a synchronous client of a Corral server, light to import.

>>> from corral import Client
>>> with Client() as client:                                   # doctest: +SKIP
...     job = client.submit(["python", "train.py"], gpus=2, min_memory="40G", time="2h")
...     print(job.why().reason)
...     (row,) = job.wait()
...     print(row.phase, row.exit_code)
...     print("".join(job.logs()))

`Client` submits and waits; `client.jobs`, `client.devices` and `client.nodes` look at what there is and act on it. A
client keeps one connection and belongs to one thread.
"""

from corral.client.client import Client, JobHandle, WaitTimedOut
from corral.client.cluster import ClusterNodes, Devices, Tokens
from corral.client.jobs import Jobs
from corral.client.server_home import own_home
from corral.client.transport import Address, NoServer, UntrustedServer, find_address
from corral.model.answers import (
    AttemptRow,
    ChangedJobs,
    ChangedSetting,
    DeviceChoice,
    DeviceHistory,
    DeviceRow,
    DryRun,
    Explanation,
    GrantedDevice,
    GrantRow,
    HistoryPoint,
    HolderRow,
    InputProgress,
    JobDetail,
    JobRow,
    LinkRow,
    MadeToken,
    MappedDevice,
    MemberRow,
    NearestRequest,
    NodeRow,
    ProcessRow,
    QueueRow,
    ReloadedSettings,
    ServerInfo,
    SlicePlan,
    TokenRow,
    UnchangedJob,
    Usage,
    UsageRow,
    WaitPart,
)

__all__ = [
    "Address",
    "AttemptRow",
    "ChangedJobs",
    "ChangedSetting",
    "Client",
    "ClusterNodes",
    "DeviceChoice",
    "DeviceHistory",
    "DeviceRow",
    "Devices",
    "DryRun",
    "Explanation",
    "GrantRow",
    "GrantedDevice",
    "HistoryPoint",
    "HolderRow",
    "InputProgress",
    "JobDetail",
    "JobHandle",
    "JobRow",
    "Jobs",
    "LinkRow",
    "MadeToken",
    "MappedDevice",
    "MemberRow",
    "NearestRequest",
    "NoServer",
    "NodeRow",
    "ProcessRow",
    "QueueRow",
    "ReloadedSettings",
    "ServerInfo",
    "SlicePlan",
    "TokenRow",
    "Tokens",
    "UnchangedJob",
    "UntrustedServer",
    "Usage",
    "UsageRow",
    "WaitPart",
    "WaitTimedOut",
    "find_address",
    "own_home",
]
