"""Reads the calls of a kube-scheduler to its extender, and writes the answers. Pure.

The outer keys are capitalised, and are taken in any case. Whole Node objects are many megabytes: each is read by
itself, so that no call holds the interpreter for long, and an answer has the text that came.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from corral.core.model.errors import Refused
from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.cluster.objects import mapping, sequence, text

MOST_NODES = 20_000
MOST_NAME = 253

_DECODER = json.JSONDecoder()
_BLANK = " \t\n\r"


@dataclass(frozen=True, slots=True)
class NodesCall:
    """A call of `filter` or `prioritize`.

    Attributes:
        pod: the Pod object.
        names: the nodes, in the order of the call.
        nodes: the text of each Node object, if the call has such objects; None if it names nodes only.
    """

    pod: Mapping[str, Any]
    names: tuple[str, ...]
    nodes: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class BindCall:
    """A call of `bind`: which pod, and where."""

    pod: PodRef
    node: str


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods whose eviction from a node is considered: their UIDs, and their objects if the call has them.

    `violations` is the number of disruption budgets that this would break.
    """

    uids: tuple[str, ...]
    pods: Mapping[str, Mapping[str, Any]]
    violations: int


@dataclass(frozen=True, slots=True)
class PreemptCall:
    """A call of `preempt`: for which pod, and the victims by node."""

    pod: Mapping[str, Any]
    victims: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class Filtered:
    """The answer of `filter`: nodes that the pod may have, and why it may not have the others.

    Evicting pods from a node in `failed` may help, from one in `unresolvable` it cannot.
    """

    names: Sequence[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


def read_nodes_call(body: bytes) -> NodesCall:
    """Read a call of `filter` or `prioritize`. Raises Refused."""
    outer = _outer(body, ("pod", "nodes", "nodenames"))
    pod = _object(outer.get("pod"), "Pod")
    nodes: Mapping[str, str] | None = outer.get("nodes")
    names = outer.get("nodenames")
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Refused("NodeNames: it is no list of names", field="NodeNames")
        found = tuple(names)
        nodes = None
    else:
        found = tuple(nodes or ())
    if len(found) > MOST_NODES:
        raise Refused(f"the call has {len(found)} nodes, and at most {MOST_NODES} are read", field="NodeNames")
    return NodesCall(pod, found, nodes)


def read_bind_call(body: bytes) -> BindCall:
    """Read a call of `bind`. Raises Refused."""
    outer = _outer(body, ("podname", "podnamespace", "poduid", "node"))
    name, namespace, uid, node = (
        _name(outer.get(key.lower()), key) for key in ("PodName", "PodNamespace", "PodUID", "Node")
    )
    return BindCall(PodRef(namespace, name, uid), node)


def read_preempt_call(body: bytes) -> PreemptCall:
    """Read a call of `preempt`, in either form. Raises Refused."""
    outer = _outer(body, ("pod", "nodenametovictims", "nodenametometavictims"))
    whole, meta = outer.get("nodenametovictims"), outer.get("nodenametometavictims")
    victims = whole or meta
    found = {_name(node, "a node"): _victims(given) for node, given in _object(victims or {}, "victims").items()}
    if len(found) > MOST_NODES:
        raise Refused(f"the call has {len(found)} nodes, and at most {MOST_NODES} are read")
    return PreemptCall(_object(outer.get("pod"), "Pod"), found)


def filtered(call: NodesCall, answer: Filtered) -> bytes:
    """Write the answer of `filter`, in the form in which the call had the nodes.

    Nodes where eviction cannot help are in both maps: kube-scheduler before 1.21 reads the first alone, and later ones
    prefer the second.
    """
    names, nodes = "null", "null"
    if call.nodes is None:
        names = json.dumps(list(answer.names))
    else:
        nodes = f'{{"metadata":{{}},"items":[{",".join(call.nodes[name] for name in answer.names)}]}}'
    return (
        f'{{"Nodes":{nodes},"NodeNames":{names},"FailedNodes":{json.dumps({**answer.failed, **answer.unresolvable})},'
        f'"FailedAndUnresolvableNodes":{json.dumps(answer.unresolvable)},"Error":""}}'
    ).encode()


def prioritized(scores: Iterable[tuple[str, int]]) -> bytes:
    """Write the answer of `prioritize`."""
    return json.dumps([{"Host": name, "Score": score} for name, score in scores]).encode()


def bound(error: str = "") -> bytes:
    """Write the answer of `bind`."""
    return json.dumps({"Error": error}).encode()


def preempted(victims: Mapping[str, Victims]) -> bytes:
    """Write the answer of `preempt`: the nodes that remain, with the UIDs of their victims."""
    told = {
        node: {"Pods": [{"UID": uid} for uid in one.uids], "NumPDBViolations": one.violations}
        for node, one in victims.items()
    }
    return json.dumps({"NodeNameToMetaVictims": told}).encode()


def _victims(written: Any) -> Victims:
    given = {str(key).lower(): value for key, value in mapping(written).items()}
    pods: dict[str, Mapping[str, Any]] = {}
    uids: list[str] = []
    for pod in sequence(given.get("pods")):
        uid = mapping(pod.get("metadata")).get("uid")
        if uid is None:
            uid = next((value for key, value in pod.items() if str(key).lower() == "uid"), None)
        else:
            pods[str(uid)] = pod
        uids.append(_name(uid, "UID"))
    violations = given.get("numpdbviolations")
    return Victims(tuple(uids), pods, violations if isinstance(violations, int) else 0)


def _object(found: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise Refused(f"{name}: the call has no such object", field=name)
    return found


def _name(found: Any, field: str) -> str:
    name = text(found)
    if not name or len(name) > MOST_NAME or not name.isprintable():
        raise Refused(f"{field}: {found!r:.80} is no name", field=field)
    return name


def _outer(body: bytes, wanted: Sequence[str]) -> dict[str, Any]:
    """Return the wanted keys of the outermost object, in lower case. `nodes` are the texts of Node objects by name."""
    try:
        reader = _Reader(body.decode())
        found = {}
        for key in reader.members():
            found[key.lower()] = reader.nodes() if key.lower() == "nodes" else reader.value()
        reader.end()
    except (ValueError, RecursionError) as error:
        raise Refused(f"the call is no JSON object as kube-scheduler sends it: {error!s:.200}") from None
    return {key: value for key, value in found.items() if key in wanted}


class _Reader:
    """Reads JSON value by value. Raises ValueError."""

    def __init__(self, source: str) -> None:
        self._text = source
        self._at = 0

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that comes next. The value must be read after each."""
        self._expect("{")
        if self._next() == "}":
            self._at += 1
            return
        while True:
            if self._next() != '"':
                self._fail("the quote of a key")
            key = self.value()
            self._expect(":")
            yield key
            if self._next() == "}":
                self._at += 1
                return
            self._expect(",")

    def value(self) -> Any:
        """Read the value that comes next."""
        self._next()
        found, self._at = _DECODER.raw_decode(self._text, self._at)
        return found

    def nodes(self) -> dict[str, str] | None:
        """Read a list of Node objects: the text of each, by its name."""
        found: dict[str, str] = {}
        if self._next() != "{":
            self.value()
            return None
        for key in self.members():
            if key.lower() == "items" and self._next() == "[":
                self._items(found)
            else:
                self.value()
        return found

    def end(self) -> None:
        """Raise ValueError if anything follows."""
        if self._next():
            self._fail("its end")

    def _items(self, found: dict[str, str]) -> None:
        self._expect("[")
        if self._next() == "]":
            self._at += 1
            return
        while True:
            self._next()
            begin = self._at
            name = mapping(mapping(self.value()).get("metadata")).get("name")
            found[_name(name, "Node")] = self._text[begin : self._at]
            if self._next() == "]":
                self._at += 1
                return
            self._expect(",")

    def _next(self) -> str:
        """Skip blanks. Return the next character, "" at the end."""
        source, at = self._text, self._at
        while source[at : at + 1] and source[at] in _BLANK:
            at += 1
        self._at = at
        return source[at : at + 1]

    def _expect(self, character: str) -> None:
        if self._next() != character:
            self._fail(repr(character))
        self._at += 1

    def _fail(self, wanted: str) -> NoReturn:
        raise ValueError(f"character {self._at} is not {wanted}")
