"""The vendor of a request's devices: no program that was built for one vendor's GPUs lands on another's."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from corral.core.model.devices.device import FIRST_VENDOR, Device, Node
from corral.core.model.devices.device_model import model_matches
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import profile_matches
from corral.vendors.registry import vendors


def with_vendor(request: Request, resources: Collection[str], nodes: Iterable[Node], default: str | None) -> Request:
    """The request with the vendor that it is for, by the first of these that says so: its own word, what it asks for,
    the devices, models or slices that it names, the site's `default`, the one vendor that the site has, the first.

    `resources` are other systems' names by which it asks for devices.
    Raises Refused for a vendor that is not known, and for one that cannot serve what else is asked for.
    """
    if not request.devices:
        return request
    known = vendors()
    if request.vendor is not None and request.vendor not in known:
        hint = nearest(request.vendor, known)
        raise Refused(f"vendor: {request.vendor!r:.60} is not a known maker of GPUs; {hint}", field="vendor")
    asked = request.vendor
    for name, vendor in known.items():
        if vendor.means_it(request, resources):
            if asked not in (None, name):
                words = (
                    f"vendor: other options of this request need GPUs made by {name}, not by {asked}; remove "
                    "one of them"
                )
                raise Refused(words, field="vendor")
            asked = name
    devices = [device for node in nodes for device in node.devices]
    meant = asked or _of_named(request, devices) or default or _only({device.vendor for device in devices})
    return request if meant in (None, request.vendor or FIRST_VENDOR) else replace(request, vendor=meant)


def _of_named(request: Request, devices: Iterable[Device]) -> str | None:
    """The one maker of the devices that the request names, by UUID, model or profile; None where it names none."""
    if not (request.device_uuids or request.models or request.mig_profile):
        return None
    return _only({device.vendor for device in devices if _is_named(request, device)})


def _is_named(request: Request, device: Device) -> bool:
    profile = request.mig_profile
    return (
        (not request.device_uuids or device.uuid in request.device_uuids)
        and model_matches(request.models, device.model)
        and (profile is None or (device.mig_profile is not None and profile_matches(profile, device.mig_profile)))
    )


def _only(names: Collection[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None
