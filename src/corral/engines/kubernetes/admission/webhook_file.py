"""The two configurations by which an API server asks Corral about pods. Pure."""

import base64
from collections.abc import Sequence
from typing import Any

from corral.core.model.errors import Refused
from corral.engines.kubernetes.admission.pod_admission import OPT_IN, OPTED_IN, SYSTEM
from corral.engines.kubernetes.cluster.resource import OWN_NAMESPACE

GROUP = "admissionregistration.k8s.io/v1"
POLICIES = ("Ignore", "Fail")
MOST_TIMEOUT_S = 30
_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label with a namespace's name, which API servers set since 1.21."""


def webhook_configurations(
    url: str, authority: bytes, *, failure_policy: str, timeout_s: int
) -> Sequence[dict[str, Any]]:
    """Return the configurations: one sets fields of pods, one refuses pods. Raises Refused for an invalid value."""
    if not url.startswith("https://"):
        raise Refused(f"{url!r:.100}: API servers call webhooks over HTTPS alone; write https://HOST:PORT", field="url")
    if failure_policy not in POLICIES:
        raise Refused(f"--failure-policy: write {' or '.join(POLICIES)}", field="--failure-policy")
    if not 1 <= timeout_s <= MOST_TIMEOUT_S:
        raise Refused(f"--timeout: write seconds from 1 to {MOST_TIMEOUT_S}", field="--timeout")
    ca, base = base64.b64encode(authority).decode(), url.rstrip("/")
    common: dict[str, Any] = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": failure_policy,
        "timeoutSeconds": timeout_s,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {
            "matchExpressions": [
                {"key": OPT_IN, "operator": "In", "values": [OPTED_IN]},
                {"key": _NAME_LABEL, "operator": "NotIn", "values": [SYSTEM, OWN_NAMESPACE]},
            ]
        },
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
             "scope": "Namespaced"},
        ],
    }  # fmt: skip
    return [
        {
            "apiVersion": GROUP,
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": "corral"},
            "webhooks": [
                {
                    "name": f"{path}.admission.corral.dev",
                    "clientConfig": {"url": f"{base}/admission/{path}", "caBundle": ca},
                    **common,
                }
            ],
        }
        for kind, path in (("Mutating", "mutate"), ("Validating", "validate"))
    ]
