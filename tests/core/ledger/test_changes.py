"""Statements that were made into SQL once write what their rows say."""

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, create_engine, insert, select, update
from sqlalchemy.dialects.sqlite import insert as insert_or

from corral.core.ledger.changes import MOST_VALUES, RowStatement

NOTES = Table(
    "notes", MetaData(), Column("number", Integer, primary_key=True), Column("text", Text), Column("by", Text)
)
ADD = RowStatement(insert(NOTES))
CHANGE = RowStatement(update(NOTES).where(NOTES.c.number == bindparam("at_number")), ("text",))


def test_rows_are_added_and_only_the_columns_that_were_named_are_changed() -> None:
    engine = create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            NOTES.metadata.create_all(connection)
            ADD.run(connection, [{"number": 1, "text": "a", "by": None}])
            ADD.run(connection, [{"number": number, "text": "b", "by": "bob"} for number in (2, 3)])
            CHANGE.run(connection, [{"at_number": 2, "text": "c"}])
            CHANGE.run(connection, [])
            rows = [tuple(row) for row in connection.execute(select(NOTES).order_by(NOTES.c.number))]
    finally:
        engine.dispose()
    assert rows == [(1, "a", None), (2, "c", "bob"), (3, "b", "bob")]


@pytest.mark.parametrize("count", [1, MOST_VALUES // 3 - 1, MOST_VALUES // 3, MOST_VALUES // 3 + 1, MOST_VALUES])
def test_as_many_rows_as_there_are_are_added_each_once(count: int) -> None:
    engine = create_engine("sqlite://")
    rows = [(number, f"text of {number}", None if number % 2 else "bob") for number in range(count)]
    try:
        with engine.begin() as connection:
            NOTES.metadata.create_all(connection)
            ADD.run(connection, [dict(zip(("by", "text", "number"), row[::-1], strict=True)) for row in rows])
            found = [tuple(row) for row in connection.execute(select(NOTES).order_by(NOTES.c.number))]
    finally:
        engine.dispose()
    assert found == rows


def test_many_rows_replace_those_of_the_same_key() -> None:
    upsert = insert_or(NOTES)
    change = upsert.on_conflict_do_update(index_elements=["number"], set_={"text": upsert.excluded.text})
    engine = create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            NOTES.metadata.create_all(connection)
            for text in ("old", "new"):
                rows = [{"number": number, "text": text, "by": text} for number in range(MOST_VALUES)]
                RowStatement(change).run(connection, rows)
            found = {tuple(row) for row in connection.execute(select(NOTES.c.text, NOTES.c.by))}
    finally:
        engine.dispose()
    assert found == {("new", "old")}
