"""Reviews of admission as API servers send and read them (`admission.k8s.io/v1`). Pure."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.printable import printable
from corral.engines.kubernetes.cluster.json_text import read_json
from corral.engines.kubernetes.cluster.objects import mapping

VERSION = "admission.k8s.io/v1"
MOST_WARNINGS, MOST_CHARACTERS = 5, 250
"""API servers shorten longer warnings, and drop the last if there are many."""


@dataclass(frozen=True, slots=True)
class Review:
    """One question about a pod that is to be created, whose namespace is set."""

    uid: str
    namespace: str
    pod: Mapping[str, Any]


def read_review(body: bytes) -> Review:
    """Read a question. Raises Refused for anything else than the creation of a pod."""
    try:
        read = read_json(body)
    except ValueError as error:
        raise Refused(f"the review is no JSON: {error}") from None
    asked = mapping(mapping(read).get("request"))
    uid, namespace, pod = asked.get("uid"), asked.get("namespace"), mapping(asked.get("object"))
    if mapping(read).get("apiVersion") != VERSION or not isinstance(uid, str) or not isinstance(namespace, str):
        raise Refused(f"the body is no review of {VERSION}")
    if mapping(asked.get("kind")).get("kind") != "Pod" or asked.get("operation") != "CREATE" or not pod:
        raise Refused("the review is about something else than the creation of a pod; correct the webhook's rules")
    metadata = mapping(pod.get("metadata"))
    # A pod that gets its name from the API server has none yet.
    name = str(metadata.get("name") or metadata.get("generateName") or "pod")
    return Review(uid, namespace, {**pod, "metadata": {**metadata, "name": name, "namespace": namespace}})


def allowed(review: Review, *, patch: Sequence[Mapping[str, Any]] = (), warnings: Sequence[str] = ()) -> bytes:
    """Return the answer that lets the pod in, with changes (JSON Patch) and warnings for whoever creates it."""
    response: dict[str, Any] = {"uid": review.uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(list(patch)).encode()).decode()}
    if warnings:
        response["warnings"] = [printable(one)[:MOST_CHARACTERS] for one in warnings[:MOST_WARNINGS]]
    return _answer(response)


def refused(review: Review, why: str) -> bytes:
    """Return the answer that refuses the pod."""
    status = {"code": 422, "reason": "Invalid", "message": printable(why)}
    return _answer({"uid": review.uid, "allowed": False, "status": status})


def _answer(response: Mapping[str, Any]) -> bytes:
    return json.dumps({"apiVersion": VERSION, "kind": "AdmissionReview", "response": response}).encode()
