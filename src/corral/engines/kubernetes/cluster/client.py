"""The API server of one cluster: objects as plain JSON. Each call has a deadline and is repeated until then."""

import builtins
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from corral.engines.kubernetes.cluster.calls import Calls
from corral.engines.kubernetes.cluster.connection import Call, ResponseStream, query_of
from corral.engines.kubernetes.cluster.errors import NoSuchObject, NotAuthenticated, ObjectChanged, VersionExpired
from corral.engines.kubernetes.cluster.kubeconfig import Access, find_access
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.cluster.resource import ACCESS_REVIEWS, PODS, ResourceType

if TYPE_CHECKING:
    from corral.engines.kubernetes.cluster.connection import OpenLine
    from corral.engines.kubernetes.cluster.exec_talk import ExecTalk
    from corral.engines.kubernetes.cluster.pod_exec import Ran

T = TypeVar("T")

Json = dict[str, Any]
"""An object as the API server writes it."""

TIMEOUT_S = 20.0
PAGE = 500

PatchType = Literal["merge", "strategic"]
_PATCH_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects objects of a resource.

    Attributes:
        namespace: the namespace; None for all.
        labels: a label selector, as kubectl's --selector.
        fields: a field selector, such as "spec.schedulerName=corral".
    """

    namespace: str | None = None
    labels: str | None = None
    fields: str | None = None


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing: its objects, the version of the whole listing, and the token for the next part (None: this
    is the last).
    """

    items: tuple[Json, ...]
    version: str
    continue_token: str | None


