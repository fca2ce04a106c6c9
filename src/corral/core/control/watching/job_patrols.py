"""The patrols of a server that decide about jobs. A patrol that breaks ends the server."""

from corral.clock import Clock
from corral.config import GpuReset, Settings
from corral.core.control.core import ControlCore
from corral.core.control.nodes.gone_and_returned_nodes import RETRY_S
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.nodes.user_accounts import LOOK_INTERVAL_S as ACCOUNTS_INTERVAL_S
from corral.core.control.watching.absent_clients import AbsentClients
from corral.core.control.watching.checkpoint_rounds import CheckpointRounds
from corral.core.control.watching.device_tests import NodeDeviceTests, ProbationPlan
from corral.core.control.watching.draining import DrainWatch
from corral.core.control.watching.health_watch import HealthWatch
from corral.core.control.watching.idle_gpus import IdleWatch
from corral.core.control.watching.job_errors import JobErrors
from corral.core.control.watching.job_failures import JobFailures
from corral.core.control.watching.memory_guard import MemoryGuard
from corral.core.control.watching.patrol import Patrol
from corral.core.control.watching.sick_devices import SickDevices
from corral.core.lifecycle.device_faults import device_fell_sick
from corral.core.lifecycle.device_health import HealthPolicy
from corral.core.ports.ledger import Ledger
from corral.core.ports.telemetry import Samples
from corral.core.scheduling.evicting.idle_reclaim import IdlePolicy
from corral.core.sharing.memory_overuse import GuardPolicy

IDLE_INTERVAL_S = 5.0
"""The interval of checks for idle GPUs: short enough to see a GPU that works only at times."""

ABSENCE_INTERVAL_S = 5.0
"""The interval of checks for clients that send input to jobs."""

SICK_DEVICES_INTERVAL_S = 2.0
"""The interval of looks after the jobs of sick devices that do not move at once."""

DRAIN_INTERVAL_S = 1.0
"""The interval of checks for the deadlines of drained nodes."""

CHECKPOINT_INTERVAL_S = 1.0
"""The interval of checks for jobs whose next checkpoint is due."""


def job_patrols(
    core: ControlCore, ledger: Ledger, nodes: Nodes, telemetry: Samples, clock: Clock, *, settings: Settings
) -> tuple[Patrol, ...]:
    """Return the patrols of these settings, not started."""
    tell, stopper, stop = core.notes.tell, core.stopper, core.dispatcher.stop
    policy = GuardPolicy(settings.guard_grace_s, settings.guard_reserve_mib)
    guard = MemoryGuard(ledger, telemetry, clock, policy=policy, tell=tell, stopper=stopper)
    absent_clients = AbsentClients(ledger, clock, core.service.interaction, stop)
    watch_plan = HealthPolicy(settings.probation_watch_s, settings.probation_watch_max_s)
    tests = NodeDeviceTests(nodes, _test_plan(settings))
    failures = JobFailures(ledger, telemetry, clock)
    ledger.subscribe(failures.on_change)
    health = HealthWatch(ledger, failures, clock, policy=watch_plan, tests=tests, stop=stop, fell_sick=device_fell_sick)
    patrols = [
        # Twice as often as samples are taken, so that each is judged soon.
        Patrol("memory-guard", guard.look, settings.sample_interval_s / 2),
        Patrol("health-watch", health.look, settings.sample_interval_s / 2),
        Patrol("job-errors", JobErrors(ledger, telemetry, stopper).look, settings.sample_interval_s / 2),
        Patrol("node-return", core.recovery.try_again, RETRY_S),
        Patrol("user-accounts", core.accounts.look, ACCOUNTS_INTERVAL_S),
        Patrol("node-drain", DrainWatch(ledger, clock, stop).look, DRAIN_INTERVAL_S),
        Patrol("absent-clients", absent_clients.look, ABSENCE_INTERVAL_S),
        Patrol("sick-devices", SickDevices(ledger, clock, tell).look, SICK_DEVICES_INTERVAL_S),
    ]
    rounds = CheckpointRounds(ledger, core.dispatcher.attempts, core.nodes, clock)
    patrols.append(Patrol("checkpoint-rounds", rounds.look, CHECKPOINT_INTERVAL_S))
    idle = IdlePolicy(settings.reclaim_idle_after_s, settings.reclaim_idle_grace_s, settings.tell_idle_after_s)
    if idle.after_s is not None or idle.tell_after_s is not None:
        tested = settings.test_idle_gpus
        watch = IdleWatch(ledger, telemetry, clock, policy=idle, tell=tell, stopper=stopper, tests=tested)
        patrols.append(Patrol("idle-watch", watch.look, IDLE_INTERVAL_S))
    return tuple(patrols)


def _test_plan(settings: Settings) -> ProbationPlan:
    resets = settings.gpu_reset is GpuReset.WHEN_IDLE
    return ProbationPlan(settings.probation_timeout_s, settings.probation_command, resets)
