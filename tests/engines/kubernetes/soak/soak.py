"""A seeded soak of the Kubernetes engine: `python -m tests.engines.kubernetes.soak PODS [SEED]`.

A real server, used by the installed command, speaks to a real API server through the proxy that injects faults. Pods
of others and jobs come while pods are deleted, nodes vanish and lose devices, another scheduler binds the same pods,
the server is killed and the API server restarted. Beside the proxy a record is kept of what the API server says
itself; the claims are about that.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from corral.client import Client
from corral.core.model.home import Home
from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.errors import NoSuchObject, ObjectChanged
from corral.engines.kubernetes.cluster.resource import NAMESPACES, NODES, PODS, SERVICES
from corral.engines.kubernetes.pods.runtime import LATE_REQUEST_S, LOG_PATIENCE_S
from corral.pid_file import read_pid
from tests.engines.kubernetes.control_plane import Processes
from tests.engines.kubernetes.engine.site import Site
from tests.engines.kubernetes.fault_proxy import BAD_DAY, FaultProxy
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node
from tests.engines.kubernetes.soak import claims
from tests.engines.kubernetes.soak.deeds import LARGE, Deed, Kind, deeds_of
from tests.engines.kubernetes.soak.kubelets import Kubelets
from tests.engines.kubernetes.soak.record import Record, SeenPod, counted
from tests.soak.claims import Claim, of_journal

NAMESPACE = "soak"
NODE_COUNT, NODE_GPUS = 12, 8
THEIRS = "node-of-others"
"""Another scheduler binds to this one, on which Corral starts nothing: else two could meet on the same devices."""

SETTINGS = "kill_grace: 1s\n"
GANG_GRACE_S = 30.0
"""So long a gang may be bound in part, besides the time that a server was away. A member that has not begun is taken
back after 10 s, which is looked at each 5 s, and what is deleted has its grace."""

NAMES_KEPT_S = LATE_REQUEST_S + 30.0
"""So long the name of a start that came to nothing is kept from use, unless the server is killed meanwhile."""

IMAGE = ("--image", "repo/train:1")


class Soak:
    """One run, with a control plane that has started; `claims` are what was looked at."""

    def __init__(
        self, directory: Path, processes: Processes, pods: int, seed: int, *, patience_s: float, to_the_last: bool
    ) -> None:
        """`to_the_last` waits in the end until names that are kept from use are free again, some minutes."""
        self.claims: list[Claim] = []
        self.did: Counter[str] = Counter()
        self._deeds = deeds_of(seed, pods)
        self._chance = random.Random(seed)
        self._patience_s = patience_s
        self._to_the_last = to_the_last
        self._server_began_s = time.monotonic()
        self._processes = processes
        self._plane = processes.plane
        self._admin = self._plane.connect(directory)
        self._admin.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        self._proxy = FaultProxy(self._plane, replace(BAD_DAY, hang_s=2.0), seed)
        self._kubelets = Kubelets(self._admin, directory, seed)
        self._record = Record()
        kubeconfig = self._plane.kubeconfig(directory / "kubeconfig", url=self._proxy.url, namespace=NAMESPACE)
        self._site = Site(directory / "home", kubeconfig, NAMESPACE, self._admin, prefix="node-")
        self._made = 0
        self._vanished: list[str] = []
        self._torn_gangs: set[str] = set()
        self._crashes: list[str] = []
        self._took: dict[str, float] = {}

    def run(self) -> None:
        """All of it; what it has started is gone afterwards, whatever happens."""
        try:
            self._begin()
            began_s = time.monotonic()
            for deed in self._deeds:
                self._do(deed)
                if deed.kind in LARGE:
                    print(f"{time.monotonic() - began_s:.0f} s: {deed.kind}, {self._made} pods so far", flush=True)
                self._record.look_at_halves()
            self._took["until all was done"] = time.monotonic() - began_s
            self._wind_down()
            self._took["until all had ended"] = time.monotonic() - began_s
            self._look()
        finally:
            self._end()

    def summary(self) -> Iterator[str]:
        """What was done, what went wrong on purpose, and what holds."""
        yield ", ".join(f"{count} times {what}" for what, count in sorted(self.did.items()))
        yield "proxy: " + ", ".join(f"{count} {what}" for what, count in sorted(self._proxy.counts.items()))
        yield counted(self._record.pods)
        yield ", ".join(f"{seconds:.0f} s {what}" for what, seconds in self._took.items())
        for claim in self.claims:
            yield f"{'holds' if claim.holds else 'FAILS'}  {claim.name}: {claim.said}"

    def _begin(self) -> None:
        self._proxy.start()
        for number in range(NODE_COUNT):
            self._kubelets.make_node(f"node-{number}", NODE_GPUS)
        make_node(self._admin, THEIRS, gpus=900)
        self._admin.patch(NODES, THEIRS, {"spec": {"unschedulable": True}})
        self._kubelets.start()
        self._record.start(self._plane)
        self._site.home.mkdir()
        (self._site.home / "config.yaml").write_text(SETTINGS)
        self._site.up()

    def _end(self) -> None:
        self._site.corral("down", status=None)
        self._record.stop()
        self._kubelets.close()
        self._admin.close()
        self._proxy.stop()

    # What is done

    def _do(self, deed: Deed) -> None:
        acts: dict[Kind, Callable[[Deed], None]] = {
            Kind.PODS: self._make_pods,
            Kind.GANG: self._make_gang,
            Kind.ARRAY: self._submit_array,
            Kind.SUBMITTED_GANG: self._submit_gang,
            Kind.DELETE: self._delete,
            Kind.STEAL: self._steal,
            Kind.SHRINK: self._shrink,
            Kind.GROW: self._grow,
            Kind.KILL_SERVER: self._kill_server,
            Kind.RESTART_API_SERVER: self._restart_api_server,
            Kind.VANISH: self._vanish,
            Kind.COME_BACK: self._come_back,
        }
        acts[deed.kind](deed)
        self.did[deed.kind] += 1
        time.sleep(deed.pause_s)

    def _make_pods(self, deed: Deed) -> None:
        for _ in range(deed.number):
            self._make(deed.gpus)

    def _make_gang(self, deed: Deed) -> None:
        marks = {"corral.dev/gang": f"gang-{self._made}", "corral.dev/gang-size": str(deed.number)}
        for _ in range(deed.number):
            self._make(deed.gpus, marks)

    def _make(self, gpus: int, marks: dict[str, str] | None = None) -> str:
        name = f"pod-{self._made}"
        self._made += 1
        made = pod(name, NAMESPACE, gpus=gpus, schedulerName="corral", terminationGracePeriodSeconds=1)
        made["metadata"]["annotations"] = marks or {}
        self._admin.create(PODS, made, NAMESPACE)
        return name

    def _submit_array(self, deed: Deed) -> None:
        self._site.corral("submit", *IMAGE, "--gpus", str(deed.gpus), "--array", f"0-{deed.number - 1}", "--", "true")

    def _submit_gang(self, deed: Deed) -> None:
        self._site.corral("submit", *IMAGE, "--gpus", str(deed.gpus), "--gang", str(deed.number), "--", "true")

    def _delete(self, deed: Deed) -> None:
        there = sorted((one for one in self._record.living() if not one.deleting), key=lambda one: one.name)
        if there:
            chosen = there[deed.number % len(there)]
            self._delete_pod(chosen)
            if chosen.gang and not chosen.ours:
                self._torn_gangs.add(chosen.gang)

    def _delete_pod(self, chosen: SeenPod) -> None:
        with suppress(ObjectChanged):
            self._admin.delete(PODS, chosen.name, chosen.namespace, uid=chosen.uid, grace_s=1)

    def _delete_what_waits_in_vain(self) -> None:
        """A gang that lost a pod before it was whole waits for another pod, until its owner gives it up."""
        for one in self._record.living():
            if one.gang in self._torn_gangs and not one.node and not one.deleting:
                self._delete_pod(one)

    def _steal(self, deed: Deed) -> None:
        """Sometimes the one scheduler is faster, sometimes the other."""
        name = self._make(1)
        time.sleep(deed.number / 1000.0)
        found = self._admin.get(PODS, name, NAMESPACE)
        with suppress(ObjectChanged, NoSuchObject):
            self._admin.bind(name, NAMESPACE, found["metadata"]["uid"], THEIRS)

    def _shrink(self, deed: Deed) -> None:
        self._set_allocatable(deed, NODE_GPUS - 1 - deed.number % 4)

    def _grow(self, deed: Deed) -> None:
        self._set_allocatable(deed, NODE_GPUS)

    def _set_allocatable(self, deed: Deed, gpus: int) -> None:
        status = {"allocatable": {"nvidia.com/gpu": str(gpus)}}
        with suppress(NoSuchObject):
            self._admin.patch(NODES, f"node-{deed.number % NODE_COUNT}", {"status": status}, subresource="status")

    def _kill_server(self, _: Deed) -> None:
        began_s = time.monotonic()
        pid = read_pid(self._site.home / "corral.pid")
        if pid is None or not Path(f"/proc/{pid}").exists():
            self._crashes.append(self._last_words())
        else:
            os.kill(pid, signal.SIGKILL)
            while Path(f"/proc/{pid}").exists():
                time.sleep(0.02)
        self._site.up()
        self._server_began_s = time.monotonic()
        self._record.was_away(self._server_began_s - began_s)

    def _last_words(self) -> str:
        return (self._site.home / "server.log").read_text()[-3000:]

    def _restart_api_server(self, _: Deed) -> None:
        began_s = time.monotonic()
        self._processes.kill_api_server()
        self._processes.start_api_server()
        self._record.was_away(time.monotonic() - began_s)

    def _vanish(self, deed: Deed) -> None:
        name = f"node-{deed.number % NODE_COUNT}"
        if name not in self._vanished:
            self._vanished.append(name)
            self._kubelets.vanish(name)

    def _come_back(self, _: Deed) -> None:
        if self._vanished:
            name = self._vanished.pop(0)
            self._kubelets.make_node(name, NODE_GPUS)
            self._kubelets.come_back(name)

    # What is left, and what holds

    def _wind_down(self) -> None:
        for number in range(NODE_COUNT):
            self._come_back(Deed(Kind.COME_BACK, 0, 0, 0.0))
            self._grow(Deed(Kind.GROW, number, 0, 0.0))
        self._delete_what_waits_in_vain()
        deadline = time.monotonic() + self._patience_s
        while time.monotonic() < deadline and (self._record.living() or self._waiting()):
            self._record.look_at_halves()
            time.sleep(0.5)

    def _waiting(self) -> list[str]:
        """The jobs of the server that have not ended."""
        with Client(self._site.home) as client:
            return [f"job {row.id} {row.phase} {row.name}" for row in client.jobs.list(limit=None)]

    def _look(self) -> None:
        left = [f"{one.namespace}/{one.name} on {one.node or 'no node'}" for one in self._record.living()]
        self._add("everything has ended", [*left, *self._waiting()], f"{self._made} pods of others were made")
        # Where its log cannot be read, on a bad day, a pod stays until that is given up.
        own = self._still_there(lambda one: not one.tombstone, for_s=LOG_PATIENCE_S + 30.0)
        self._add("no pod of Corral's is left behind", own, "none but those that only keep a name from use")
        if self._to_the_last:
            kept = self._still_there(lambda one: one.came_s > self._server_began_s, for_s=NAMES_KEPT_S)
            self._add("no name is kept from use for long", kept, "none but those from before a kill of the server")
        self._add("no service is left behind", self._services_left(LOG_PATIENCE_S), "none")
        overfull = self._record.overfull
        self._add("no device was held twice when a pod was bound", overfull, f"{self._record.bindings} bindings")
        refused = f"{len(self._kubelets.refused)} were, since a node had just lost devices"
        self._add("no kubelet refused a pod", self._refused_without_reason(), refused)
        longest_s, gang = self._record.longest_half
        half = [f"{gang}: {longest_s:.1f} s"] if longest_s > GANG_GRACE_S else []
        self._add("no gang was bound in part for long", half, f"{longest_s:.1f} s at most")
        crashes = [*self._crashes, *self._tracebacks()]
        self._site.corral("down", status=None)
        self._add("the server never failed by itself", crashes, "it did not")
        home = Home(self._site.home)
        self.claims += of_journal(home)
        self.claims += claims.of_cluster(home, self._record.pods)

    def _services_left(self, for_s: float) -> list[str]:
        """The services of gangs that are there longer than it takes to remove one after its first pod."""
        deadline = time.monotonic() + for_s
        while True:
            # That of a gang whose first pod was never made goes with what keeps the name of that pod.
            kept = self._still_there(lambda one: one.tombstone, for_s=0.0)
            services = [one["metadata"]["name"] for one in self._admin.list(SERVICES, Selection(NAMESPACE))]
            left = [name for name in services if f"{name}-0" not in kept]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.2)

    def _still_there(self, meant: Callable[[SeenPod], bool], *, for_s: float) -> list[str]:
        """Those of Corral's pods that are there longer than it takes to remove them."""
        deadline = time.monotonic() + for_s
        while left := [one.name for one in self._record.ours() if not one.gone and meant(one)]:
            if time.monotonic() > deadline:
                return left
            time.sleep(0.2)
        return []

    def _refused_without_reason(self) -> list[str]:
        """Where a node has just lost devices, its kubelet may refuse what was bound before that was known."""
        fits = self._record.fitted
        return [str(one) for one in self._kubelets.refused if not fits(one.node, one.taken, one.at_s)]

    def _tracebacks(self) -> list[str]:
        lines = (self._site.home / "server.log").read_text().splitlines()
        return [line for line in lines if line.startswith("Traceback") or " CRITICAL " in line]

    def _add(self, name: str, wrong: list[str], otherwise: str) -> None:
        self.claims.append(Claim(name, not wrong, "\n    ".join(wrong[:12]) or otherwise))
