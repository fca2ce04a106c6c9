"""The state of a launch, after comparing its records with the living processes.

If the server is not root's, a job may have written the records itself.
"""

import os
from collections.abc import Callable
from pathlib import Path

from corral.host.runtimes.process.cgroups.job_cgroups import JobCgroups
from corral.host.runtimes.process.ending.killing import Left, kill_with_supervisor, orphans
from corral.host.runtimes.process.procfs import LocalProcess, boot_id
from corral.host.runtimes.process.records import claimed_list
from corral.host.runtimes.process.records.claim import Claim, torn
from corral.host.runtimes.process.records.evidence import is_another, supervisors
from corral.host.runtimes.process.records.launch_records import CLAIMED_LIST, LaunchRecords
from corral.host.runtimes.process.records.launch_spec import LAUNCH_ID, LaunchError

MARK_NAME = "CORRAL_LAUNCH"


class LaunchVerifier:
    """Finds the supervisor of a launch, and the processes that belong to it. Safe from any thread. Raises OSError if
    the disk fails.

    `tag` distinguishes the launches of this home from others. `watches` returns whether the supervisor that was forked
    for a launch is known to live.
    """

    def __init__(self, home: Path, tag: str, cgroups: JobCgroups, watches: Callable[[str], bool]) -> None:
        self._launches = str(home / "launches")
        self._claimed_list_file = str(home / CLAIMED_LIST)
        self._tag = tag
        self._cgroups = cgroups
        self._watches = watches
        self._trusted: dict[str, Claim] = {}
        self._claimants: dict[str, LocalProcess] = {}

    def records(self, launch_id: str) -> LaunchRecords:
        """Return the files of the launch. Raises LaunchError for an invalid id."""
        if not LAUNCH_ID.fullmatch(launch_id):
            raise LaunchError(f"{launch_id!r} is not an launch id")
        return LaunchRecords(f"{self._launches}/{launch_id}")

    def list_launches(self) -> list[str]:
        """Return the ids of all launches that were not forgotten, sorted."""
        return sorted(name for name in os.listdir(self._launches) if LAUNCH_ID.fullmatch(name))

    def claim(self, launch_id: str) -> Claim | None:
        """Return the claim record. It is `torn` if it names a process of another launch, or says that a launch never
        ran although it did.
        """
        claim = self.records(launch_id).claim.read()
        return None if claim is None else self._verified(launch_id, claim)

    def supervised_claim(self, launch_id: str) -> tuple[Claim | None, bool]:
        """Return the claim, and whether a living supervisor has the launch.

        The process in the claim is not verified if the supervisor is known anyway.
        """
        claim = self.records(launch_id).claim.read()
        if claim is None or claim.holder is None:
            return None if claim is None else self._verified(launch_id, claim), False
        if self._watches(launch_id):
            return claim, True
        if not claim.holder.is_alive():
            # A dead process does not show to which launch it belonged.
            return claim, False
        claim = self._verified(launch_id, claim)
        return claim, claim.holder is not None

    def _verified(self, launch_id: str, claim: Claim) -> Claim:
        if claim.ran or self._trusted.get(launch_id) == claim:
            return claim
        if claim.holder is not None and is_another(claim.holder, self._launches, launch_id):
            return self._refuted(launch_id, f"names process {claim.holder.pid}, which is not its supervisor")
        if claim.declared_lost and self.has_run(launch_id):
            return self._refuted(launch_id, "says that it never ran, and it did")
        self._trusted[launch_id] = claim
        return claim

    def _refuted(self, launch_id: str, why: str) -> Claim:
        return torn(f"its record {self._launches}/{launch_id}/claim {why}")

    def trust(self, launch_id: str, claim: Claim) -> None:
        """Trust this claim from now on, because this server has made it itself."""
        self._trusted[launch_id] = claim

    def forget(self, launch_id: str) -> None:
        """Forget the claim of a launch that is over and whose record is removed."""
        self._trusted.pop(launch_id, None)
        self._claimants.pop(launch_id, None)

    def has_run(self, launch_id: str) -> bool:
        """Return whether a supervisor is known to have had this launch, although its claim is missing or differs."""
        return launch_id in claimed_list.names(self._claimed_list_file) or bool(self.orphan_pids(launch_id))

    def supervisor(self, launch_id: str) -> LocalProcess | None:
        """Return the process that claimed the launch in this boot, alive or not. It is read from disk until it is
        known.
        """
        known = self._claimants.get(launch_id)
        if known is None:
            claim = self.claim(launch_id)
            if claim is None or claim.holder is None or claim.holder.boot_id != boot_id():
                return None
            known = self._claimants[launch_id] = claim.holder
        return known

    def kill_supervisors(self, launch_id: str) -> bool:
        """Kill every supervisor of the launch, whatever its claim says, and their jobs. Return False if there
        is none.
        """
        found = supervisors(self._launches).get(launch_id, [])
        for supervisor in found:
            kill_with_supervisor(supervisor)
        return bool(found)

    def orphan_pids(self, launch_id: str) -> list[int]:
        """Return the processes of a job whose supervisor is gone."""
        return [process.pid for process in orphans(self.processes_left(launch_id))]

    def mark(self, launch_id: str) -> str:
        """Return the environment entry (NAME=value) that marks the launch's processes."""
        return f"{MARK_NAME}={self._tag}/{launch_id}"

    def processes_left(self, launch_id: str) -> Left:
        """Return the marks of the launch's processes once its supervisor is gone."""
        mark, group, uid = self.mark(launch_id), self._cgroups.path(launch_id), os.geteuid()

        def others() -> frozenset[LocalProcess]:
            return self._living_supervisors() - {self.supervisor(launch_id)}

        try:
            orders = self.records(launch_id).read_orders()
        except (OSError, ValueError):
            # The job cannot have removed the record of a server that runs as another user. Processes that suggest so
            # are not the job's.
            return Left(mark, group, uid, others)
        # Use the recorded cgroup: the server that launched it may have had another place for cgroups.
        # The recorded cgroup must still be this launch's: its processes are killed, and the job may have written the
        # record.
        if self._cgroups.is_path_of(orders.cgroup, launch_id):
            group = orders.cgroup
        # Only root's server runs jobs of other users, and only root writes its records.
        return Left(mark, group, uid or max(orders.uid, 0), others)

    def _living_supervisors(self) -> frozenset[LocalProcess]:
        known = (self.supervisor(launch_id) for launch_id in self.list_launches())
        return frozenset(process for process in known if process is not None and process.is_alive())
