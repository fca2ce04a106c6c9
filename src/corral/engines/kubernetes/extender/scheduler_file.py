"""The configuration of a kube-scheduler that asks Corral, alone or merged into a file that has extenders already. Pure.

v1beta1 is tested with a real kube-scheduler; the others are written from the published types.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.version import dotted, version_tuple
from corral.engines.kubernetes.cluster.objects import sequence

KIND = "KubeSchedulerConfiguration"
GROUP = "kubescheduler.config.k8s.io/"
TIMEOUT = "5s"

_VERSIONS = (((1, 25), "v1"), ((1, 23), "v1beta3"), ((1, 22), "v1beta2"), ((1, 19), "v1beta1"))
"""The oldest Kubernetes for which each version of the configuration is written."""

NEWEST = _VERSIONS[0][1]
TRIED = f"{GROUP}v1beta1"
"""The version that was tried with a real kube-scheduler, of Kubernetes 1.20."""


@dataclass(frozen=True, slots=True)
class SchedulerFiles:
    """Paths on the machine of kube-scheduler: its kubeconfig, the CA of Corral's server, and its own certificate."""

    kubeconfig: str
    ca: str
    certificate: str
    key: str


def api_version(kubernetes: str | None) -> str:
    """Return the version of the configuration for a version of Kubernetes; the newest for None. Raises Refused."""
    if kubernetes is None:
        return NEWEST
    wanted = version_tuple(kubernetes.removeprefix("v"))
    if wanted is None or len(wanted) < 2:
        raise Refused(f"--kubernetes-version: {kubernetes!r:.40} is no version; write one such as 1.29")
    for since, version in _VERSIONS:
        if wanted >= since:
            return version
    raise Refused(
        f"--kubernetes-version: before {dotted(_VERSIONS[-1][0])} extenders were in a Policy file, which is not written"
    )


def extender_entry(url: str, files: SchedulerFiles, resources: Sequence[str]) -> dict[str, Any]:
    """Return the entry of Corral's extender at this URL, for pods that ask for one of these resources."""
    if not url.startswith("https://"):
        raise Refused(f"{url!r:.100}: kube-scheduler shows a certificate over HTTPS alone; write https://HOST:PORT")
    return {
        "urlPrefix": f"{url.rstrip('/')}/extender",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "preemptVerb": "preempt",
        "weight": 1,
        "enableHTTPS": True,
        "httpTimeout": TIMEOUT,
        "nodeCacheCapable": True,
        "tlsConfig": {"caFile": files.ca, "certFile": files.certificate, "keyFile": files.key},
        "managedResources": [{"name": name, "ignoredByScheduler": False} for name in resources],
    }


def new_file(version: str, files: SchedulerFiles, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with this extender alone."""
    return {
        "apiVersion": GROUP + version,
        "kind": KIND,
        "clientConnection": {"kubeconfig": files.kubeconfig},
        "extenders": [entry],
    }


def merged(document: object, entry: dict[str, Any], *, yields: Collection[str] = ()) -> dict[str, Any]:
    """Return a configuration with this extender in place of the one at the same URL, else behind the others.

    Of the resources in `yields` it leaves out those that another extender manages, which chooses a GPU by itself.
    Everything else stays as it is. Raises Refused for another kind of file, and if another extender binds pods.
    """
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise Refused(f"--merge: the file has no {KIND}")
    if not str(document.get("apiVersion")).startswith(GROUP):
        raise Refused(f"--merge: its apiVersion {document.get('apiVersion')!r:.60} does not begin with {GROUP}")
    known = document.get("extenders") or []
    if not isinstance(known, list) or not all(isinstance(one, dict) for one in known):
        raise Refused("--merge: its extenders are no list of objects")
    for one in known:
        if one.get("bindVerb") and one.get("urlPrefix") != entry["urlPrefix"]:
            raise Refused(
                f"--merge: the extender {one.get('urlPrefix')!s:.100} binds pods, and kube-scheduler takes one such "
                "extender; remove its bindVerb, or the extender"
            )
    others = [one for one in known if one.get("urlPrefix") != entry["urlPrefix"]]
    entry = {**entry, "managedResources": _left_over(entry["managedResources"], others, yields)}
    urls = [one.get("urlPrefix") for one in known]
    extenders = [entry if one.get("urlPrefix") == entry["urlPrefix"] else one for one in known]
    if entry["urlPrefix"] not in urls:
        extenders.append(entry)
    return {**document, "extenders": extenders}


def _left_over(
    managed: list[dict[str, Any]], others: Iterable[Mapping[str, Any]], yields: Collection[str]
) -> list[dict[str, Any]]:
    """Return the managed resources without those in `yields` that another extender manages."""
    theirs = {str(one.get("name")) for other in others for one in sequence(other.get("managedResources"))}
    return [one for one in managed if one["name"] not in yields or one["name"] not in theirs]
