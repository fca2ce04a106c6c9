"""Will this workload run in this place? Every rule looks at both and yields its findings."""

from collections.abc import Callable, Iterator
from functools import lru_cache

from corral.preflight.driver_rules import driver_against_runtime, runtime_against_device, virtual_layer
from corral.preflight.memory_rules import memory_fit, memory_fraction
from corral.preflight.placement_rules import device_count, head_division, mig_rules, mps_rules, paddle_allocator
from corral.preflight.precision_rules import framework_against_device, precision_against_device
from corral.preflight.subject import Effect, Finding, Place, Workload

Rule = Callable[[Workload, Place], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    virtual_layer,
    runtime_against_device,
    framework_against_device,
    precision_against_device,
    memory_fit,
    memory_fraction,
    device_count,
    head_division,
    mps_rules,
    mig_rules,
    paddle_allocator,
)


@lru_cache(maxsize=256)
def check(work: Workload, place: Place, *, strict: bool = False) -> tuple[Finding, ...]:
    """All findings, blocking ones first, each group in the order of the rules.

    `strict` blocks a runtime newer than the driver's CUDA version even where minor-version compatibility allows it.
    """
    found = [*driver_against_runtime(work, place, strict=strict)]
    for rule in RULES:
        found += rule(work, place)
    return tuple(sorted(found, key=lambda finding: finding.effect is not Effect.BLOCK))


def blocking(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that refuse the job."""
    return tuple(finding for finding in findings if finding.effect is Effect.BLOCK)
