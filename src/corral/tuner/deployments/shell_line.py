"""Words as a line that a person pastes into a shell. Somebody else may have chosen them."""

import shlex
from collections.abc import Iterable


def shell_line(words: Iterable[str]) -> str:
    """The words quoted for a shell, all of it printable.

    A terminal obeys control characters within quotes too: Ctrl-C in a pasted line ends that line and begins another.
    So a word with such is written as $'...', which bash, ksh and zsh know, with its bytes in octal.
    """
    return " ".join(shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'" for word in words)


def _escaped(character: str) -> str:
    if character.isprintable() and character not in "\\'":
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode())
