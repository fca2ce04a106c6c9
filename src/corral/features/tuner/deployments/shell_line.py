"""Quotes words as a line that a person pastes into a shell. The words may come from another person."""

import shlex
from collections.abc import Iterable


def shell_line(words: Iterable[str]) -> str:
    """Return the words quoted for a shell, with printable characters only.

    A terminal obeys control characters even within quotes: a pasted Ctrl-C ends the line and begins another. So a word
    with control characters is written as $'...' with its bytes in octal, which bash, ksh and zsh understand.
    """
    return " ".join(shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'" for word in words)


def _escaped(character: str) -> str:
    if character.isprintable() and character not in "\\'":
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode())
