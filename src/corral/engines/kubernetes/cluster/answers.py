"""Turns refusals of an API server into errors of Corral."""

import re
from typing import Any

from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.connection import Response
from corral.engines.kubernetes.cluster.errors import (
    AlreadyExists,
    ClusterBusy,
    ClusterFailed,
    MissingRight,
    NoSuchObject,
    NotAuthenticated,
    ObjectChanged,
    Rejected,
    VersionExpired,
)
from corral.engines.kubernetes.cluster.json_text import read_json

# `User "u" cannot list resource "pods" in API group "" in the namespace "n"`, or `... at the cluster scope`.
_NO_RIGHT = re.compile(
    r'User "(?P<user>.*?)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)


def error_of(answer: Response, asked: str) -> CorralError:
    """Return the error of an unsuccessful answer.

    Args:
        answer: status and body. The body should be a `Status` object, but may be anything.
        asked: the request in words, as in "create pods".
    """
    status = status_of(answer.body)
    said = str(status.get("message") or answer.body[:200].decode("utf-8", "replace").strip() or "no reason given")
    return error_of_status(answer.status, str(status.get("reason") or ""), said, asked, answer.retry_after_s)


def error_of_status(code: int, reason: str, said: str, asked: str, retry_after_s: float | None = None) -> CorralError:
    """Return the error of one `Status`, which also occurs within a watch."""
    tried = f"Kubernetes: {asked}: {said}"
    match code:
        case 401:
            return NotAuthenticated(
                f"the API server does not know who asks ({said}); log in again, or mend the user of the kubeconfig",
                field="kubeconfig",
            )
        case 403:
            return _forbidden(said, tried)
        case 404:
            return NoSuchObject(tried)
        case 409:
            return AlreadyExists(tried) if reason == "AlreadyExists" else ObjectChanged(tried)
        case 410:
            return VersionExpired(tried)
        case 429:
            return ClusterBusy(tried, retry_after_s)
        case _ if 400 <= code < 500:
            return Rejected(tried)
        case _:
            return ClusterFailed(f"{tried} (status {code})")


def _forbidden(said: str, tried: str) -> CorralError:
    """Return the error of a 403: MissingRight if RBAC refused, Rejected if admission did, as a webhook or a quota."""
    match = _NO_RIGHT.search(said)
    if match is None:
        return Rejected(tried)
    resource = match["resource"] + (f".{match['group']}" if match["group"] else "")
    where = f"in namespace {match['namespace']}" if match["namespace"] else "in the whole cluster"
    return MissingRight(
        f"the user {match['user']} may not {match['verb']} {resource} {where}; a Role or ClusterRole that is bound to "
        f"it has to allow the verb {match['verb']!r} on {resource}",
        verb=match["verb"],
        resource=resource,
        namespace=match["namespace"],
    )


def status_of(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body, or {}."""
    try:
        status = read_json(body)
    except ValueError:
        return {}
    return status if isinstance(status, dict) else {}
