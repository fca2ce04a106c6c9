"""The means of sharing as a site has set them. A further means is a file of its own and a line here."""

from collections.abc import Mapping
from pathlib import Path

from corral.config import Settings
from corral.model.means import Means
from corral.sharing.driver import SharingDriver
from corral.sharing.exclusive import Exclusive
from corral.sharing.mig import Mig
from corral.sharing.mps import Mps
from corral.sharing.timeslice import Timeslice


def make_mps(home: Path, settings: Settings, mark: Mapping[str, str]) -> Mps:
    """MPS with its daemons under `home`, their processes carrying the variables `mark`."""
    return Mps(home, control=settings.mps_control, multi_user=settings.mps_multi_user, mark=mark)


def make_drivers(settings: Settings, mps: Mps) -> dict[Means, SharingDriver]:
    """A driver for each means."""
    return {
        Means.EXCLUSIVE: Exclusive(process_mode=settings.exclusive_process_mode),
        Means.TIMESLICE: Timeslice(),
        Means.MIG: Mig(),
        Means.MPS: mps,
    }
