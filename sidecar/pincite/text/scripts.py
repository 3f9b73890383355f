"""Which script a text is written in: enough to know whether an encoder can read it."""

from __future__ import annotations

import regex

_LETTER = regex.compile(r"\p{L}")
_LATIN = regex.compile(r"\p{Latin}")


def latin_share(text: str) -> float:
    """Share of the letters that are Latin; 1.0 for a text without letters."""
    letters = len(_LETTER.findall(text))
    return len(_LATIN.findall(text)) / letters if letters else 1.0
