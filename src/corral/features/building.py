"""Builds the features of a server: the doors to the core that they get, and the parts that they give back."""

import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.api.offers import Offers
from corral.api.requests.auth import Sessions
from corral.clock import Clock
from corral.config import Settings
from corral.core.access.caller import Caller
from corral.core.control.metrics.request_counts import RequestCounts
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.watching.patrol import Patrol
from corral.core.ledger.database import Database
from corral.core.model.devices.device import DeviceSample
from corral.core.model.home import Home
from corral.core.model.jobs.submission import Submission
from corral.core.model.slice import LedgerSnapshot
from corral.core.ports.engine import JoinedHosts
from corral.core.ports.ledger import Ledger
from corral.core.ports.monitoring import JobMonitoring, PredictUse, UseOfJob
from corral.core.ports.telemetry import NodeTelemetry
from corral.core.scheduling.policy import Policy
from corral.features.feature import Feature

log = logging.getLogger("corral")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreDoors:
    """The parts of the core that a feature may use.

    Attributes:
        database: for the tables that features have of their own.
        policies: the policies of queues, by name.
        obstacles: the reasons that keep jobs from starting, by node.
        readings: the last sample of each device with readings.
        requests: counts the requests that were answered.
        failures: counts the rounds of patrols that failed, by patrol.
        loopback_url: where the server listens on loopback without encryption; None if it does not.
        serve: makes the running server answer on one more socket. It is called on the event loop.
        hosts: the hosts that are joined by SSH; None if none can be.
        of_engine: the parts of the server's engine that features need, by class. It has none of another engine.
    """

    home: Home
    settings: Settings
    clock: Clock
    ledger: Ledger
    database: Database
    nodes: Nodes
    telemetry: NodeTelemetry
    policies: Mapping[str, Policy]
    obstacles: Callable[[], Mapping[str, str]]
    readings: Callable[[], Mapping[str, DeviceSample]]
    requests: RequestCounts
    failures: Counter[str]
    loopback_url: str | None
    serve: Callable[[socket.socket], Awaitable[None]]
    hosts: JoinedHosts | None
    of_engine: Offers

    def patrol(self, name: str, look: Callable[[], None], interval_s: float) -> Patrol:
        """A thread that calls `look` at intervals. Jobs start and run without it."""
        return Patrol(name, look, interval_s, vital=False, failures=self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The parts of one feature in one server.

    Attributes:
        offers: objects that routes and other features find by their class.
        patrols: threads that the server starts and ends.
        ready: is called before the server decides anything. Raises Refused for settings that do not work.
        applied: is called with settings once they are in force.
        metrics: writes its metrics, from a snapshot and the present time.
        about: its fields of `ServerInfo`.
        notes: remarks about a new submission, for its user.
        monitoring: the figures of one run of a job. One feature has them.
        job_use: the GPU-hours of a job. One feature adds them up.
        predict_use: predicts the use of a job's GPUs. One feature does.
        sockets: bound sockets on which the server answers besides its own.
        sessions: tells which callers the cookies of browsers stand for.
        close: ends what it started.
    """

    offers: Sequence[object] = ()
    patrols: Sequence[Patrol] = ()
    ready: Callable[[], object] | None = None
    applied: Callable[[Settings], object] | None = None
    metrics: Callable[[LedgerSnapshot, float], Iterable[str]] | None = None
    about: Callable[[], Mapping[str, Any]] | None = None
    notes: Callable[[Submission, Caller], Sequence[str]] | None = None
    monitoring: JobMonitoring | None = None
    job_use: UseOfJob | None = None
    predict_use: PredictUse | None = None
    sockets: Sequence[socket.socket] = ()
    sessions: Sessions | None = None
    close: Callable[[], object] | None = None


class BuiltFeatures:
    """All features of one server.

    Attributes:
        offers: what all of them offer.
        patrols: the threads of all.
        sockets: the bound sockets of all.
        sessions: those of the feature that has some.
    """

    def __init__(self, features: Iterable[Feature], core: CoreDoors) -> None:
        self._built: dict[str, Built] = {}
        for feature in features:
            needed = Offers(offer for name in feature.needs for offer in self._built[name].offers)
            self._built[feature.name] = feature.build(core, needed)
        self.offers = Offers(offer for one in self._built.values() for offer in one.offers)
        self.patrols = tuple(patrol for one in self._built.values() for patrol in one.patrols)
        self.sockets = tuple(bound for one in self._built.values() for bound in one.sockets)
        self.sessions = next((one.sessions for one in self._built.values() if one.sessions is not None), None)

    @property
    def monitoring(self) -> JobMonitoring:
        """As `Built` has it."""
        return next(one.monitoring for one in self._built.values() if one.monitoring)

    @property
    def job_use(self) -> UseOfJob:
        """As `Built` has it."""
        return next(one.job_use for one in self._built.values() if one.job_use)

    @property
    def predict_use(self) -> PredictUse:
        """As `Built` has it."""
        return next(one.predict_use for one in self._built.values() if one.predict_use)

    def ready(self) -> None:
        """Let all get ready, before the server decides anything. Raises Refused."""
        for one in self._built.values():
            if one.ready is not None:
                one.ready()

    def applied(self, settings: Settings) -> None:
        """Hand out settings that are in force now."""
        for one in self._built.values():
            if one.applied is not None:
                one.applied(settings)

    def metrics(self, snapshot: LedgerSnapshot, now: float) -> Iterator[str]:
        """Write the metrics of all."""
        for one in self._built.values():
            if one.metrics is not None:
                yield from one.metrics(snapshot, now)

    def about(self) -> dict[str, Any]:
        """The fields of `ServerInfo` that features know."""
        return {key: value for one in self._built.values() if one.about for key, value in one.about().items()}

    def notes(self, submission: Submission, caller: Caller) -> tuple[str, ...]:
        """Remarks about a new submission, for its user."""
        return tuple(note for one in self._built.values() if one.notes for note in one.notes(submission, caller))

    def close(self) -> None:
        """End all. The ledger must be closed in order, even if a part that only records or reports fails."""
        for name, one in reversed(self._built.items()):
            try:
                if one.close is not None:
                    one.close()
            except Exception:
                log.exception("%s: its last round broke; what it had not written is lost", name)
