"""A ledger in memory, and pods as kube-scheduler sends them, for an extender without a server."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from corral.clock import ManualClock
from corral.core.access.caller import Caller
from corral.core.control.submitting import new_jobs
from corral.core.model.fact import Delta
from corral.core.model.jobs.job import JobSpec
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.engines.kubernetes.binding.pod_ask import read_ask
from corral.engines.kubernetes.binding.pod_submission import submission_of, user_of
from corral.engines.kubernetes.extender.extender import Extender
from corral.engines.kubernetes.extender.followed_planner import FollowedPlanner
from corral.engines.kubernetes.inventory.occupants import Occupant
from tests.core.scheduling.lab import T0
from tests.engines.kubernetes.manifests import pod


class Views:
    """What the extender needs of a ledger: the newest view, and each advance of it."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._listeners: list[Callable[[View, Sequence[Delta]], None]] = []

    def view(self) -> View:
        return self._view

    def subscribe(self, listener: Callable[[View, Sequence[Delta]], None]) -> None:
        self._listeners.append(listener)

    def advance(self, deltas: Sequence[Delta]) -> None:
        self._view = self._view.advance(deltas)
        for listener in self._listeners:
            listener(self._view, deltas)


class Pods:
    """Pods whose users have the names of their namespaces, and those that tests put on nodes."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self.occupants: dict[str, Occupant] = {}
        self.seen: list[PodRef] = []

    def spec(self, item: Mapping[str, Any]) -> tuple[PodRef, JobSpec]:
        ask = read_ask(item)
        caller = Caller(user_of(ask, {}))
        return ask.pod, new_jobs.spec_of(submission_of((ask,)), caller, self._views.view().limits, None)

    def occupant(self, uid: str) -> Occupant | None:
        return self.occupants.get(uid)

    def came(self) -> Iterator[PodRef]:
        seen, self.seen = self.seen, []
        return iter(seen)


class Lab:
    """An extender over a cluster, called with plain data."""

    def __init__(self, view: View) -> None:
        self.views = Views(view)
        self.pods = Pods(self.views)
        self.clock = ManualClock(T0)
        planner = FollowedPlanner(self.views, Planner)  # type: ignore[arg-type]
        self.extender = Extender(planner, self.pods, self.clock)

    def filter(self, item: Mapping[str, Any], names: Sequence[str] | None = None) -> dict[str, Any]:
        asked = sorted(self.views.view().nodes) if names is None else list(names)
        return json_of(self.extender.filter(body(item, asked)))

    def passed(self, item: Mapping[str, Any]) -> list[str]:
        names: list[str] = self.filter(item)["NodeNames"]
        return names

    def scores(self, item: Mapping[str, Any], names: Sequence[str]) -> dict[str, int]:
        answer: Any = json.loads(self.extender.prioritize(body(item, names)))
        return {one["Host"]: one["Score"] for one in answer}


def body(item: Mapping[str, Any], names: Sequence[str]) -> bytes:
    return json.dumps({"Pod": item, "Nodes": None, "NodeNames": list(names)}).encode()


def json_of(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer)
    return found


def asking(name: str, gpus: int = 1, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that waits for kube-scheduler."""
    made = pod(name, "team", gpus=gpus, schedulerName="default-scheduler", **spec)
    made["metadata"] |= {"uid": f"uid-{name}", "annotations": dict(annotations or {})}
    return made
