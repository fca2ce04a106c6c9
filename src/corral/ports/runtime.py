"""What runs work on a host."""

from typing import Protocol

from corral.model.launch import Launch, LaunchReport, Lineage


class Runtime(Protocol):
    """Runs work. Every call is idempotent by launch id and safe from any thread."""

    def launch(self, launch: Launch) -> None:
        """Start the work, or raise BackendFailed; the outcome comes through `report`."""
        ...

    def stop(self, launch_id: str) -> None:
        """Ask the work to end: the gentle signal, the grace, then every process of it is killed.

        To be asked again while it has not ended.
        """
        ...

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Hold work that has not ended to this limit, counted from its start, and no longer to the one it came with.

        Where it has run longer it ends now, timed out. Nothing where there is no such launch, or it is being stopped.
        """
        ...

    def report(self, launch_id: str) -> LaunchReport:
        """What is known of the launch now."""
        ...

    def declare_lost(self, launch_id: str, *, ran: bool = False) -> bool:
        """Take the launch's claim so that it can never run. False when a supervisor had it first.

        Also False where that is known although the record is gone: to the caller, who then says `ran`, or from other
        traces. What is left of the work is then ended, and the report becomes DEAD.
        """
        ...

    def launches(self) -> tuple[str, ...]:
        """Launch ids of every launch that the runtime still has on record."""
        ...

    def forget(self, launch_id: str) -> None:
        """Drop the record of a launch whose end is in the ledger."""
        ...

    def pids(self, launch_id: str) -> frozenset[int]:
        """Process ids of the work now."""
        ...

    def main_pids(self, launch_id: str) -> frozenset[int]:
        """The main process of the work, and of a gang's script also the shell that it runs; none once it has ended."""
        ...

    def lineage(self, launch_id: str) -> Lineage:
        """By what the processes of the work are known; asked for every look at the devices, so it must be quick."""
        ...

    def close(self) -> None:
        """Let go; the work runs on."""
        ...
