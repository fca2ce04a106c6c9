"""Cutting devices into MIG slices and giving slices up: a plan that is shown, carried out where the site allows it."""

from corral.access.caller import Caller
from corral.access.permissions import must_be_admin
from corral.control.node_registry import Nodes
from corral.control.querying.queries import Queries
from corral.model.answers.devices import SlicePlan
from corral.model.device import Device
from corral.model.errors import NotFound, Refused
from corral.ports.ledger import Ledger
from corral.ports.node import NodeAgent
from corral.sharing.mig_plan import (
    MigInstance,
    MigPlan,
    carry_out,
    parse_instances,
    parse_offers,
    plan_create,
    plan_destroy,
)

MAX_SLICES = 100


class MigChanges:
    """For administrators. `allowed` says that plans may be carried out here; they may always be seen."""

    def __init__(self, ledger: Ledger, nodes: Nodes, queries: Queries, *, allowed: bool) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._queries = queries
        self._allowed = allowed

    def cut(self, device: str, profile: str, count: int, caller: Caller, *, apply: bool) -> SlicePlan:
        """Cut `count` more slices of a profile from a device (by UUID or index): the plan, and whether it was done.

        Raises Refused when the device has no room for them, Forbidden, and BackendFailed when nvidia-smi fails.
        """
        must_be_admin(caller, "cutting slices")
        if not 1 <= count <= MAX_SLICES:
            raise Refused(f"count: {count} is no number of slices; from 1 to {MAX_SLICES} is", field="count")
        agent, found = self._device(device)
        offers = parse_offers(agent.nvidia_smi(("mig", "-lgip", "-i", found.uuid))) if found.mig_enabled else ()
        return self._row(agent, plan_create(found, profile, count, offers), apply=apply)

    def give_up(self, device: str, caller: Caller, *, apply: bool) -> SlicePlan:
        """Give up every slice of a device, of which no job may have one: the plan, and whether it was done."""
        must_be_admin(caller, "giving slices up")
        agent, found = self._device(device)
        holders = self._ledger.view().holders
        taken = [part.uuid for part in found.partitions if part.uuid in holders]
        instances: tuple[MigInstance, ...] = ()
        if found.mig_enabled:
            instances = parse_instances(agent.nvidia_smi(("mig", "-lgi", "-i", found.uuid)))
        if not instances:
            raise Refused(f"--mig: {found.uuid} has no slices to give up", field="device")
        # Which instance has which UUID is not told, so that one slice in use keeps them all.
        busy = [instance.instance_id for instance in instances] if taken else []
        return self._row(agent, plan_destroy(found, instances, busy), apply=apply)

    def _device(self, named: str) -> tuple[NodeAgent, Device]:
        """The physical device that is named, or that has the slice that is, and the agent of its node."""
        uuid = self._queries.uuid_of(named)
        for node in self._ledger.view().nodes.values():
            for device in node.devices:
                if device.uuid == uuid:
                    whole = (one for one in node.devices if one.uuid == device.parent_uuid)
                    return self._nodes.agent(node.name), next(whole, device)
        raise NotFound(f"there is no device {named} any more", field="device")

    def _row(self, agent: NodeAgent, plan: MigPlan, *, apply: bool) -> SlicePlan:
        if apply:
            carry_out(plan, allowed=self._allowed, run=agent.nvidia_smi)
        purpose, *commands = plan.lines()
        return SlicePlan(plan.device_uuid, purpose, tuple(commands), applied=apply)
