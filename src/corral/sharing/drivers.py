"""The drivers of all means of sharing, with a site's settings. A new means is a module and a line here."""

from pathlib import Path

from corral.config import Settings
from corral.model.means import Means
from corral.sharing.driver import SharingDriver
from corral.sharing.exclusive import Exclusive, process_mode_missing
from corral.sharing.mig import Mig
from corral.sharing.mps import Mps
from corral.sharing.mps_daemon import multi_user_missing
from corral.sharing.timeslice import Timeslice


def make_mps(home: Path, settings: Settings) -> Mps:
    """MPS with its daemons under `home`."""
    multi_user = settings.mps_multi_user and multi_user_missing(settings.mps_control) is None
    return Mps(home, control=settings.mps_control, multi_user=multi_user)


def mps_warning(settings: Settings) -> str | None:
    """Why MPS devices serve one user at a time although the site allows several; None where they serve several."""
    if not settings.mps_multi_user or all(means is not Means.MPS for _, means in settings.sharing):
        return None
    missing = multi_user_missing(settings.mps_control)
    return None if missing is None else f"mps_multi_user: {missing}; one user at a time is served on an MPS device"


def process_mode_warning(settings: Settings, *, described: bool, by_root: bool) -> str | None:
    """Why whole devices are allocated without the process mode that the site asks for; None where it is set."""
    if not settings.exclusive_process_mode:
        return None
    missing = process_mode_missing(described=described, by_root=by_root)
    if missing is None:
        return None
    return (
        f"exclusive_process_mode: {missing}; devices are allocated whole without it, to one job and all its processes"
    )


def make_drivers(settings: Settings, mps: Mps, *, described: bool, by_root: bool) -> dict[Means, SharingDriver]:
    """A driver for each means. The process mode is left out where `process_mode_warning` says it cannot be set."""
    warned = process_mode_warning(settings, described=described, by_root=by_root) is not None
    process_mode = settings.exclusive_process_mode and not warned
    return {
        Means.EXCLUSIVE: Exclusive(process_mode=process_mode),
        Means.TIMESLICE: Timeslice(),
        Means.MIG: Mig(),
        Means.MPS: mps,
    }
