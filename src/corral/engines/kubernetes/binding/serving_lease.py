"""A Lease makes sure that only one server per scheduler name in a cluster binds pods of others (decision 88)."""

import getpass
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from corral.clock import boot_id, uptime_s
from corral.core.control.watching.patrol import Patrol
from corral.core.model.errors import CorralError, NodeLacks
from corral.engines.kubernetes.binding.lease_record import (
    SURE_S,
    LeaseCandidate,
    LeaseRecord,
    LeaseStep,
    lease_name,
    made,
    next_step,
    read_lease,
    released,
    renewed,
    taken,
)
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import AlreadyExists, MissingRight, NoSuchObject, ObjectChanged
from corral.engines.kubernetes.cluster.resource import LEASES, NAMESPACES, OWN_NAMESPACE

log = logging.getLogger(__name__)

LOOK_S = 2.0
CALL_S = 4.0
TRIES = 3
"""The number of attempts in a round, if other servers were faster."""


class ServingLease:
    """The lease of one scheduler name, held or awaited by one server. Safe from any thread.

    `monotonic_s` goes on while the machine is suspended or the process is stopped.
    """

    def __init__(
        self, cluster: Cluster, scheduler: str, me: LeaseCandidate, monotonic_s: Callable[[], float] = uptime_s
    ) -> None:
        self._cluster = cluster
        self.scheduler = scheduler
        self._me = me
        self._now_s = monotonic_s
        self._changed = threading.Condition()
        self._sure_until_s = 0.0
        self._acting = 0
        self._closing = False
        self._record: LeaseRecord | None = None
        self._unchanged_since_s = 0.0
        self._trouble: str | None = None
        self._said: str | None = None
        self._patrol = Patrol("binding-lease", self.look, LOOK_S)

    @property
    def held(self) -> bool:
        """Whether this server may bind and delete pods of others now."""
        return not self._closing and self._now_s() < self._sure_until_s

    @contextmanager
    def acting(self) -> Iterator[float]:
        """A context in which pods of others may be bound or deleted. Its value is the number of seconds left for that.

        Raises NodeLacks if this server does not have the lease.
        """
        with self._changed:
            left_s = self._sure_until_s - self._now_s()
            if self._closing or left_s <= 0:
                raise NodeLacks(self.why_not or f"{self._name} has just run out")
            self._acting += 1
        try:
            yield left_s
        finally:
            with self._changed:
                self._acting -= 1
                self._changed.notify_all()

    @property
    def why_not(self) -> str | None:
        """The reason why this server does not bind pods of others, with the remedy; None if it binds them."""
        if self.held:
            return None
        pods, record = f"pods with schedulerName {self.scheduler}", self._record
        if record is not None and record.holder and record.holder != self._me.identity and self._trouble is None:
            return (
                f"{pods} are bound by another server of Corral: {record}. This one takes over when that has ended. "
                "For both to bind pods give this one another name: kubernetes: scheduler_name in its settings"
            )
        return f"{pods} are not bound now: {self._trouble or 'this server ends'}"

    def begin(self) -> None:
        """Check the lease once now, and then at intervals on a thread of its own."""
        self.look()
        self._patrol.start()

    def close(self) -> None:
        """Release the lease once the requests under it have ended, so that the next server need not wait for its
        end.
        """
        self._patrol.close()
        with self._changed:
            had, self._closing = self.held, True
            ended = self._changed.wait_for(lambda: not self._acting, timeout=SURE_S)
        if not (had and ended and self._record is not None):
            return
        try:
            self._patch(released(self._record))
        except CorralError as error:
            log.warning("%s is not released, and runs out by itself: %s", self._name, error)

    def look(self) -> None:
        """Run one round: renew the lease, or take it if it is free."""
        try:
            for _ in range(TRIES):
                if self._tried():
                    break
            self._trouble = None
        except MissingRight as error:
            self._trouble = f"{error}; docs/kubernetes.md has the rights that a server needs"
        except CorralError as error:
            self._trouble = f"{self._name} cannot be renewed: {error}"
        self._tell()

    @property
    def _name(self) -> str:
        return f"the lease {OWN_NAMESPACE}/{lease_name(self.scheduler)}"

    def _tried(self) -> bool:
        """Return whether this round is done, or False if another server was faster."""
        if self._closing:
            return True
        asked_s, record = self._now_s(), self._read()
        try:
            if record is None:
                self._hold(self._make(), asked_s)
                return True
            match next_step(record, self._me, self._now_s() - self._unchanged_since_s):
                case LeaseStep.RENEW:
                    self._hold(self._patch(renewed(record, _api_time())), asked_s)
                case LeaseStep.TAKE:
                    self._hold(self._patch(taken(record, self.scheduler, self._me, _api_time())), asked_s)
                case LeaseStep.WAIT:
                    self._sure_until_s = 0.0
        except (AlreadyExists, ObjectChanged):
            return False
        return True

    def _read(self) -> LeaseRecord | None:
        try:
            record = read_lease(self._cluster.get(LEASES, lease_name(self.scheduler), OWN_NAMESPACE, timeout_s=CALL_S))
        except NoSuchObject:
            return None
        if self._record is None or record.seen != self._record.seen:
            self._unchanged_since_s = self._now_s()
        self._record = record
        return record

    def _hold(self, record: LeaseRecord, asked_s: float) -> None:
        self._record, self._unchanged_since_s = record, self._now_s()
        self._sure_until_s = asked_s + SURE_S

    def _patch(self, body: dict[str, object]) -> LeaseRecord:
        name = lease_name(self.scheduler)
        return read_lease(self._cluster.patch(LEASES, name, body, OWN_NAMESPACE, timeout_s=CALL_S))

    def _make(self) -> LeaseRecord:
        body = made(self.scheduler, self._me, _api_time())
        try:
            return read_lease(self._cluster.create(LEASES, body, OWN_NAMESPACE, timeout_s=CALL_S))
        except NoSuchObject:
            self._make_namespace()
            return read_lease(self._cluster.create(LEASES, body, OWN_NAMESPACE, timeout_s=CALL_S))

    def _make_namespace(self) -> None:
        try:
            self._cluster.create(NAMESPACES, {"metadata": {"name": OWN_NAMESPACE}}, timeout_s=CALL_S)
        except AlreadyExists:
            return
        except MissingRight:
            raise NodeLacks(
                f"there is no namespace {OWN_NAMESPACE}, where servers say which of them binds pods, and this one may "
                f"not make it: kubectl create namespace {OWN_NAMESPACE}"
            ) from None

    def _tell(self) -> None:
        """Log a new reason why this server does not bind, or that it binds again."""
        said = self.why_not
        if said == self._said:
            return
        if said is None:
            log.info("this server binds pods with schedulerName %s", self.scheduler)
        else:
            log.warning("%s", said)
        self._said = said


def candidate(tag: str, home: Path) -> LeaseCandidate:
    """Return this process as a candidate. It alone serves the home now. Raises OSError if the home cannot be read."""
    host, found = socket.gethostname(), home.stat()
    return LeaseCandidate(
        identity=f"{host}_{tag}_{secrets.token_hex(8)}",
        tag=tag,
        home=f"{boot_id()}:{found.st_dev}:{found.st_ino}",
        where=f"{_user()}@{host}:{home}",
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())


def _api_time() -> str:
    """Return the present time as a MicroTime of the API."""
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
