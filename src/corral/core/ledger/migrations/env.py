"""The script that Alembic runs: the migrations, on the given connection and within its transaction."""

from alembic import context

from corral.core.ledger.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
