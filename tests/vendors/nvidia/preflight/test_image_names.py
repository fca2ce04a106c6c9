"""What an image says of CUDA is read as NVIDIA's container runtime reads it, and what is unknown may hold."""

import pytest

from corral.core.ports.preflight import Effect, Place, Workload
from corral.core.preflight.rules import check
from corral.vendors.nvidia.preflight.image_names import IMAGE, may_hold

CUDA_12_4 = (
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=535,driver<536 "
    "brand=nvidia,driver>=535,driver<536"
)
OLD = Place("Tesla V100", driver="450.80.02", cuda=(11, 0), compute=(7, 0))


@pytest.mark.parametrize(
    ("driver", "cuda", "holds"),
    [
        ("550.54.15", (12, 4), True),
        ("535.129.03", (12, 2), True),
        ("470.57.02", (11, 4), True),
        ("536.25", (12, 2), False),
        ("450.80.02", (11, 0), False),
        (None, None, True),
    ],
)
def test_one_alternative_must_hold_with_all_its_constraints(
    driver: str | None, cuda: tuple[int, int] | None, holds: bool
) -> None:
    assert may_hold(CUDA_12_4, Place(driver=driver, cuda=cuda)) is holds


def test_a_capability_is_a_constraint_and_what_is_no_constraint_may_hold() -> None:
    assert not may_hold("arch>=8.0", OLD)
    assert may_hold("arch>=7.0,cuda!=12.0", OLD)
    assert may_hold("moon=full", OLD)
    assert may_hold("  ", OLD)


def test_the_version_is_that_of_the_variable_else_that_of_the_label() -> None:
    assert IMAGE.read({"CUDA_VERSION": "12.4.1"}, {"com.nvidia.cuda.version": "11.8"}).runtime == (12, 4)
    assert IMAGE.read({"CUDA_VERSION": "nonsense"}, {"com.nvidia.cuda.version": "11.8.0"}).runtime == (11, 8)
    assert IMAGE.read({}, {}).runtime is None


def test_an_image_that_disables_its_condition_has_none() -> None:
    assert IMAGE.read({"NVIDIA_REQUIRE_CUDA": CUDA_12_4}, {}).driver_condition == CUDA_12_4
    disabled = {"NVIDIA_REQUIRE_CUDA": CUDA_12_4, "NVIDIA_DISABLE_REQUIRE": "1"}
    assert IMAGE.read(disabled, {}).driver_condition is None


def test_a_driver_that_meets_no_alternative_blocks_the_job() -> None:
    (finding,) = check(Workload(driver_condition=CUDA_12_4), OLD)
    assert finding.effect is Effect.BLOCK
    assert finding.what.endswith("Tesla V100 has driver 450.80.02, CUDA 11.0, compute capability 7.0")
    assert check(Workload(driver_condition=CUDA_12_4), Place(driver="550.54.15", cuda=(12, 4))) == ()
