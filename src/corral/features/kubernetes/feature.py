"""Commands that prepare a Kubernetes cluster for a server."""

from __future__ import annotations

from corral.features.feature import Feature


class KubernetesFeature(Feature):
    """Lets administrators of a cluster write what Corral and other systems share there."""

    name = "kubernetes"
    commands = (
        (
            "Server and site",
            "kubernetes",
            "corral.features.kubernetes.commands.KubernetesCommand",
            "Prepare a Kubernetes cluster for a server of Corral.",
        ),
    )


FEATURE = KubernetesFeature()
