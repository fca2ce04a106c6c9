"""The watch over errors on devices that a job has made, or that end a job: the job ends FAILED with that reason."""

import logging
from collections.abc import Iterator, Mapping

from corral.core.control.watching.memory_guard import Stopper
from corral.core.lifecycle.device_faults import blamed, error_reason
from corral.core.model.devices.device import DeviceSample
from corral.core.model.devices.health import HealthSign, Verdict
from corral.core.model.fact import ServerPart
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.ports.telemetry import Samples

log = logging.getLogger(__name__)

_Error = tuple[str, HealthSign]


class JobErrors:
    """Looks at the errors of the newest samples, and at each error once. For one thread."""

    def __init__(self, ledger: Ledger, telemetry: Samples, stopper: Stopper) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._stopper = stopper
        self._seen: frozenset[_Error] = frozenset()

    def look(self) -> None:
        """Run one round."""
        samples = self._telemetry.latest()
        errors = dict.fromkeys(_errors_of_jobs(samples))
        view = self._ledger.view() if errors else View()
        for uuid, sign in errors:
            if (uuid, sign) in self._seen:
                continue
            job = _who(view, uuid, sign)
            if job is None:
                log.info("GPU %s: %s; which job it concerns is not known", uuid, sign.detail)
            else:
                reason = error_reason(view, uuid, sign)
                log.warning("job %s: %s", job.id, reason)
                self._stopper.end(job.id, Phase.FAILED, reason, ServerPart.HEALTH_WATCH)
        self._seen = frozenset(errors)


def _errors_of_jobs(samples: Mapping[str, DeviceSample]) -> Iterator[_Error]:
    for uuid, sample in samples.items():
        for sign in sample.signs:
            # What quarantines a device is a fault of the site: its jobs move.
            of_job = sign.ends_job and sign.verdict is not Verdict.QUARANTINE
            if not sign.lasts and (of_job or sign.verdict is Verdict.BLAMES_JOB):
                yield uuid, sign


def _who(view: View, uuid: str, sign: HealthSign) -> Job | None:
    """Return the job that the error concerns; None if that is not known, or if the job came after the error."""
    job = blamed(view, uuid, sign.job_id)
    allocation = None if job is None else view.allocations.get(job.allocation_id or "")
    return job if allocation is not None and allocation.created_at <= sign.at else None
