"""Real helm and kubectl, and the chart in deploy/helm."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

CHART = Path(__file__).parents[4] / "deploy/helm/corral"
PROGRAMS = Path(__file__).parents[4] / ".venv/helm"
SYSTEM = "corral-system"


def find(program: str) -> str | None:
    """The program on the path, else as .ci/run unpacks it."""
    return shutil.which(program) or shutil.which(program, path=str(PROGRAMS))


def run(program: str, *words: str, kubeconfig: Path | None = None, status: int | None = 0, typed: str = "") -> str:
    """What helm or kubectl says: its output alone where it succeeds."""
    path = find(program)
    assert path is not None
    env = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "HELM"))}
    env |= {"KUBECONFIG": str(kubeconfig or "/dev/null")}
    command = [path, *words]
    done = subprocess.run(command, env=env, input=typed, capture_output=True, text=True, timeout=120)
    assert status in (None, done.returncode), f"{words}: {done.stdout}{done.stderr}"
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr


def rendered(*options: str, values: dict[str, Any] | None = None, release: str = "corral") -> list[dict[str, Any]]:
    """The objects of the chart, without a cluster."""
    typed = yaml.safe_dump(values or {})
    words = ("template", release, str(CHART), "--namespace", SYSTEM, "--values", "-", *options)
    return [found for found in yaml.safe_load_all(run("helm", *words, typed=typed)) if found]


def one(objects: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """The only object of a kind, or that with this name."""
    (found,) = (item for item in objects if item["kind"] == kind and name in (None, item["metadata"]["name"]))
    return found


def refused(values: dict[str, Any]) -> str:
    """What helm says of values that are refused."""
    words = ("template", "corral", str(CHART), "--namespace", SYSTEM, "--values", "-")
    return run("helm", *words, typed=yaml.safe_dump(values), status=1)


@dataclass
class Release:
    """A release in a cluster that tests share: its names, its jobs' namespace and its scheduler are its own."""

    kubeconfig: Path
    name: str = field(default_factory=lambda: f"corral-{uuid4().hex[:8]}")

    @property
    def jobs(self) -> str:
        return f"{self.name}-jobs"

    def values(self, more: dict[str, Any] | None = None) -> str:
        settings = {"kubernetes": {"scheduler_name": self.name}} | (more or {}).get("settings", {})
        return json.dumps({"jobs": {"namespace": self.jobs}, **(more or {}), "settings": settings})

    def helm(self, *words: str, status: int | None = 0, typed: str = "") -> str:
        return run("helm", *words, "--namespace", SYSTEM, kubeconfig=self.kubeconfig, status=status, typed=typed)

    def install(self, values: dict[str, Any] | None = None) -> str:
        words = ("install", self.name, str(CHART), "--create-namespace", "--values", "-")
        return self.helm(*words, typed=self.values(values))

    def upgrade(self, values: dict[str, Any] | None = None) -> str:
        return self.helm("upgrade", self.name, str(CHART), "--values", "-", typed=self.values(values))

    def kubectl(self, *words: str, status: int | None = 0) -> str:
        return run("kubectl", *words, kubeconfig=self.kubeconfig, status=status)

    def get(self, kind: str, name: str, namespace: str = SYSTEM) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "--namespace", namespace, "--output=json"))
        return found
