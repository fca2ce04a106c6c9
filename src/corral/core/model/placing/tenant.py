"""A job on one device, which it may share with others."""

from dataclasses import dataclass

from corral.core.model.placing.allocation import Grant


@dataclass(frozen=True, slots=True)
class Tenant:
    """A job's part of one device. `alone` is False if the job's share is split over further devices.

    `cores_percent` is the compute that the job asked for, None if it follows the share.
    """

    job_id: str
    user: str
    grant: Grant
    cores_percent: int | None = None
    alone: bool = True
