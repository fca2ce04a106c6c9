"""Reads the bytes of a report, which may be hostile: an agent can harm its own node alone.

A report that no agent of Corral would send is Refused as a whole. Its text is made printable.
"""

import json
import zlib
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from corral.core.model.devices.device import SERVICE, DeviceSample, Node
from corral.core.model.devices.sample_moments import moved
from corral.core.model.errors import Refused
from corral.core.model.units import MILLI_PER_DEVICE, format_bytes
from corral.engines.kubernetes.agent.agent_report import PROTOCOL, AgentReport
from corral.host.node.agent_answers import (
    MAX_ANSWER_BYTES,
    MAX_NAME,
    check_count,
    check_inventory,
    check_moments,
    check_samples,
    check_texts,
    read_answer,
)
from corral.host.node.protocol import BadFrame
from corral.wire import from_plain, to_plain

MAX_BODY_BYTES = 2 * 1024 * 1024
"""The most bytes of a report as it is sent, packed or not. One of eight devices has some thousands."""

MAX_REPORT_BYTES = MAX_ANSWER_BYTES
"""The most bytes of an unpacked report."""

_MAX_GIVEN = 10_000
_MAX_IDS = 65_536
"""The most ids of a resource: a kubelet drops longer lists of a plugin."""
_MAX_SERVED = 1000


_NO_NODE = to_plain(Node("", (), 0, 0))


class OtherProtocol(Refused):
    """The agent's reports have another form than this server reads."""


class KnownNode(NamedTuple):
    """The inventory of a node as its last report had it, and the digest of its text: it seldom changes."""

    digest: bytes
    node: Node


def read_report(body: bytes, known: KnownNode | None = None, *, packed: bool) -> tuple[AgentReport, KnownNode]:
    """Return the report in a body, `packed` by gzip or not, and its inventory. An inventory that is `known` is not read
    again. Raises Refused, and OtherProtocol.
    """
    try:
        message = read_answer(_unpacked(body) if packed else body)
    except BadFrame as error:
        raise Refused(f"the report cannot be read: {error}") from None
    protocol = message.get("protocol")
    if type(protocol) is not int or protocol != PROTOCOL:
        raise OtherProtocol(
            f"the agent, of version {message.get('version')!r:.40}, sends reports of form {protocol!r:.20}, and this "
            f"server reads form {PROTOCOL}; run the same version of Corral as server and as agents"
        )
    node = _read_node(message.pop("node", None), known)
    # A place is kept for the inventory, which was read.
    report = replace(from_plain(AgentReport, {**message, "node": _NO_NODE}), node=node.node)
    _check(report)
    return report, node


def _read_node(plain: object, known: KnownNode | None) -> KnownNode:
    digest = sha256(json.dumps(plain).encode()).digest()
    if known is not None and known.digest == digest:
        return known
    node = from_plain(Node, plain, field="node")
    check_inventory(node)
    return KnownNode(digest, node)


def _unpacked(body: bytes) -> bytes:
    # It stops at the limit, however much the bytes would unpack to.
    unpacking = zlib.decompressobj(wbits=31)
    try:
        data = unpacking.decompress(body, MAX_REPORT_BYTES + 1)
    except zlib.error as error:
        raise Refused(f"the report is not packed by gzip: {error}") from None
    if len(data) > MAX_REPORT_BYTES:
        raise Refused(f"the report has more than {format_bytes(MAX_REPORT_BYTES)} unpacked, the limit")
    if not unpacking.eof or unpacking.unused_data:
        raise Refused("the packed report breaks off, or goes on beyond its end")
    return data


def _check(report: AgentReport) -> None:
    check_moments(report.sent_at)
    check_texts(report.version, MAX_NAME)
    check_samples(report.samples)
    _check_whose(report)
    check_count(report.given or (), _MAX_GIVEN, "containers with devices")
    check_count(report.shares, _MAX_GIVEN, "parts of devices")
    check_count(report.served, _MAX_SERVED, "resources")
    for given in report.given or ():
        check_count(given.device_ids, _MAX_IDS, "ids of devices")
    check_texts((report.given, report.shares, report.served), MAX_NAME)
    uuids = {device.uuid for device in report.node.devices}
    for share in report.shares:
        if share.device_uuid not in uuids:
            raise Refused("a part of a device that is not on the node")
        if not 0 < share.share_milli <= MILLI_PER_DEVICE or (share.memory_mib or 0) < 0:
            raise Refused(f"a part of {share.share_milli} milli-GPU and {share.memory_mib} MiB")


def _check_whose(report: AgentReport) -> None:
    """Refuse samples of other devices, and what only a server knows of a device."""
    uuids = [device.uuid for device in report.node.devices]
    sampled = [sample.uuid for sample in report.samples]
    if len(set(sampled)) != len(sampled) or not set(sampled) <= set(uuids):
        raise Refused("samples of devices that are not on the node, or several of one")
    for sample in report.samples:
        if sample.pod is not None or sample.parts or sample.counted:
            raise Refused("samples that say who has a device, which the server finds itself")
        if any(process.job_id not in (None, SERVICE) for process in sample.processes or ()):
            raise Refused("processes with the numbers of jobs, which no agent of a cluster knows")


def by_server_clock(report: AgentReport, node: str, *, heard_at: float, ahead_s: float) -> AgentReport:
    """Return the report as one of this node, with its moments by the server's clock, which is `ahead_s` ahead of the
    node's. No sample is newer than `heard_at`.
    """
    samples = tuple(_sample_moved(sample, ahead_s, heard_at) for sample in report.samples)
    named = report.node if report.node.name == node else replace(report.node, name=node)
    return replace(report, sent_at=heard_at, node=named, samples=samples)


def _sample_moved(sample: DeviceSample, by_s: float, latest: float) -> DeviceSample:
    found = moved(sample, by_s) if by_s else sample
    return found if found.taken_at <= latest else replace(found, taken_at=latest)
