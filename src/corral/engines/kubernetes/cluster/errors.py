"""Refusals and failures of an API server, as errors that a person can act on."""

from collections.abc import Iterator
from contextlib import contextmanager

from corral.core.model.errors import BackendFailed, Conflict, CorralError, Forbidden, NodeUnreachable, NotFound, Refused


class ClusterUnreachable(BackendFailed):
    """The API server did not answer in time, or broke off. The request may have been carried out."""


class ClusterNotTrusted(Refused):
    """The API server's certificate is not trusted. Nothing was sent to it."""


class ClusterBusy(BackendFailed):
    """The API server did nothing of the request, because it has too much to do. Try again in `retry_after_s`."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ClusterFailed(BackendFailed):
    """The API server, or a service it relies on, failed. The request may have been carried out."""


class NotAuthenticated(Refused):
    """The API server does not accept the credential: a token or certificate is missing, wrong or expired."""


class MissingRight(Forbidden):
    """The user of this client lacks a right.

    Attributes:
        verb: the verb of RBAC: "list", "create", ...
        resource: the resource: "pods", "pods/log", "inferenceservices.ome.io", ...
        namespace: the namespace, or None for the whole cluster.
    """

    def __init__(self, message: str, *, verb: str, resource: str, namespace: str | None) -> None:
        super().__init__(message)
        self.verb = verb
        self.resource = resource
        self.namespace = namespace


class NoSuchObject(NotFound):
    """No object has that name, or its kind is unknown because its definition is not installed."""


class AlreadyExists(Conflict):
    """An object of that name exists. An earlier try whose answer was lost may have made it: compare the two."""


class ObjectChanged(Conflict):
    """The object differs from the one that the request assumed: another version, another UID, already bound."""


class Rejected(Refused):
    """The API server, a webhook or a quota does not accept the object. The message has its reason."""


class VersionExpired(CorralError):
    """The API server no longer has the changes since that version: list again."""


@contextmanager
def asked_again() -> Iterator[None]:
    """A context that raises NodeUnreachable if the API server did not answer: the request may be done, and must be
    repeated.

    It does the same if client and server do not recognize each other, as with an expired token: no job is to blame for
    that.
    """
    try:
        yield
    except (
        ClusterUnreachable,
        ClusterFailed,
        ClusterBusy,
        ObjectChanged,
        NotAuthenticated,
        ClusterNotTrusted,
    ) as error:
        raise NodeUnreachable(str(error)) from error
