"""Tokens for TCP: create, list, revoke."""

import sys
from typing import Annotated

import typer

from corral.cli.screen import Table, clock_time, example, print_json, say, write_lines, write_painted
from corral.client import Client
from corral.model.rows import TokenRow
from corral.model.token import TokenScope
from corral.model.units import parse_duration_s

NEVER = "never"

app = typer.Typer(
    name="token",
    help="Make, list and revoke tokens for TCP.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="\b\nExample:\n  corral token create --expires 7d",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def token() -> None:
    """Make, list and revoke tokens, with which a server is used over TCP: CORRAL_URL says where, CORRAL_TOKEN who."""


@app.command(epilog=example("corral token create --expires 7d", "corral token create --user alice --scope read"))
def create(
    user: Annotated[
        str | None, typer.Option("--user", metavar="USER", help="Whose; for others than you as administrator.")
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help=f"Good for so long, or {NEVER!r}: until it is revoked.")
    ] = "30d",
    scope: Annotated[
        TokenScope, typer.Option("--scope", help="Look; or submit and change own jobs, too; or all you may.")
    ] = TokenScope.SUBMIT,
    json: Json = False,
) -> None:
    """Make a token and print it, this once. Whoever has it acts as its user, up to its scope."""
    expires_in_s = None if expires == NEVER else parse_duration_s(expires, field="--expires")
    with Client() as client:
        made = client.tokens.create(user, scope=scope, expires_in_s=expires_in_s)
    if json:
        print_json(made)
        return
    write_lines(made.token)
    sys.stdout.flush()
    until = f"until {clock_time(made.expires_at)}" if made.expires_at else "until it is revoked"
    say(
        f"token {made.id} acts as {made.user} with scope {made.scope}, {until}. It is not shown again: keep it where "
        "only you can read it, as CORRAL_TOKEN"
    )


@app.command("list", epilog=example("corral token list", "corral token list --all --json"))
def list_tokens(
    all: Annotated[bool, typer.Option("--all", "-a", help="Also the last that have expired or were revoked.")] = False,
    json: Json = False,
) -> None:
    """List your tokens; as administrator everybody's. What they are is not shown: nobody knows it any more."""
    with Client() as client:
        tokens = client.tokens.list(all=all)
    if json:
        print_json(tokens)
        return
    table = Table(("ID", "USER", "SCOPE", "CREATED", "EXPIRES", "LAST USED", "STATE"), limits={"USER": 16})
    for one in tokens:
        table.add(*_cells(one))
    write_painted(*table.lines())


@app.command(epilog=example("corral token revoke 3"))
def revoke(token_id: Annotated[str, typer.Argument(metavar="ID", help="As `corral token list` shows it.")]) -> None:
    """End a token at once, and those that were made with it. What it has submitted runs on."""
    with Client() as client:
        for one in client.tokens.revoke(token_id):
            write_lines(f"token {one} is revoked")


def _cells(one: TokenRow) -> tuple[str, ...]:
    expires = NEVER if one.expires_at is None else clock_time(one.expires_at)
    used = NEVER if one.last_used_at is None else clock_time(one.last_used_at)
    return one.id, one.user, one.scope.value, clock_time(one.created_at), expires, used, one.state
