"""What a server loads as it starts: what it does not need yet costs its start, and memory for as long as it runs."""

import subprocess
import sys

NOT_NEEDED = (
    "alembic",  # where nothing has to migrate
    "apprise",  # which only the processes load that send to channels
    "corral.node.agent",  # where there is one host, and no agents are spawned and spoken to
    "corral.node.remote",
    "numpy",  # while nothing was placed by worth
    "sqlalchemy.dialects.postgresql",
)


def test_a_server_loads_only_what_it_needs_at_its_start() -> None:
    code = f"import sys, corral.daemon; print([m for m in {NOT_NEEDED} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
