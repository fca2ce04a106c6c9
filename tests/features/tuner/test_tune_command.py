"""What `corral tune` makes of a task's file before it is sent."""

from typing import Any

import pytest

from corral.features.tuner.run_commands.tune import with_shell

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
