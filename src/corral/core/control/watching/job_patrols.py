"""The patrols of a server that decide about jobs. A patrol that breaks ends the server."""

from corral.clock import Clock
from corral.config import Settings
from corral.core.control.core import ControlCore
from corral.core.control.nodes.gone_and_returned_nodes import RETRY_S
from corral.core.control.watching.absent_clients import AbsentClients
from corral.core.control.watching.draining import DrainWatch
from corral.core.control.watching.idle_gpus import IdleWatch
from corral.core.control.watching.memory_guard import MemoryGuard
from corral.core.control.watching.patrol import Patrol
from corral.core.ports.ledger import Ledger
from corral.core.ports.telemetry import Samples
from corral.core.scheduling.evicting.idle_reclaim import IdlePolicy
from corral.core.sharing.memory_overuse import GuardPolicy

IDLE_INTERVAL_S = 5.0
"""The interval of checks for idle GPUs: short enough to see a GPU that works only at times."""

ABSENCE_INTERVAL_S = 5.0
"""The interval of checks for clients that send input to jobs."""

DRAIN_INTERVAL_S = 1.0
"""The interval of checks for the deadlines of drained nodes."""


def job_patrols(
    core: ControlCore, ledger: Ledger, telemetry: Samples, clock: Clock, settings: Settings
) -> tuple[Patrol, ...]:
    """Return the patrols of these settings, not started."""
    tell, stopper, stop = core.notes.tell, core.stopper, core.dispatcher.stop
    policy = GuardPolicy(settings.guard_grace_s, settings.guard_reserve_mib)
    guard = MemoryGuard(ledger, telemetry, clock, policy=policy, tell=tell, stopper=stopper)
    absent_clients = AbsentClients(ledger, clock, core.service.interaction, stop)
    patrols = [
        # Twice as often as samples are taken, so that each is judged soon.
        Patrol("memory-guard", guard.look, settings.sample_interval_s / 2),
        Patrol("node-return", core.recovery.try_again, RETRY_S),
        Patrol("node-drain", DrainWatch(ledger, clock, stop).look, DRAIN_INTERVAL_S),
        Patrol("absent-clients", absent_clients.look, ABSENCE_INTERVAL_S),
    ]
    if settings.reclaim_idle_after_s is not None:
        idle = IdlePolicy(settings.reclaim_idle_after_s, settings.reclaim_idle_grace_s)
        watch = IdleWatch(ledger, telemetry, clock, policy=idle, tell=tell, stopper=stopper)
        patrols.append(Patrol("idle-watch", watch.look, IDLE_INTERVAL_S))
    return tuple(patrols)
