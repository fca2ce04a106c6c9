"""`corral help`: the help of a command, for those who ask for it so, and the documents."""

from typing import Annotated, Any

import typer

from corral.cli.other_tools import no_such_command
from corral.cli.screen import command_group, example, write_lines

app = command_group()

DOCUMENTS = "docs"
"""What is asked for in the place of a command."""


@app.command(epilog=example("corral help token create", "corral help docs", "corral help docs settings"))
def help(
    ctx: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="The command.")] = None,
) -> None:
    """Show the help of a command, or a document. Without one, list all commands.

    "corral help docs" lists the documents that are installed, "corral help docs settings" shows one.
    """
    if words and words[0] == DOCUMENTS:
        _show_documents(ctx, words[1:])
        return
    shown: Any = ctx.find_root()
    for word in words or ():
        known = shown.command.list_commands(shown) if hasattr(shown.command, "list_commands") else []
        if word not in known:
            shown.fail(no_such_command(word, known))
        shown = shown.command.get_command(shown, word).make_context(word, [], parent=shown, resilient_parsing=True)
    write_lines(*shown.get_help().splitlines())


def _show_documents(ctx: typer.Context, names: list[str]) -> None:
    from corral.cli.documents import list_documents, show_document

    if len(names) > 1:
        ctx.fail(f"one document at a time: corral help {DOCUMENTS} {names[0]}")
    show_document(names[0]) if names else list_documents()
