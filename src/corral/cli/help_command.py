"""`corral help`: the help of a command, for those who ask for it so."""

from typing import Annotated, Any

import typer

from corral.cli.other_tools import no_such_command
from corral.cli.screen import command_group, example, write_lines

app = command_group()


@app.command(epilog=example("corral help submit", "corral help token create"))
def help(
    ctx: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="The command.")] = None,
) -> None:
    """Show the help of a command. Without one, list all commands."""
    shown: Any = ctx.find_root()
    for word in words or ():
        known = shown.command.list_commands(shown) if hasattr(shown.command, "list_commands") else []
        if word not in known:
            shown.fail(no_such_command(word, known))
        shown = shown.command.get_command(shown, word).make_context(word, [], parent=shown, resilient_parsing=True)
    write_lines(*shown.get_help().splitlines())
