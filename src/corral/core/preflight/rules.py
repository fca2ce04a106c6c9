"""The preflight check: every rule looks at a workload and a place, and yields its findings."""

from functools import lru_cache

from corral.core.ports.preflight import Effect, Finding, Place, Workload
from corral.core.preflight.memory_rules import memory_fit, memory_fraction
from corral.core.preflight.placement_rules import device_count, head_division, paddle_allocator
from corral.core.preflight.precision_rules import framework_against_device, precision_against_device
from corral.vendors.registry import vendor_named
from corral.vendors.vendor import Rule

RULES: tuple[Rule, ...] = (
    framework_against_device,
    precision_against_device,
    memory_fit,
    memory_fraction,
    device_count,
    head_division,
)
"""The rules for devices of any vendor."""


@lru_cache(maxsize=256)
def check(work: Workload, place: Place, *, strict: bool = False) -> tuple[Finding, ...]:
    """All findings, blocking ones first, each group in the order of the rules.

    With `strict`, a runtime newer than the driver's version blocks, even if the vendor calls the two compatible.
    """
    vendor = vendor_named(place.vendor)
    rules = (*vendor.driver_rules(strict), *RULES, *vendor.sharing_rules(), paddle_allocator)
    found = [finding for rule in rules for finding in rule(work, place)]
    return tuple(sorted(found, key=lambda finding: finding.effect is not Effect.BLOCK))


def blocking(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that refuse the job."""
    return tuple(finding for finding in findings if finding.effect is Effect.BLOCK)
