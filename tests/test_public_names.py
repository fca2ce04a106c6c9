"""The names by which others reach Corral: what may be imported, which modules are programs, what is registered."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent

import pytest

from corral.plugins.queue_orders import load_policies

ROOT = Path(__file__).parents[1]

OFFERED: dict[str, tuple[str, ...]] = {
    "corral": (
        *("BackendFailed", "Client", "Conflict", "CorralError", "Forbidden", "JobHandle", "LedgerFailed", "NoServer"),
        *("NotFound", "Refused", "UntrustedServer", "WaitTimedOut", "gpu"),
    ),
    "corral.gpu": (
        *("GPUInfo", "GPUMonitor", "GPUSnapshot", "Lease", "LeaseTimedOut", "check_gpu_availability"),
        *("estimate_gpu_requirements", "get_gpu_monitor", "lease", "select_gpus_for_task", "wait_for_gpu_availability"),
    ),
    "corral.checkpoint": ("CheckpointManager", "is_preempted", "name_latest", "on_checkpoint", "remaining_s"),
    "corral.plugins": ("OrderContext", "Rank"),
    "corral.kubernetes": (
        *("Cluster", "KServeController", "OMEController", "ReadingSources", "WatchedGpus"),
        *("find_best_node_for_deployment", "get_cluster_gpu_status", "get_node_gpu_summaries", "select_best_node"),
    ),
}
"""All that these packages offer."""

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "corral.tuner.arq": ("WorkerSettings", "run_autotuning_task"),
    "corral.tuner.benchmark": ("run_benchmark_job",),
    "corral.tuner.gpu_estimate": ("gpu_estimate",),
}
"""What others import from modules that have more than that."""

IN_A_FENCE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("module", OFFERED)
def test_a_package_offers_its_public_names_and_no_others(module: str) -> None:
    package = importlib.import_module(module)
    assert sorted(package.__all__) == sorted(OFFERED[module])
    assert [name for name in OFFERED[module] if not hasattr(package, name)] == []


@pytest.mark.parametrize("module", FUNCTIONS)
def test_a_module_of_the_autotuner_has_what_other_programs_call(module: str) -> None:
    if module.endswith(".arq"):
        pytest.importorskip("arq", reason="ARQ is not installed")
    assert [
        name for name in FUNCTIONS[module] if not callable(getattr(importlib.import_module(module), name, None))
    ] == []


def imports_of(document: Path) -> Iterator[tuple[str, str]]:
    """The module and the name of each import from Corral in the document's examples; of `import corral` no name."""
    for found in IN_A_FENCE.finditer(document.read_text()):
        for node in ast.walk(ast.parse(dedent(found[1]))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "corral":
                yield from ((str(node.module), one.name) for one in node.names)
            elif isinstance(node, ast.Import):
                yield from ((one.name, "") for one in node.names if one.name.split(".")[0] == "corral")


def test_examples_in_documents_import_public_names_alone() -> None:
    known = {(module, name) for module, names in (OFFERED | FUNCTIONS).items() for name in ("", *names)}
    found = {each for document in DOCUMENTS for each in imports_of(document)}
    assert ("corral.kubernetes", "OMEController") in found
    assert found - known == set()


def run_module(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-I", "-m", name, *words], capture_output=True, text=True)


def test_a_unit_that_starts_the_server_by_its_module_finds_it() -> None:
    assert run_module("corral.daemon", "--help").stdout.startswith("usage: python -m corral.daemon")


def test_an_experiment_that_waited_since_an_earlier_version_finds_what_holds_its_port() -> None:
    found = run_module("corral.tuner.deployments.port_holder", "another place", "sh", "-c", "exit 7")
    assert found.returncode in (7, 126), found.stderr  # 126 says that there is no network here


def test_a_stand_in_of_a_job_that_waited_since_an_earlier_version_is_found() -> None:
    assert "usage: stand-in" in run_module("corral.tuner.stand_in_server", "--help").stdout


def test_a_task_runs_by_the_name_that_earlier_versions_started(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock, subprocess.Popen(
        [sys.executable, "-I", "-m", "corral.tuner", str(tmp_path), "1", str(lock.fileno())],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(lock.fileno(),), text=True,
    ) as tuner:  # fmt: skip
        assert tuner.stderr is not None
        said = tuner.stderr.read()
    assert "WARNING task 1: " in said  # there is no server


def test_a_container_that_waited_since_an_earlier_version_finds_its_runner(tmp_path: Path) -> None:
    said = run_module("corral.host.runtimes.docker.runner", str(tmp_path)).stderr
    assert said.endswith(f"{tmp_path / 'container.json'} is missing\n")


def test_the_command_and_the_engine_for_kubernetes_are_registered() -> None:
    (command,) = entry_points(group="console_scripts", name="corral")
    (engine,) = entry_points(group="corral.engines", name="kubernetes")
    assert callable(command.load())
    assert callable(engine.load())


def test_an_order_that_a_package_of_a_site_registers_is_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "our_orders.py").write_text("def lifo(job, context):\n    return (-job.sequence,)\n")
    registered = tmp_path / "our_orders-1.0.dist-info"
    registered.mkdir()
    (registered / "METADATA").write_text("Metadata-Version: 2.1\nName: our-orders\nVersion: 1.0\n")
    (registered / "entry_points.txt").write_text("[corral.orders]\nlifo = our_orders:lifo\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "lifo" in load_policies()
