"""KUBECONFIG as a server or a task is given it, whose directory is another."""

import os
from pathlib import Path

import pytest

from corral.cli.jobs.kubeconfig_variable import kubeconfig_from_anywhere
from corral.features.tuner.run_commands.tune import with_shell


def test_its_files_are_those_of_the_directory_where_the_command_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    assert kubeconfig_from_anywhere({"KUBECONFIG": "k.yaml"}) == {"KUBECONFIG": f"{here}/k.yaml"}
    several = os.pathsep.join(["/etc/k.yaml", "", "../k.yaml"])
    assert kubeconfig_from_anywhere({"KUBECONFIG": several}) == {
        "KUBECONFIG": f"/etc/k.yaml{os.pathsep}{os.pathsep}{tmp_path.parent}/k.yaml"
    }
    assert kubeconfig_from_anywhere({}) == kubeconfig_from_anywhere({"KUBECONFIG": ""}) == {}


def test_a_task_that_deploys_to_a_cluster_has_it_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", "k.yaml")
    assert with_shell({"deployment_mode": "ome"})["env"] == {"KUBECONFIG": f"{tmp_path}/k.yaml"}
