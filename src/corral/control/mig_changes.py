"""Cutting devices into MIG slices and giving slices up: a plan that is shown, carried out where the site allows it."""

from collections.abc import Sequence

from corral.access.caller import Caller, must_be_admin
from corral.control.querying.queries import Queries
from corral.model.device import Device
from corral.model.errors import Refused
from corral.model.rows import SlicePlan
from corral.ports.ledger import Ledger
from corral.sharing.mig_plan import (
    MigPlan,
    carry_out,
    parse_instances,
    parse_offers,
    plan_create,
    plan_destroy,
)
from corral.sharing.nvidia_tools import run_tool

TOOL_TIMEOUT_S = 60.0


MAX_SLICES = 100


class MigChanges:
    """For administrators. `allowed` says that plans may be carried out here; they may always be seen."""

    def __init__(self, ledger: Ledger, queries: Queries, *, allowed: bool, nvidia_smi: str = "nvidia-smi") -> None:
        self._ledger = ledger
        self._queries = queries
        self._allowed = allowed
        self._nvidia_smi = nvidia_smi

    def cut(self, device: str, profile: str, count: int, caller: Caller, *, apply: bool) -> SlicePlan:
        """Cut `count` more slices of a profile from a device (by UUID or index): the plan, and whether it was done.

        Raises Refused when the device has no room for them, Forbidden, and BackendFailed when nvidia-smi fails.
        """
        must_be_admin(caller, "cutting slices")
        if not 1 <= count <= MAX_SLICES:
            raise Refused(f"count: {count} is no number of slices; from 1 to {MAX_SLICES} is", field="count")
        found = self._device(device)
        offers = parse_offers(self._ask("-lgip", found)) if found.mig_enabled else ()
        return self._row(plan_create(found, profile, count, offers), apply=apply)

    def give_up(self, device: str, caller: Caller, *, apply: bool) -> SlicePlan:
        """Give up every slice of a device, of which no job may have one: the plan, and whether it was done."""
        must_be_admin(caller, "giving slices up")
        found = self._device(device)
        holders = self._ledger.view().holders
        held = [part.uuid for part in found.partitions if part.uuid in holders]
        instances = parse_instances(self._ask("-lgi", found)) if found.mig_enabled else ()
        if not instances:
            raise Refused(f"--mig: {found.uuid} has no slices to give up", field="device")
        # Which instance has which UUID is not told, so that one slice in use keeps them all.
        busy = [instance.instance_id for instance in instances] if held else []
        return self._row(plan_destroy(found, instances, busy), apply=apply)

    def _device(self, device: str) -> Device:
        uuid = self._queries.uuid_of(device)
        known: Sequence[Device] = [one for node in self._ledger.view().nodes.values() for one in node.devices]
        found = next(one for one in known if one.uuid == uuid)
        return next((one for one in known if one.uuid == found.parent_uuid), found)

    def _ask(self, question: str, device: Device) -> str:
        return run_tool([self._nvidia_smi, "mig", question, "-i", device.uuid], timeout_s=TOOL_TIMEOUT_S)

    def _row(self, plan: MigPlan, *, apply: bool) -> SlicePlan:
        if apply:
            carry_out(plan, allowed=self._allowed, nvidia_smi=self._nvidia_smi)
        purpose, *commands = plan.lines()
        return SlicePlan(plan.device_uuid, purpose, tuple(commands), applied=apply)
