"""How an API server says no, as errors that a person can act on."""

from collections.abc import Iterator
from contextlib import contextmanager

from corral.model.errors import BackendFailed, Conflict, CorralError, Forbidden, NodeUnreachable, NotFound, Refused


class ClusterUnreachable(BackendFailed):
    """The API server did not answer in time, or broke off. What it was asked to do may have been done."""


class ClusterNotTrusted(Refused):
    """The API server's certificate is not trusted. Nothing was sent to it."""


class ClusterBusy(BackendFailed):
    """The API server did nothing of the request, because it has too much to do. Try again in `retry_after_s`."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ClusterFailed(BackendFailed):
    """The API server, or what it relies on, failed. What it was asked to do may have been done."""


class NotAuthenticated(Refused):
    """The API server does not know who asks: a token or certificate that is missing, wrong or out of date."""


class MissingRight(Forbidden):
    """Who asks may not do this.

    Attributes:
        verb: what was tried, as RBAC calls it: "list", "create", ...
        resource: on what: "pods", "pods/log", "inferenceservices.ome.io", ...
        namespace: where, or None for the whole cluster.
    """

    def __init__(self, message: str, *, verb: str, resource: str, namespace: str | None) -> None:
        super().__init__(message)
        self.verb = verb
        self.resource = resource
        self.namespace = namespace


class NoSuchObject(NotFound):
    """There is no object of that name, or no such kind of object: a definition that is not installed."""


class AlreadyExists(Conflict):
    """There is an object of that name. An earlier try whose answer was lost may have made it: compare the two."""


class ObjectChanged(Conflict):
    """The object is not, or no longer, what the request presumed: another version, another UID, already bound."""


class Rejected(Refused):
    """The API server, a webhook or a quota does not accept the object; says why in its words."""


class VersionExpired(CorralError):
    """The API server no longer knows what happened since the version that was named: list again."""


@contextmanager
def asked_again() -> Iterator[None]:
    """Raises NodeUnreachable where the API server did not answer: it may have been done, and is asked for again.

    So it is where one of the two does not know the other, as when a token has run out: no job is to blame for that.
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
