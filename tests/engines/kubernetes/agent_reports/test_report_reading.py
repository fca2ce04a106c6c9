"""A report is whole and sensible, or refused; whatever its bytes are, it costs little."""

import gzip
import zlib
from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.devices.device import DeviceProcess, DeviceSample, HoldingPod
from corral.core.model.errors import Refused
from corral.engines.kubernetes.agent.agent_report import GivenDevices, GivenShare, ServedResource
from corral.engines.kubernetes.agent_reports.report_reading import (
    MAX_REPORT_BYTES,
    OtherProtocol,
    by_server_clock,
    read_report,
)
from corral.wire import to_plain
from tests.engines.kubernetes.agent_reports.agents import body_of, report

ONE = report("gpu-01", "GPU-1", "GPU-2")


def test_a_report_is_read_as_it_was_sent_packed_or_not() -> None:
    whole = replace(
        ONE,
        given=(GivenDevices("team", "train-0", "main", "nvidia.com/gpu", ("GPU-1",)),),
        shares=(GivenShare("team", "half-0", None, "GPU-2", 500, 4096),),
        served=(ServedResource("nvidia.com/gpu", None),),
    )
    assert read_report(body_of(whole), packed=False)[0] == whole
    assert read_report(gzip.compress(body_of(whole)), packed=True)[0] == whole


def test_an_inventory_that_did_not_change_is_the_same_and_one_that_did_is_read() -> None:
    first, known = read_report(body_of(ONE), packed=False)
    again, still = read_report(body_of(replace(ONE, sent_at=1005.0)), known, packed=False)
    assert again.node is first.node
    assert still is known
    changed = report("gpu-01", "GPU-1")
    assert read_report(body_of(changed), known, packed=False)[0] == changed
    with pytest.raises(Refused, match="node"):
        read_report(body_of(ONE, node=None), known, packed=False)


def test_another_protocol_is_refused_with_both_numbers() -> None:
    with pytest.raises(OtherProtocol, match=r"version '9.9', sends reports of form 2, and this server reads form 1"):
        read_report(body_of(ONE, protocol=2, version="9.9", unheard_of=[1]), packed=False)
    with pytest.raises(OtherProtocol, match="form None"):
        read_report(b"{}", packed=False)


def test_a_small_body_that_unpacks_to_much_is_refused_at_the_limit() -> None:
    bomb = zlib.compressobj(9, wbits=31)
    body = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(64)) + bomb.flush()
    assert len(body) < 100_000
    with pytest.raises(Refused, match="more than 8 MiB unpacked"):
        read_report(body, packed=True)
    with pytest.raises(Refused, match="more than 8 MiB unpacked"):
        read_report(gzip.compress(bytes(MAX_REPORT_BYTES + 1)), packed=True)


PACKED = gzip.compress(body_of(ONE))


@pytest.mark.parametrize("body", [PACKED[:-9], PACKED + PACKED, b"", b"\x1f\x8b", zlib.compress(body_of(ONE))])
def test_what_is_not_packed_whole_is_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        read_report(body, packed=True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b'{"protocol":1',
        b'{"protocol":1,"node":' + b"[" * 100_000,
        b'{"protocol":1,"given":[' + b"0," * 500_000 + b"0]}",
        body_of(ONE, unheard_of=1),
        body_of(ONE, sent_at="now"),
        body_of(ONE, sent_at=float("nan")),
        body_of(ONE, sent_at=1e300),
        body_of(ONE, version="x" * 300),
        body_of(ONE, node=None),
    ],
)
def test_bytes_that_are_no_report_are_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        read_report(body, packed=False)


def node(**other: Any) -> dict[str, Any]:
    return {"node": {**to_plain(ONE.node), **other}}


def sampled(**other: Any) -> dict[str, Any]:
    return {"samples": [to_plain(replace(ONE.samples[0], **other))]}


FIRST = to_plain(ONE.node.devices[0])


UNLIKELY = (
    (node(devices=[FIRST, FIRST]), "a device is named twice"),
    (node(devices=[{**FIRST, "uuid": ""}]), "a device has no UUID"),
    (node(devices=[{**FIRST, "uuid": "GPU-1\n"}]), "not printable"),
    (node(devices=[{**FIRST, "uuid": "x" * 300}]), "300 characters"),
    (node(devices=[{**FIRST, "memory_mib": -1}]), "memory_mib is -1"),
    (node(devices=[{**FIRST, "uuid": f"GPU-{number}"} for number in range(1100)]), "1100 devices"),
    (node(labels=[["a\nb", "c"]]), "not printable"),
    (sampled(uuid="GPU-of-another"), "samples of devices that are not on the node"),
    ({"samples": [to_plain(ONE.samples[0])] * 2}, "several of one"),
    (sampled(pod=HoldingPod("team", "victim")), "who has a device"),
    (sampled(counted=True), "who has a device"),
    (sampled(taken_at=1e12), "is no moment"),
    (sampled(processes=(DeviceProcess(7, job_id="17"),)), "the numbers of jobs"),
    ({"given": [to_plain(GivenDevices("a", "b", "c", "d", ("x" * 300,)))]}, "300 characters"),
    ({"given": [to_plain(GivenDevices("a", "b", "c", "d", ("x",)))] * 10_001}, "10001 containers"),
    ({"shares": [to_plain(GivenShare("a", "b", None, "GPU-of-another", 500, None))]}, "not on the node"),
    ({"shares": [to_plain(GivenShare("a", "b", None, "GPU-1", 1001, None))]}, "1001 milli-GPU"),
    ({"shares": [to_plain(GivenShare("a", "b", None, "GPU-1", 500, -1))]}, "-1 MiB"),
    ({"served": [to_plain(ServedResource("x", None))] * 1001}, "1001 resources"),
)


@pytest.mark.parametrize(("other", "why"), UNLIKELY, ids=[why for _, why in UNLIKELY])
def test_values_that_make_no_sense_are_refused(other: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        read_report(body_of(ONE, **other), packed=False)


def test_moments_of_a_node_whose_clock_is_an_hour_behind_are_the_servers() -> None:
    process = DeviceProcess(7, started_at=900.0)
    sample = DeviceSample("GPU-1", 998.0, processes=(process,))
    early = DeviceSample("GPU-2", 1007.0)
    told = by_server_clock(
        replace(ONE, samples=(sample, early)), "its-name-in-the-cluster", heard_at=4600.0, ahead_s=3600.0
    )
    assert told.node.name == "its-name-in-the-cluster"
    assert told.sent_at == 4600.0
    assert told.samples[0] == replace(sample, taken_at=4598.0, processes=(replace(process, started_at=4500.0),))
    # No sample is of the future, which would keep it new for as long as its agent likes.
    assert told.samples[1].taken_at == 4600.0
