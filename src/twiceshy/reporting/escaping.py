"""What strangers wrote, made harmless for each place it may be shown in (faces.md §4.4)."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 400
"""Characters of one text that are shown; ids, names and messages are shorter."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ,/+-=%;")
_PAUSE = "&#8203;"


def plain(text: object) -> str:
    """One line of text: no escape sequences, no control or format characters (bidi, zero width), nothing longer than it may be."""
    cleaned = _ANSI.sub("", str(text))
    shown = "".join(map(_printable, cleaned)).strip()
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def markdown(text: object) -> str:
    """Text that Markdown and HTML show as it stands: nothing in it is markup, a link, a mention or an issue number."""
    escaped = (_entity(character) for character in plain(text))
    return "".join(escaped).replace("www.", f"www{_PAUSE}.")


def code(text: object) -> str:
    """`markdown` in a code element."""
    return f"<code>{markdown(text)}</code>"


def xml(text: object) -> str:
    """Text that XML 1.0 may hold; the writer escapes its markup."""
    return plain(text)


def command_data(text: object) -> str:
    """The message of a workflow command."""
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: object) -> str:
    """A property of a workflow command."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def _printable(character: str) -> str:
    """White space of any kind is a space; what has no shape of its own goes; a lone surrogate is a replacement character."""
    category = unicodedata.category(character)
    if category in ("Zl", "Zp", "Zs") or character in "\t\r\n\v\f":
        return " "
    if category == "Cs" or character in "\ufffe\uffff":
        return "\ufffd"
    return "" if category.startswith("C") and category != "Co" else character


def _entity(character: str) -> str:
    if character in _SAFE or (not character.isascii() and character.isalnum()) or character == ".":
        return character
    # A mention and an issue number are found in the rendered text, so an entity alone does not break them.
    return f"&#{ord(character)};" + (_PAUSE if character in "@#" else "")
