"""The list of vendors: Corral's own, then those that a site's packages register."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from corral.core.model.devices.device import Device
from corral.core.model.errors import Refused
from corral.vendors import registry
from corral.vendors.amd import AMD
from corral.vendors.nvidia import NVIDIA
from corral.vendors.registry import vendor_of, vendors, vendors_of

HERE = "tests.vendors.test_registry"

MOORE = replace(AMD, name="moore", title="Moore")
SECOND_AMD = replace(AMD)

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Has entry points of these values, and no vendors known from before."""

    def installed(*values: str) -> None:
        points = [EntryPoint(f"entry-{number}", value, registry.GROUP) for number, value in enumerate(values)]
        monkeypatch.setattr(registry, "entry_points", lambda group: [one for one in points if one.group == group])
        vendors.cache_clear()

    yield installed
    vendors.cache_clear()


def test_those_of_a_sites_packages_come_after_corrals_own(install: Install) -> None:
    install(f"{HERE}:MOORE")
    assert list(vendors().values()) == [*registry._OWN, MOORE]
    device = Device("M-1", 0, "Moore S4000", 49152, vendor="moore")
    assert vendor_of(device) is MOORE
    assert vendors_of([device, Device("G-1", 1, "NVIDIA A100", 81920), device]) == (MOORE, NVIDIA)


def test_one_that_is_not_there_any_more_is_taken_for_the_first(install: Install) -> None:
    install()
    assert vendor_of(Device("M-1", 0, "Moore S4000", 49152, vendor="moore")) is NVIDIA


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("tests.nowhere:VENDOR", "cannot be loaded"),
        (f"{HERE}:HERE", "is no corral.vendors.vendor.Vendor"),
        (f"{HERE}:SECOND_AMD", "has the name of another, amd"),
    ],
)
def test_one_that_cannot_be_used_is_refused(install: Install, value: str, words: str) -> None:
    install(value)
    with pytest.raises(Refused, match=words):
        vendors()
