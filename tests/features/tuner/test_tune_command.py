"""What `corral tune` makes of a task's file before it is sent."""

from pathlib import Path
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.features.tuner.commands import TuneCommand
from corral.features.tuner.finding_answers import TaskEstimate
from corral.features.tuner.run_commands.tune import MOST_BYTES, estimate_texts, read_task, tune, with_shell

SHELL = {"PATH": "/mine", "HF_TOKEN": "t", "KUBECONFIG": "/k", "CORRAL_PROMETHEUS_URL": "http://p"}


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ({}, {"PATH", "HF_TOKEN"}),
        ({"deployment_mode": "docker"}, {"HF_TOKEN"}),
        ({"deployment_mode": "ome"}, {"KUBECONFIG", "CORRAL_PROMETHEUS_URL"}),
        ({"deployment_mode": "kserve"}, {"KUBECONFIG", "CORRAL_PROMETHEUS_URL"}),
        ({"deployment_mode": ["process"]}, set()),
    ],
)
def test_a_server_gets_of_the_shell_what_means_something_where_it_runs(
    mode: dict[str, Any], names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VIRTUAL_ENV", "LD_LIBRARY_PATH", "HF_HOME", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    assert set(with_shell(mode)["env"]) == names
    assert with_shell({**mode, "env": {"HF_TOKEN": "own"}})["env"]["HF_TOKEN"] == "own"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (TuneCommand(demo=True, dry_run=True), "--dry-run"),
        (TuneCommand(file=Path("task.json"), follow=True, dry_run=True), "--dry-run"),
    ],
)
def test_what_would_only_be_looked_at_is_neither_run_nor_followed(given: TuneCommand, field: str) -> None:
    with pytest.raises(Refused) as refused:
        tune(given)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[" * 100_000, "is nested too deeply"),
        (b" " * (MOST_BYTES + 1), "has more than 1 MiB; no task is so large"),
        (b"9" * 5_000, "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
    ],
)
def test_a_file_that_no_task_is_in_is_refused(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "task.json"
    file.write_bytes(content)
    with pytest.raises(Refused, match=why):
        read_task(file)


def test_a_file_that_never_ends_is_refused() -> None:
    with pytest.raises(Refused, match="no task is so large"):
        read_task(Path("/dev/zero"))


def test_what_a_task_takes_is_said_with_what_cannot_run() -> None:
    found = TaskEstimate(3, 3, 1, 1, 90.0, 0.075, None, ("it needs up to 4 GPUs on one node, and the largest has 2",))
    assert list(estimate_texts(found)) == [
        "at most 3 experiments with 1 GPU each",
        "measuring takes at most 1m 30s for each, and 0.075 GPU-hours; not all can run here",
        "the time of deployments is not known before",
        "it needs up to 4 GPUs on one node, and the largest has 2",
    ]