class Cluster:
    """One cluster, for calls of many threads. Every method raises the errors of `cluster.errors`.

    Attributes:
        namespace: the default namespace of calls.
    """

    def __init__(self, access: Access) -> None:
        self.namespace = access.namespace
        self._calls = Calls(access)

    @classmethod
    def connect(cls, kubeconfig: str | None = None, context: str | None = None, namespace: str | None = None) -> Self:
        """Return the cluster that a kubeconfig names, or the cluster of the pod that this process runs in. Sends no
        request. Raises Refused.
        """
        cluster = cls(find_access(kubeconfig, context))
        cluster.namespace = namespace or cluster.namespace
        return cluster

    def __str__(self) -> str:
        return str(self._calls)

    def close(self) -> None:
        """Abort calls that wait for another try, and close idle connections."""
        self._calls.close()

    def version(self, timeout_s: float = TIMEOUT_S) -> tuple[int, int]:
        """Return the major and minor version of the API server."""
        told = self._calls.asked(Call("GET", "/version"), "get /version", timeout_s)
        digits = ["".join(filter(str.isdigit, str(told.get(key, "")))) for key in ("major", "minor")]
        return int(digits[0] or 0), int(digits[1] or 0)

    def get(
        self, resource: ResourceType, name: str, namespace: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> Json:
        """Return one object. Raises NoSuchObject."""
        call = Call("GET", self._path(resource, namespace, name))
        return self._calls.asked(call, f"get {resource} {name}", timeout_s)

    def list(
        self, resource: ResourceType, selection: Selection = EVERYTHING, *, timeout_s: float = TIMEOUT_S
    ) -> tuple[Json, ...]:
        """Return all selected objects. For many objects `read_all` needs less memory."""
        return tuple(self.read_all(resource, lambda item: item, selection, timeout_s=timeout_s))

    def read_all(
        self,
        resource: ResourceType,
        read: Callable[[Json], T | None],
        selection: Selection = EVERYTHING,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> builtins.list[T]:
        """Return `read` of each selected object, without those for which it gives None. Holds one page of objects at a
        time.

        A listing that expires between two pages, because the API server dropped its version, begins again.
        """
        deadline_s = time.monotonic() + timeout_s
        kept: builtins.list[T] = []
        token = None
        while True:
            try:
                page = self.page(resource, selection, token, limit=PAGE, timeout_s=deadline_s - time.monotonic())
            except VersionExpired:
                if token is None or time.monotonic() >= deadline_s:
                    raise
                kept, token = [], None
                continue
            kept += (one for item in page.items if (one := read(item)) is not None)
            token = page.continue_token
            if token is None:
                return kept

    def page(
        self,
        resource: ResourceType,
        selection: Selection = EVERYTHING,
        continue_token: str | None = None,
        *,
        limit: int = PAGE,
        timeout_s: float = TIMEOUT_S,
        once: bool = False,
    ) -> Page:
        """Return the next part of a listing; with `once` it is tried only once. Raises VersionExpired if the listing
        took too long.
        """
        query = {"limit": str(limit), "continue": continue_token, **_selectors(selection)}
        target = resource.path(selection.namespace) + query_of(query)
        answer = self._calls.asked(Call("GET", target), f"list {resource}", timeout_s, repeatable=not once)
        metadata = mapping(answer.get("metadata"))
        return Page(
            tuple(answer.get("items") or ()),
            str(metadata.get("resourceVersion", "")),
            metadata.get("continue") or None,
        )

    def watch(
        self,
        resource: ResourceType,
        selection: Selection,
        version: str,
        *,
        lasting_s: float,
        silence_s: float,
        timeout_s: float = TIMEOUT_S,
    ) -> ResponseStream:
        """Return the stream of events after a version, one JSON object a line. Tried once.

        Args:
            resource: the resource to watch.
            selection: which of its objects.
            version: the version of the listing or event after which it begins.
            lasting_s: the time after which the server shall end the stream.
            silence_s: the silence after which the stream counts as broken; bookmarks come each minute.
            timeout_s: how long the answer may take to begin.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(int(lasting_s)),
            **_selectors(selection),
        }
        call = Call("GET", resource.path(selection.namespace) + query_of(query))
        return self._calls.stream(call, f"watch {resource}", timeout_s, silence_s)

    def create(
        self,
        resource: ResourceType,
        body: Json,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Json:
        """Create an object and return it. Raises AlreadyExists, Rejected.

        It is tried only once if the server chooses the name of the object (`generateName`).
        """
        metadata = body.get("metadata") or {}
        query = query_of({"dryRun": "All" if dry_run else None})
        target = self._path(resource, namespace or metadata.get("namespace")) + query
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        asked = f"create {resource} {metadata.get('name', '')}".rstrip()
        call, repeatable = _with_body("POST", target, body), "name" in metadata
        # A new object cannot have changed: a conflict means that many creations contend for a counter, such as a quota.
        return self._calls.asked(call, asked, timeout_s, repeatable=repeatable, contended=True)

    def patch(
        self,
        resource: ResourceType,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        patch_type: PatchType = "merge",
        subresource: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Json:
        """Change an object and return its new state. `subresource="status"` changes its status."""
        target = self._path(resource, namespace, name, subresource)
        call = Call("PATCH", target, json.dumps(body).encode(), _PATCH_TYPES[patch_type])
        return self._calls.asked(call, f"patch {resource} {name}", timeout_s)

    def delete(
        self,
        resource: ResourceType,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_s: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Delete an object, only if it has this UID and this version. An object that is gone counts as deleted.

        Raises ObjectChanged.
        """
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        only = {"uid": uid, "resourceVersion": version}
        if preconditions := {name: value for name, value in only.items() if value is not None}:
            options["preconditions"] = preconditions
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        call = _with_body("DELETE", self._path(resource, namespace, name), options)
        try:
            self._calls.asked(call, f"delete {resource} {name}", timeout_s)
        except NoSuchObject:
            return

    def bind(
        self,
        pod: str,
        namespace: str,
        uid: str,
        node: str,
        *,
        annotations: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Bind a pod without a node to a node, and write these annotations on the pod.

        Raises ObjectChanged if it is bound to another node, NoSuchObject if it is gone.

        Old API servers, 1.20 among them, do not compare the UID: there a new pod of the same name would be bound.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace, "uid": uid, "annotations": dict(annotations or {})},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        call = _with_body("POST", PODS.path(namespace, pod, "binding"), body)
        try:
            self._calls.asked(call, f"bind pod {namespace}/{pod}", timeout_s)
        except ObjectChanged:
            # The answer to an earlier try of this call may have been lost.
            found = self.get(PODS, pod, namespace, timeout_s=timeout_s)
            if found["metadata"].get("uid") != uid or found["spec"].get("nodeName") != node:
                raise

    def read_log(
        self,
        pod: str,
        namespace: str | None = None,
        *,
        container: str | None = None,
        follow: bool = False,
        since_s: int | None = None,
        limit_bytes: int | None = None,
        timestamps: bool = False,
        tail_lines: int | None = None,
        previous: bool = False,
        silence_s: float | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> ResponseStream:
        """Return the log of a container; with `follow` also its future lines. Tried once.

        Args:
            pod: its name.
            namespace: its namespace; None for the cluster's default.
            container: its name in the pod; None if the pod has only one.
            follow: go on until the container has ended.
            since_s: only lines of the last `since_s` seconds.
            limit_bytes: the largest number of bytes.
            timestamps: each line begins with its time.
            tail_lines: only the last `tail_lines` lines.
            previous: the log of the container before its restart.
            silence_s: the silence after which the stream counts as broken.
        timeout_s: how long the answer may take to begin.
        """
        query = {
            "container": container,
            "follow": "true" if follow else None,
            "sinceSeconds": None if since_s is None else str(since_s),
            "limitBytes": None if limit_bytes is None else str(limit_bytes),
            "timestamps": "true" if timestamps else None,
            "tailLines": None if tail_lines is None else str(tail_lines),
            "previous": "true" if previous else None,
        }
        call = Call("GET", self._path(PODS, namespace, pod, "log") + query_of(query))
        return self._calls.stream(call, f"get pods/log {pod}", timeout_s, silence_s)

    def read_from_pod(self, pod: str, namespace: str, port: int, path: str, *, timeout_s: float = TIMEOUT_S) -> str:
        """Return the body of a pod's answer to GET, through the API server. Requires the right to get pods/proxy."""
        target = f"{PODS.path(namespace, f'{pod}:{port}', 'proxy')}/{path}"
        answer = self._calls.answered(Call("GET", target), f"get pods/proxy {namespace}/{pod}", timeout_s)
        return answer.body.decode("utf-8", "replace")

    def run_in_pod(
        self,
        pod: str,
        namespace: str,
        container: str,
        command: Sequence[str],
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> "Ran":
        """Run a command in a container, and return when it has ended. Tried once. The right is create on pods/exec."""
        from corral.engines.kubernetes.cluster.exec_talk import exec_target
        from corral.engines.kubernetes.cluster.pod_exec import run_over

        deadline_s = time.monotonic() + timeout_s
        return run_over(self._calls.open_line(timeout_s), exec_target(namespace, pod, container, command), deadline_s)

    def begin_in_pod(
        self,
        pod: str,
        namespace: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool,
        terminal: bool,
        timeout_s: float = TIMEOUT_S,
    ) -> "tuple[OpenLine, ExecTalk]":
        """Start a command in a container. Return its connection and its protocol state. Tried once, and again only with
        another credential. The rights are create and get on pods/exec.
        """
        from corral.engines.kubernetes.cluster.exec_talk import exec_target
        from corral.engines.kubernetes.cluster.pod_exec import begin_over

        deadline_s = time.monotonic() + timeout_s
        target = exec_target(namespace, pod, container, command, stdin=stdin, terminal=terminal)
        while True:
            line = self._calls.open_line(deadline_s - time.monotonic())
            try:
                return line, begin_over(line, target, deadline_s, ends_input=stdin and not terminal)
            except NotAuthenticated:
                if not self._calls.renew():
                    raise

    def can_i(
        self,
        verb: str,
        resource: ResourceType,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> bool:
        """Return whether the user of this client has a right; without a namespace, in all namespaces."""
        wanted = {"verb": verb, "group": resource.group, "version": resource.version, "resource": resource.plural}
        wanted |= {"namespace": namespace or "", "subresource": subresource or ""}
        review = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": wanted},
        }
        call = _with_body("POST", ACCESS_REVIEWS.path(), review)
        answer = self._calls.asked(call, f"ask whether {verb} {resource} is allowed", TIMEOUT_S)
        return (answer.get("status") or {}).get("allowed") is True

    def _path(
        self, resource: ResourceType, namespace: str | None, name: str | None = None, subresource: str | None = None
    ) -> str:
        return resource.path(namespace or self.namespace, name, subresource)


def _with_body(method: str, target: str, body: Json) -> Call:
    return Call(method, target, json.dumps(body).encode())


def _selectors(selection: Selection) -> dict[str, str | None]:
    return {"labelSelector": selection.labels, "fieldSelector": selection.fields}
