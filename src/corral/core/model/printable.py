"""Text that somebody else chose, made safe to show: on a terminal, in a log line, in a notice."""


def printable(text: str) -> str:
    r"""`text` with every character that a terminal would obey or a reader not see written as its Python escape.

    That is what `str.isprintable` denies: control characters, line ends and tabs, marks that turn the direction of
    writing, characters of no width. An escape character becomes `\x1b`, four characters. Printable text of any language
    stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
