"""Commands about jobs that are there already, on a running server."""

from collections.abc import Iterator

import pytest

from tests.e2e.box import Box, described, serving


@pytest.fixture(scope="module")
def running_box() -> Iterator[Box]:
    with serving(described(1)) as box:
        yield box


@pytest.fixture
def box(running_box: Box) -> Iterator[Box]:
    yield running_box
    running_box.clear()


def test_a_job_that_cannot_be_cancelled_keeps_nobody_else_from_it(box: Box) -> None:
    first, second = (box.submit("--hold", "--", "true") for _ in range(2))
    done = box.run("cancel", first, first, "999", second)
    assert (done.returncode, done.stdout.splitlines()) == (1, [f"cancelled {first}", f"cancelled {second}"])
    assert [line.split(";")[0] for line in done.stderr.splitlines()] == [
        f"corral: job {first} has already ended (CANCELLED)",
        "corral: there is no job 999",
    ]


@pytest.mark.parametrize("timeout", ["0.05s", "1"])
def test_a_wait_ends_with_its_own_time_of_which_a_bare_number_is_seconds(box: Box, timeout: str) -> None:
    job = box.submit("--hold", "--", "true")
    done = box.run("wait", job, "--timeout", timeout)
    assert (done.returncode, "1 of 1 jobs had not ended" in done.stderr) == (124, True)
