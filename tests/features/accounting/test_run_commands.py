"""Options of `corral usage` and `corral report` that do not go together are refused, and none is ignored."""

import pytest

from corral.core.model.errors import Refused
from corral.features.accounting.commands import ReportCommand, UsageCommand
from corral.features.accounting.run_commands import report, usage


@pytest.mark.parametrize("form", ["csv", "html"])
def test_two_formats_are_refused(form: str) -> None:
    with pytest.raises(Refused, match=f"--json and --format {form}"):
        report(ReportCommand(json=True, form=form))


def test_two_formats_of_the_use_are_refused() -> None:
    with pytest.raises(Refused, match="--json and --format csv"):
        usage(UsageCommand(json=True, form="csv"))


def test_jobs_that_used_less_than_their_grant_are_not_grouped() -> None:
    with pytest.raises(Refused, match="--by"):
        report(ReportCommand(waste=True, by="project"))
