"""Reports are taken over HTTPS from the pods of agents alone, each for its own node."""

import gzip
import time
import uuid
from pathlib import Path

import pytest

from corral.engines.kubernetes.agent_reports.report_reading import MAX_BODY_BYTES
from corral.engines.kubernetes.cluster.resource import PODS
from tests.certificates import needs_openssl
from tests.engines.kubernetes.agent_reports.agents import body_of, make_agent_pod, report, token_of
from tests.engines.kubernetes.agent_reports.reporting import PATIENCE_S, Reporting
from tests.engines.kubernetes.engine.conftest import site
from tests.engines.kubernetes.engine.site import Site

__all__ = ["site"]


@pytest.fixture
def reporting(site: Site, tmp_path: Path) -> Reporting:
    reporting = Reporting(site, tmp_path)
    reporting.up()
    return reporting


@needs_openssl
def test_an_agents_pod_reports_its_own_node_and_nobody_else_reports(reporting: Reporting) -> None:
    (first, second), namespace = reporting.nodes, reporting.site.namespace
    cluster = reporting.site.cluster
    mine, theirs = (f"GPU-{uuid.uuid4()}" for _ in range(2))
    assert reporting.post(body_of(report("x", mine)), reporting.tokens[0]) == (204, "")
    status, said = reporting.post_once(body_of(report("x", mine)), reporting.tokens[0])
    assert (status, f"reports of node {first} come too often" in said) == (503, True)
    packed = gzip.compress(body_of(report(first, theirs)))
    assert reporting.post(packed, reporting.tokens[1], encoding="gzip") == (204, "")
    # It named the first node, and its devices are the second's all the same: the first cannot have them.
    status, said = reporting.post(body_of(report(first, theirs)), reporting.tokens[0])
    assert status == 422
    assert f"node {second} has it" in said

    status, said = reporting.post(body_of(report("x", mine), protocol=7), reporting.tokens[0])
    assert status == 422
    assert "form 7, and this server reads form 1" in said
    assert f"on node {first} is refused" in (reporting.site.home / "server.log").read_text()
    status, said = reporting.post(b" " * (MAX_BODY_BYTES + 1), reporting.tokens[0])
    assert status == 413
    bomb = gzip.compress(bytes(64 << 20))
    status, said = reporting.post(bomb, reporting.tokens[0], encoding="gzip")
    assert status == 422
    assert "unpacked, the limit" in said
    status, said = reporting.post(b"{}", reporting.tokens[0], encoding="br")
    assert status == 422

    for token in (None, "corral", reporting.tokens[0][:-4] + "AAAA", (reporting.site.home / "token").read_text()):
        assert reporting.post(b"{}", None if token is None else token.strip())[0] == 401
    elsewhere = token_of(cluster, namespace, (f"agent-{first}", reporting.uids[0]), audiences=("x",))
    assert reporting.post(b"{}", elsewhere)[0] == 401

    deadline = time.monotonic() + PATIENCE_S
    while reporting.at_socket(body_of(report("x", mine)), reporting.tokens[0]) != 204:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    cluster.delete(PODS, f"agent-{first}", namespace, grace_s=0)
    while reporting.post(body_of(report("x", mine)), reporting.tokens[0])[0] != 401:
        assert time.monotonic() < deadline, "the token of a deleted pod is taken"
        time.sleep(0.2)
    # Another pod of the same name is another pod.
    make_agent_pod(cluster, namespace, f"agent-{first}", first)
    assert reporting.post(body_of(report("x", mine)), reporting.tokens[0])[0] == 401
