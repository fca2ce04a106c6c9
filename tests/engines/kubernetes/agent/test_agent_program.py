"""The agent of a node reports its devices to a real server, as soon as there is one, and labels its node."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.resource import NODES
from tests.certificates import needs_openssl
from tests.engines.kubernetes.agent_reports.agents import body_of, report
from tests.engines.kubernetes.agent_reports.reporting import PATIENCE_S, Reporting
from tests.engines.kubernetes.engine.conftest import site
from tests.engines.kubernetes.engine.site import Site

__all__ = ["site"]

MOCK = """
[attributes]
nvidia_driver = "550.54.15"
cuda_runtime = "12.4"

[[devices]]
mother_uuid = "{uuid}"
model_name = "Mock A100-SXM4-80GB"
memory_size = "80G"
"""


class AgentProcess:
    """The program as a pod runs it, with the log that `kubectl logs` would show."""

    def __init__(self, directory: Path, reporting: Reporting, mock: Path) -> None:
        self.log = directory / "agent.log"
        token = directory / "token"
        token.write_text(reporting.tokens[0])
        words = ["--server", reporting.url, "--token-file", str(token), "--ca-file", str(reporting.certificate)]
        words += ["--mock", str(mock), "--kubelet-dir", str(directory / "kubelet"), "--node-labels"]
        env = {**os.environ, "NODE_NAME": reporting.nodes[0], "KUBECONFIG": str(reporting.site.kubeconfig)}
        command = [str(Path(sys.executable).parent / "corral"), "kubernetes", "agent", *words]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def says(self, words: str) -> bool:
        return words in self.log.read_text()


@pytest.fixture
def reporting(site: Site, tmp_path: Path) -> Reporting:
    return Reporting(site, tmp_path)


@pytest.fixture
def agent(reporting: Reporting, tmp_path: Path) -> Iterator[AgentProcess]:
    mock = tmp_path / "mock.toml"
    mock.write_text(MOCK.format(uuid=f"GPU-{uuid.uuid4()}"))
    agent = AgentProcess(tmp_path, reporting, mock)
    yield agent
    agent.process.kill()
    agent.process.wait()


@needs_openssl
def test_an_agent_reports_its_devices_once_there_is_a_server_and_labels_its_node(
    agent: AgentProcess, reporting: Reporting, tmp_path: Path
) -> None:
    first, second = reporting.nodes
    agent.until(lambda: agent.says(f"{reporting.url} does not answer"))
    agent.until(lambda: agent.says("it is not known which pod has which device"))
    reporting.up()
    agent.until(lambda: agent.says("the server takes reports again"))
    # The device is the first node's now: another agent cannot have it.
    device = (tmp_path / "mock.toml").read_text().partition('mother_uuid = "')[2].partition('"')[0]
    status, said = reporting.post(body_of(report(second, device)), reporting.tokens[1])
    assert (status, f"node {first} has it" in said) == (422, True)

    def labels() -> dict[str, str]:
        return dict(reporting.site.cluster.get(NODES, first)["metadata"]["labels"])

    agent.until(lambda: labels().get("cuda-minor-version") == "4")
    assert labels()["cuda-major-version"] == "12"

    # The token of a pod that is not the node's is refused, and said once.
    (tmp_path / "token").write_text(reporting.tokens[0][:-4] + "AAAA")
    agent.until(lambda: agent.says("does not take the report (401): the API server does not accept the token"))
    agent.process.terminate()
    assert agent.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "the server is missing"),
        (("--server", "http://127.0.0.1:1", "--node", "a"), "write https://HOST:PORT"),
        (("--server", "https://127.0.0.1:1"), "the node's name is missing"),
    ],
)
def test_an_agent_that_cannot_report_says_why(words: tuple[str, ...], why: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "NODE_NAME"}
    command = [str(Path(sys.executable).parent / "corral"), "kubernetes", "agent", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, why in done.stderr) == (done.returncode or 1, True)
