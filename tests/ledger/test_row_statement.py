"""Statements that were made into SQL once write what their rows say."""

from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, create_engine, insert, select, update

from corral.ledger.row_statement import RowStatement

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
