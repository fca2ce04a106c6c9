"""Makes devices ready for their tenants, and releases them after the last tenant."""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial

from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import BackendFailed, CorralError
from corral.core.model.runs.launch import DeviceUse, Launch
from corral.core.model.units import MW_PER_W
from corral.host.node.power_limits import PowerLimits
from corral.vendors.sharing_driver import SharingDriver

log = logging.getLogger(__name__)

Then = Callable[[CorralError | None], None]
"""Called once all devices of a launch are ready, or with the failure."""

DriverOf = Callable[[Device, int], SharingDriver]
"""Returns the driver that shares a device with a job of this many milli-GPU."""


class DeviceSetup:
    """Prepares devices through the drivers of their means. Safe from any thread.

    Drivers that run a vendor's programs work on threads of their own, in order for each device. So a device that is
    being released is made ready for its next tenant afterwards.
    """

    def __init__(self, driver_of: DriverOf, inventory: Callable[[], Node | None], power: PowerLimits) -> None:
        self._driver_of = driver_of
        self._power = power
        self._inventory = inventory
        self._queues = WorkerQueues("devices")
        self._lock = threading.Lock()
        self._tenants: dict[str, dict[str, DeviceUse]] = {}
        """The uses of devices by launch id, then by device UUID."""
        self._limited: dict[str, int] = {}
        """The power limits in mW of launches that set one, by launch id."""

    def close(self) -> None:
        """End the threads; devices stay as they are."""
        self._queues.close()
        self._power.close()

    def enter(self, launch: Launch, then: Then) -> None:
        """Make the devices of a launch ready, then call `then`. Without a slow driver or a power limit it is called
        before this method returns.

        `then` gets a failure if a device is gone, or if its driver does not accept the launch.
        """
        failure: CorralError | None = self._refusal(launch.uses)
        if failure is None:
            with self._lock:
                self._admit(launch)
        limit_mw = _power_limit_mw(launch)
        slow = [use for use in launch.uses if self._is_slow(use.device, self._driver(use), limit_mw)]
        for use in launch.uses:
            if failure is None and use not in slow:
                failure = _failure_of(partial(self._driver(use).prepare, use.device))
        if failure is not None or not slow:
            then(failure)
            return
        countdown = _Countdown(len(slow), then)
        for use in slow:
            self._queues.put(use.device.uuid, partial(self._prepare, use, limit_mw, countdown))

    def _admit(self, launch: Launch) -> None:
        self._tenants[launch.id] = {use.device.uuid: use for use in launch.uses}
        if (limit_mw := _power_limit_mw(launch)) is not None:
            self._limited[launch.id] = limit_mw

    def _is_slow(self, device: Device, driver: SharingDriver, limit_mw: int | None) -> bool:
        return driver.slow or limit_mw is not None or self._power.before_mw(device.uuid) is not None

    def _refusal(self, uses: Sequence[DeviceUse]) -> BackendFailed | None:
        node = self._inventory()
        known = {} if node is None else {device.uuid for device in node.devices}
        for use in uses:
            if node is None or use.device.uuid not in known:
                return BackendFailed(f"{use.device.uuid} is gone; the job will be placed on another device")
            refused = self._driver(use).refusal(node, use.whole or use.device, use.tenants, use.newcomer)
            if refused is not None:
                return BackendFailed(f"{refused}; another device is looked for")
        return None

    def _prepare(self, use: DeviceUse, limit_mw: int | None, countdown: "_Countdown") -> None:
        failure = _failure_of(partial(self._driver(use).prepare, use.device))
        countdown.done(failure or _failure_of(partial(self._set_power, use.device, limit_mw)))

    def _set_power(self, device: Device, limit_mw: int | None) -> None:
        # The limit of an earlier job stays if the driver did not answer at its end. No other job runs with it.
        self._power.restore(device.uuid)
        if limit_mw is not None:
            self._power.set(device, limit_mw)

    def environment(self, launch: Launch) -> dict[str, str]:
        """Return the variables that the means of sharing add for a launch. Raises Refused if a limit cannot be
        expressed.
        """
        variables: dict[str, str] = {}
        for use in launch.uses:
            variables.update(self._driver(use).environment(use.device, use.newcomer))
        return variables

    def leave(self, launch_id: str) -> None:
        """Record that a launch is over, and release its devices that have no other tenant."""
        with self._lock:
            uses, limit_mw = self._tenants.pop(launch_id, {}), self._limited.pop(launch_id, None)
            in_use = self._in_use()
            for uuid, use in uses.items():
                if uuid not in in_use:
                    self._release(use.device, self._driver(use), limit_mw)

    def restore(self, launches: Collection[Launch]) -> None:
        """Take over the devices that a former agent prepared for these launches, and release devices without
        tenants.
        """
        with self._lock:
            before = {uuid: use for uses in self._tenants.values() for uuid, use in uses.items()}
            self._tenants, self._limited = {}, {}
            for launch in launches:
                self._admit(launch)
            in_use = self._in_use()
            for uuid, use in before.items():
                if uuid not in in_use:
                    self._release(use.device, self._driver(use))
            node = self._inventory()
            for device in () if node is None else node.devices:
                if device.uuid not in in_use and device.uuid not in before and device.means is Means.MPS:
                    self._release(device, self._driver_of(device, 0))
            for uuid in self._power.changed:
                if uuid not in in_use and uuid not in before:
                    self._queues.put(uuid, partial(self._power.restore, uuid))

    def clients(self, means: Means) -> dict[str, tuple[Device, tuple[str, ...]]]:
        """Return the devices that launches share by `means`, each with the ids of these launches, by device UUID."""
        found: dict[str, tuple[Device, tuple[str, ...]]] = {}
        with self._lock:
            for launch_id, uses in self._tenants.items():
                for uuid, use in uses.items():
                    if use.device.held_by(use.newcomer.grant.share_milli) is means:
                        found[uuid] = use.device, (*found.get(uuid, (None, ()))[1], launch_id)
        return found

    def allocated_milli(self) -> dict[str, int]:
        """Return the milli-GPU that launches have of each device, by UUID."""
        allocated: dict[str, int] = {}
        with self._lock:
            for uses in self._tenants.values():
                for uuid, use in uses.items():
                    allocated[uuid] = allocated.get(uuid, 0) + use.newcomer.grant.share_milli
        return allocated

    def _in_use(self) -> set[str]:
        return {uuid for uses in self._tenants.values() for uuid in uses}

    def _driver(self, use: DeviceUse) -> SharingDriver:
        return self._driver_of(use.device, use.newcomer.grant.share_milli)

    def _release(self, device: Device, driver: SharingDriver, limit_mw: int | None = None) -> None:
        release = partial(_log_failure_of, partial(driver.release, device))
        if not self._is_slow(device, driver, limit_mw):
            release()
            return
        self._queues.put(device.uuid, release)
        self._queues.put(device.uuid, partial(self._power.restore, device.uuid))


