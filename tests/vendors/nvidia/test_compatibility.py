"""The tables answer as NVIDIA's do."""

import pytest

from corral.core.model.version import version_of
from corral.vendors.nvidia.compatibility import (
    architecture_of,
    compute_of_model,
    cuda_of_driver,
    driver_of_cuda,
    driver_text,
)


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("550.144.03", (12, 4)),
        ("515.65.01", (11, 7)),
        ("580.159.03", (13, 0)),
        ("565.57.01", (12, 7)),
        ("535.54.02", (12, 1)),
        ("418.39", (10, 1)),
        ("100.0", None),
        ("unknown", None),
    ],
)
def test_a_driver_is_for_the_newest_cuda_whose_driver_is_no_newer(driver: str, cuda: tuple[int, int] | None) -> None:
    assert cuda_of_driver(driver) == cuda


@pytest.mark.parametrize(
    ("name", "compute"),
    [
        ("NVIDIA A100-SXM4-80GB", (8, 0)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA A10", (8, 6)),
        ("NVIDIA RTX 6000 Ada Generation", (8, 9)),
        ("Quadro RTX 6000", (7, 5)),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0)),
        ("Tesla V100-PCIE-16GB", (7, 0)),
        ("NVIDIA GH200 480GB", (9, 0)),
        ("CUDA GPU", None),
    ],
)
def test_a_device_is_known_by_the_words_of_its_name(name: str, compute: tuple[int, int] | None) -> None:
    assert compute_of_model(name) == compute


def test_versions_and_drivers_are_read_and_written_as_nvidia_does() -> None:
    assert (version_of("12.4.127"), version_of("12"), version_of("cuda")) == ((12, 4), (12, 0), None)
    assert driver_text(driver_of_cuda((12, 4)) or ()) == "550.54.14"
    assert driver_text((580, 65, 6)) == "580.65.06"


def test_every_device_of_the_table_has_an_architecture() -> None:
    for compute in ((5, 2), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)):
        assert architecture_of(compute) is not None
    assert architecture_of((3, 5)) is None
