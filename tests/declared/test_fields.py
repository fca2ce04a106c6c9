from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

from corral.core.model.answers.jobs import JobRow
from corral.core.model.field import Field
from corral.declared import typescript
from corral.declared.fields import told_fields, untold_values

WEB = Path(__file__).parents[2] / "web/src"


@dataclass(frozen=True)
class Row:
    id: str
    seconds: float | None = None
    words: Annotated[tuple[str, ...], Field(told=False)] = ()
    values: Annotated[dict[str, str], Field(told=False)] = field(default_factory=dict)


def test_events_have_the_fields_of_a_row_but_those_that_are_declared_to_be_listed_alone() -> None:
    assert told_fields(Row) == ("id", "seconds")


def test_a_new_row_has_the_defaults_of_the_fields_that_events_leave_out() -> None:
    assert untold_values(Row) == {"words": (), "values": {}}


def test_each_field_of_a_job_is_told_or_has_a_value_for_the_pages() -> None:
    told, untold = set(told_fields(JobRow)), set(untold_values(JobRow))
    assert told | untold == {one.name for one in fields(JobRow)}
    assert not told & untold


def test_the_pages_know_which_fields_events_leave_out() -> None:
    assert (WEB / "api/untold.ts").read_text() == typescript.source(), "make web-types brings them in line"
    assert "...UNTOLD" in (WEB / "live/rows.ts").read_text()