class _Countdown:
    """Counts the devices of a launch that are not ready yet. The last one calls `then`, with the first failure if there
    was one.
    """

    def __init__(self, count: int, then: Then) -> None:
        self._left = count
        self._then = then
        self._failure: CorralError | None = None
        self._lock = threading.Lock()

    def done(self, failure: CorralError | None) -> None:
        with self._lock:
            self._left -= 1
            self._failure = self._failure or failure
            last = self._left == 0
        if last:
            self._then(self._failure)


def _failure_of(step: Callable[[], None]) -> CorralError | None:
    try:
        step()
    except CorralError as error:
        return error
    return None


def _log_failure_of(step: Callable[[], None]) -> None:
    failure = _failure_of(step)
    if failure is not None:
        log.warning("%s", failure)


def _power_limit_mw(launch: Launch) -> int | None:
    """The power limit that the job of a launch asks for; None if it asks for none."""
    limit_w = launch.job.spec.request.power_limit_w
    return None if limit_w is None else limit_w * MW_PER_W


WORKERS = 8
"""The most steps that run at once, each on a thread that starts when it is first needed."""

_CLOSE_S = 5.0

_Step = Callable[[], None]


class WorkerQueues:
    """Runs steps on threads. Steps with the same key, such as a device's UUID, never run at the same time."""

    def __init__(self, name: str) -> None:
        """`name` is the first part of the threads' names."""
        self._name = name
        self._waiting: dict[str, deque[_Step]] = {}
        self._ready: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._closing = False

    def put(self, key: str, step: _Step) -> None:
        """Run a step after earlier steps with the same key. A CorralError of the step is logged."""
        with self._lock:
            begins = key not in self._waiting
            self._waiting.setdefault(key, deque()).append(step)
            if begins:
                self._ready.put(key)
                if len(self._threads) < WORKERS:
                    self._add_worker()

    def close(self) -> None:
        """Begin no more steps, and wait some seconds for running steps. The next agent finds the remaining work."""
        self._closing = True
        deadline = time.monotonic() + _CLOSE_S
        for _ in self._threads:
            self._ready.put(None)
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))

    def _add_worker(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (key := self._ready.get()) is not None and not self._closing:
            with self._lock:
                step = self._waiting[key][0]
            try:
                step()
            except CorralError as error:
                log.warning("%s", error)
            with self._lock:
                self._waiting[key].popleft()
                if self._waiting[key]:
                    self._ready.put(key)
                else:
                    del self._waiting[key]
