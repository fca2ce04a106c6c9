"""`corral token`: create, list and revoke tokens for access over TCP."""

import sys

from corral.cli.commands import serving
from corral.cli.screen import print_json, say, write_lines, write_painted
from corral.cli.tables.text_table import TextTable
from corral.client import Client
from corral.core.model.answers.tokens import TokenRow
from corral.core.model.token import TokenScope
from corral.core.model.units import parse_duration_s
from corral.formatting.times import clock_time

NEVER = "never"


def create(given: serving.TokenCreateCommand) -> None:
    """Run `corral token create`."""
    expires_in_s = None if given.expires == NEVER else parse_duration_s(given.expires, field="--expires")
    with Client() as client:
        made = client.tokens.create(given.user, scope=TokenScope(given.scope), expires_in_s=expires_in_s)
    if given.json:
        print_json(made)
        return
    write_lines(made.token)
    sys.stdout.flush()
    until = f"until {clock_time(made.expires_at)}" if made.expires_at else "until it is revoked"
    say(
        f"token {made.id} acts as {made.user} with scope {made.scope}, {until}. It is not shown again: save it where "
        "only you can read it, and set CORRAL_TOKEN to it"
    )


def list_tokens(given: serving.TokenListCommand) -> None:
    """Run `corral token list`."""
    with Client() as client:
        tokens = client.tokens.list(all=given.all)
    if given.json:
        print_json(tokens)
        return
    table = TextTable(("ID", "USER", "SCOPE", "CREATED", "EXPIRES", "LAST USED", "STATE"), limits={"USER": 16})
    for one in tokens:
        table.add(*_cells(one))
    write_painted(*table.lines())


def revoke(given: serving.TokenRevokeCommand) -> None:
    """Run `corral token revoke`."""
    with Client() as client:
        for one in client.tokens.revoke(given.token_id):
            write_lines(f"token {one} was revoked")


def _cells(one: TokenRow) -> tuple[str, ...]:
    expires = NEVER if one.expires_at is None else clock_time(one.expires_at)
    used = NEVER if one.last_used_at is None else clock_time(one.last_used_at)
    return one.id, one.user, one.scope.value, clock_time(one.created_at), expires, used, one.state
