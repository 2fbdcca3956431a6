"""Text that strangers wrote, made safe to look at. HTML is escaped by the templates; this is about what escaping leaves alone."""

import re
from typing import Any

# Controls but for tab and newline, lone surrogates, and the marks that reorder or hide what stands beside them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def visible(value: Any) -> Any:
    """The value; a text with every character that would hide, reorder or command shown by its number instead.

    Given to the templates as `finalize`, so it sees whatever they print. Markup is ours and stays as it is.
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _HIDDEN.sub(lambda hit: f"⟨U+{ord(hit[0]):04X}⟩", value)
