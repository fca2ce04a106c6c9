import signal

import pytest

from corral.cli.jobs.follower import exit_code_for
from corral.client import JobRow
from corral.core.model.jobs.phase import Phase


@pytest.mark.parametrize(
    ("row", "signalled", "code"),
    [
        (JobRow("1", phase=Phase.SUCCEEDED, exit_code=0), None, 0),
        (JobRow("1", phase=Phase.FAILED, exit_code=3), None, 3),
        (JobRow("1", phase=Phase.FAILED, exit_code=137, signal=9), None, 137),
        (JobRow("1", phase=Phase.FAILED, exit_code=127), None, 127),
        (JobRow("1", phase=Phase.FAILED, reason="there is no directory /x"), None, 125),
        (JobRow("1", phase=Phase.TIMED_OUT, exit_code=143, signal=15), None, 124),
        (JobRow("1", phase=Phase.LOST), None, 125),
        (JobRow("1", phase=Phase.CANCELLED, exit_code=143, signal=15), signal.SIGINT, 143),
        (JobRow("1", phase=Phase.CANCELLED), signal.SIGINT, 130),
        (JobRow("1", phase=Phase.CANCELLED), signal.SIGTERM, 143),
        (JobRow("1", phase=Phase.CANCELLED, reason="job 7 failed"), None, 125),
    ],
)
def test_run_exits_as_its_job_did_or_says_that_corral_failed(row: JobRow, signalled: int | None, code: int) -> None:
    assert exit_code_for(row, signalled) == code
