"""An agent gets those of the server's settings that it reads, spelled as the site spelled them, and no secret."""

import ast
import dataclasses
import inspect
from pathlib import Path

from corral.config import Settings, load_settings
from corral.engines.hosts.installing.agent_settings import OF_AGENTS, agent_settings
from corral.host import node, runtimes, sharing, telemetry
from corral.vendors import nvidia

SITE = """
kill_grace: 1m30s
labels: {zone: a}
sharing: {"*": mps}
channels: {ops: "slack://token/secret"}
monitoring:
  interval_seconds: 2
  metrics_retention_days: 3
queues:
  - name: night
docker:
  networks: [host]
"""


def test_an_agent_gets_what_it_reads(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(SITE)
    text = agent_settings(tmp_path / "server.yaml")
    assert "secret" not in text
    (tmp_path / "agent.yaml").write_text(text)
    server, agent = load_settings(tmp_path / "server.yaml"), load_settings(tmp_path / "agent.yaml")
    for name in OF_AGENTS:
        assert getattr(agent, name) == getattr(server, name), name
    assert agent.labels == ()
    assert agent.queues == ()
    assert "1m30s" in text


def test_without_settings_there_are_none(tmp_path: Path) -> None:
    assert agent_settings(tmp_path / "none.yaml") == ""
    (tmp_path / "empty.yaml").write_text("queues: [{name: night}]\n")
    assert agent_settings(tmp_path / "empty.yaml") == ""


def test_every_setting_that_code_of_a_host_reads_is_sent() -> None:
    settings = {field.name for field in dataclasses.fields(Settings)}
    read = set()
    for package in (node, runtimes, sharing, telemetry, nvidia):
        for path in Path(inspect.getfile(package)).parent.rglob("*.py"):
            for found in ast.walk(ast.parse(path.read_text())):
                if isinstance(found, ast.Attribute) and "settings" in ast.unparse(found.value).split("."):
                    read.add(found.attr)
    assert (read & settings) - OF_AGENTS == {"labels"}, "labels are of one host each"
