"""`corral help`: the help of a command, as an alternative to --help, and the documents."""

from __future__ import annotations

from corral.cli.app import Corral
from corral.cli.help.help_page import show_help
from corral.cli.reading import UnknownCommand, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.cli.commands import learning
    from corral.cli.declaring import DeclaredCommand

DOCUMENTS = "docs"
"""The word that asks for the documents in place of a command."""


def help(given: learning.HelpCommand) -> None:
    """Run `corral help`."""
    words = given.words or []
    if words[:1] == [DOCUMENTS]:
        _show_documents(given, words[1:])
        return
    path: tuple[str, ...] = ("corral",)
    command: type[DeclaredCommand] = Corral
    for word in words:
        found = command.find(word)
        if found is None:
            raise UnknownCommand(word).of(path, command)
        path, command = (*path, word), found
    show_help(path, command)


def _show_documents(given: learning.HelpCommand, names: Sequence[str]) -> None:
    from corral.cli.help.documents import list_documents, show_document

    if len(names) > 1:
        told = f"one document at a time: corral help {DOCUMENTS} {names[0]}"
        raise UsageError(told).of(("corral", "help"), type(given))
    show_document(names[0]) if names else list_documents()
