"""Work with the agent of one host that takes long, such as an upgrade: one piece at a time, on a thread of its own."""

import logging
import threading
from collections.abc import Callable

from corral.core.model.errors import Conflict, CorralError
from corral.engines.hosts.installing.installer import Step

log = logging.getLogger(__name__)


class HostWork:
    """The work with one host.

    Attributes:
        step: the work in progress and its present step, for a person; None if there is none.
        failure: why the last piece of work failed; None if it did not, or if another way has led there since.
    """

    def __init__(self, name: str) -> None:
        self.step: str | None = None
        self.failure: str | None = None
        self._name = name
        self._lock = threading.Lock()

    def begin(self, what: str, work: Callable[[Step], object]) -> None:
        """Begin a piece of work, which tells its steps. Raises Conflict while another is in progress."""
        with self._lock:
            if self.step is not None:
                raise Conflict(f"{self._name}: {self.step}; try again when that is done")
            self.step, self.failure = what, None
        threading.Thread(target=self._carry_out, args=(what, work), name=f"work-{self._name}", daemon=True).start()

    def done_otherwise(self) -> None:
        """Forget the failure: what was to be done was done in another way, or is tried in another way."""
        self.failure = None

    def _carry_out(self, what: str, work: Callable[[Step], object]) -> None:
        def tell(step: str) -> None:
            self.step = f"{what}: {step}"

        try:
            work(tell)
        except CorralError as error:
            self.failure = f"{what}: {error}"
            log.warning("host %s: %s", self._name, self.failure)
        finally:
            self.step = None
