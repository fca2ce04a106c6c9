"""Alembic migrations, run by `corral.core.ledger.schema` on a connection of its own."""
