"""`corral token`: creates, lists and revokes tokens for access over TCP."""

import sys
from typing import Annotated

import typer

from corral.cli.screen import example, print_json, say, write_lines, write_painted
from corral.cli.text_table import TextTable
from corral.client import Client
from corral.formatting.times import clock_time
from corral.model.answers.tokens import TokenRow
from corral.model.token import TokenScope
from corral.model.units import parse_duration_s

NEVER = "never"

app = typer.Typer(
    name="token",
    help="Create, list and revoke tokens for access over TCP.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="\b\nExample:\n  corral token create --expires 7d",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def token() -> None:
    """Tokens give access to a server over TCP: set CORRAL_URL to its address and CORRAL_TOKEN to the token."""


@app.command(epilog=example("corral token create --expires 7d", "corral token create --user alice --scope read"))
def create(
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="User it acts as; administrators may name any.  [default: you]"),
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help=f"How long it is valid, or {NEVER!r}.")
    ] = "30d",
    scope: Annotated[
        TokenScope,
        typer.Option("--scope", help="read: look only; submit: also submit and change own jobs; admin: everything."),
    ] = TokenScope.SUBMIT,
    json: Json = False,
) -> None:
    """Create a token and print it; it is not shown again. Whoever has it acts as its user, within its scope."""
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
        f"token {made.id} acts as {made.user} with scope {made.scope}, {until}. It is not shown again: save it where "
        "only you can read it, and set CORRAL_TOKEN to it"
    )


@app.command("list", epilog=example("corral token list", "corral token list --all --json"))
def list_tokens(
    all: Annotated[
        bool, typer.Option("--all", "-a", help="Also tokens that have expired or were revoked lately.")
    ] = False,
    json: Json = False,
) -> None:
    """List your tokens, or as administrator everybody's. The secrets are not stored, so they are not shown."""
    with Client() as client:
        tokens = client.tokens.list(all=all)
    if json:
        print_json(tokens)
        return
    table = TextTable(("ID", "USER", "SCOPE", "CREATED", "EXPIRES", "LAST USED", "STATE"), limits={"USER": 16})
    for one in tokens:
        table.add(*_cells(one))
    write_painted(*table.lines())


@app.command(epilog=example("corral token revoke 3"))
def revoke(token_id: Annotated[str, typer.Argument(metavar="ID", help="Its id in `corral token list`.")]) -> None:
    """Revoke a token and all tokens created with it, at once. Jobs submitted with it run on."""
    with Client() as client:
        for one in client.tokens.revoke(token_id):
            write_lines(f"token {one} was revoked")


def _cells(one: TokenRow) -> tuple[str, ...]:
    expires = NEVER if one.expires_at is None else clock_time(one.expires_at)
    used = NEVER if one.last_used_at is None else clock_time(one.last_used_at)
    return one.id, one.user, one.scope.value, clock_time(one.created_at), expires, used, one.state
