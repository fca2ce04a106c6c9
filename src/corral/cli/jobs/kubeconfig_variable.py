"""KUBECONFIG for a process that works in another directory than the user's shell."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def kubeconfig_from_anywhere(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable with its files as absolute paths. Empty if it is not set."""
    named = environ.get("KUBECONFIG")
    if not named:
        return {}
    files = (os.path.abspath(part) if part else part for part in named.split(os.pathsep))
    return {"KUBECONFIG": os.pathsep.join(files)}
