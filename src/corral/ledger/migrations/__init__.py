"""Alembic migrations, run by `corral.ledger.schema` on a connection of its own."""
