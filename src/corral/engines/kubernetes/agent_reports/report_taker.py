"""Takes the reports of agents: each speaks for the node of the pod that shows the token, and for no other."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace

from corral.clock import CLOCKS_AGREE_S, Clock
from corral.core.model.errors import CorralError, Refused
from corral.core.model.printable import printable
from corral.engines.kubernetes.agent_reports.agent_pods import AgentPod
from corral.engines.kubernetes.agent_reports.process_pods import PodOf, name_pods
from corral.engines.kubernetes.agent_reports.report_box import NodeReport, ReportBox
from corral.engines.kubernetes.agent_reports.report_reading import KnownNode, by_server_clock, read_report
from corral.engines.kubernetes.agent_reports.token_reviews import TokenHolder, TokenRefused, TokenReviews
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.cluster.watch_state import Change

log = logging.getLogger(__name__)

_LONGEST_WORDS = 500


class ReportTaker:
    """Puts reports into the box. Safe from any thread.

    `agent_pods` are the pods that may report, `pod_of` finds the pods of processes. `silent_after_s` is the time
    without a report after which a node with an agent is silent.
    """

    def __init__(
        self,
        box: ReportBox,
        reviews: TokenReviews,
        agent_pods: Cache[AgentPod],
        pod_of: PodOf,
        clock: Clock,
        *,
        silent_after_s: float,
    ) -> None:
        self._box = box
        self._reviews = reviews
        self._agent_pods = agent_pods
        self._pod_of = pod_of
        self._clock = clock
        self._silent_after_s = silent_after_s
        self._lock = threading.Lock()
        self._ahead_s: dict[str, float] = {}
        self._refused: dict[str, str] = {}
        self._nodes: dict[str, KnownNode] = {}

    def known_sender(self, token: str) -> AgentPod | None:
        """Return the agent's pod that shows this token; None if the API server must be asked. Raises TokenRefused."""
        holder = self._reviews.known(token)
        return None if holder is None else self._pod_of_holder(holder)

    def accepted_before(self, token: str) -> bool:
        """Return whether the API server has accepted the token once: it is none that a stranger made up."""
        return self._reviews.accepted_before(token)

    def sender(self, token: str) -> AgentPod:
        """Return the agent's pod that shows this token. Raises TokenRefused, and the errors of the cluster's client."""
        return self._pod_of_holder(self._reviews.holder(token))

    def _pod_of_holder(self, holder: TokenHolder) -> AgentPod:
        pod = self._agent_pods.get(holder.pod, holder.namespace)
        # A token outlives its pod for some seconds at the API server, and a pod of the same name is another pod.
        if pod is None or pod.uid != holder.pod_uid:
            raise TokenRefused(
                f"pod {printable(holder.namespace)}/{printable(holder.pod)}, to which the token is bound, is not on a "
                "node, or has ended"
            )
        return pod

    def take(self, pod: AgentPod, body: bytes, *, packed: bool) -> None:
        """Take the report of an agent's pod. Raises Refused, whose reason is then also told for the node."""
        heard_at = self._clock.now()
        try:
            report, self._nodes[pod.node] = read_report(body, self._nodes.get(pod.node), packed=packed)
            ahead_s = self._difference_s(pod.node, heard_at - report.sent_at)
            report = by_server_clock(report, pod.node, heard_at=heard_at, ahead_s=ahead_s)
            samples, pods = name_pods(report.samples, pod.node, self._pod_of)
            report = replace(report, samples=samples)
            self._box.put(NodeReport(pod.node, pod.key, report, heard_at, self._silent_after_s, pods))
        except Refused as refused:
            self._note(pod, refused)
            raise
        if self._refused:
            with self._lock:
                self._refused.pop(pod.node, None)

    def refusal(self, node: str) -> str | None:
        """Return why the last report of a node's agent was refused; None if it was taken, or none came."""
        with self._lock:
            return self._refused.get(node)

    def nodes_changed(self, changes: Sequence[Change[NodeFacts]]) -> None:
        """Forget the nodes that have left the cluster."""
        for old, new in changes:
            if old is not None and new is None:
                self._box.drop(old.name)
                with self._lock:
                    self._ahead_s.pop(old.name, None)
                    self._refused.pop(old.name, None)
                self._nodes.pop(old.name, None)

    def _note(self, pod: AgentPod, refused: CorralError) -> None:
        why = printable(str(refused))[:_LONGEST_WORDS]
        with self._lock:
            before, self._refused[pod.node] = self._refused.get(pod.node), why
        if before is None:
            log.warning("the report of the agent on node %s is refused: %s", pod.node, why)

    def _difference_s(self, node: str, difference_s: float) -> float:
        """Return by how much the server's clock is ahead of the node's.

        A known difference is kept until it has changed noticeably, so that times of the same event stay equal.
        """
        with self._lock:
            known_s = self._ahead_s.get(node, 0.0)
            if abs(difference_s - known_s) < CLOCKS_AGREE_S:
                return known_s
            self._ahead_s[node] = difference_s
        return difference_s
