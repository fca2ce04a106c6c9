"""Nodes on which a job cannot run whatever is free: its user's account is missing or differs, or there is no Docker."""

from collections.abc import Mapping
from dataclasses import replace

from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import Request
from corral.core.model.view import View


def barred_to(view: View, user: str, container: Container | None) -> Mapping[str, str]:
    """The nodes on which no job of this user can run, and no container if the job is one.

    Each has the reason, as a sentence that begins with the node and "cannot run", without its full stop.
    """
    undocked = () if container is None else sorted(view.no_docker.items())
    found = {node: f"containers: {why}" for node, why in undocked}
    accounts = {node: reasons[user] for node, reasons in sorted(view.barred.items()) if user in reasons}
    return found | {node: f"jobs of this user: {why}" for node, why in accounts.items()}


def kept_off(request: Request, nodes: Mapping[str, str]) -> Request:
    """The request, excluding these nodes too."""
    return replace(request, excluded_nodes=(*request.excluded_nodes, *nodes)) if nodes else request
