"""Texts from outside that a terminal may show: file names, and what files hold."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with U+FFFD in place of all that `str.isprintable` refuses, but line feeds.

    >>> printable("host\\x1b[31m.tar")
    'host\ufffd[31m.tar'
    """
    return "".join(character if character == "\n" or character.isprintable() else "\ufffd" for character in text)
