"""A title for a source that names none."""

from __future__ import annotations

import re
from urllib.parse import unquote

# ``_20`` for ``%20``, where a word follows; not the 20 of "on_20_May" or "the_20th".
_UNDERSCORE_SPACE = re.compile(r"_20(?=[^\W\d_])(?!th\b)")
_SEPARATORS = re.compile(r"[\s_]+")
_DASH_BETWEEN_WORDS = re.compile(r"(?<=\w)-(?=\w)")
_MAX_CHARS = 200


def title_from_file_name(file_name: str) -> str:
    """A readable title from a file's name.

    Folder and suffix go; underscores, ``%20`` and ``_20`` (a percent-encoding whose ``%`` was replaced)
    become spaces, hyphens between words too; capitals stay. A name of nothing but separators is kept.

    >>> title_from_file_name("a/CopAcc_NDA-and-ToP.txt")
    'CopAcc NDA and ToP'
    """
    name = file_name.rsplit("/", 1)[-1]
    stem, dot, suffix = name.rpartition(".")
    if not (dot and stem and 1 <= len(suffix) <= 8 and suffix.isalnum() and not suffix.isdigit()):
        stem = name
    try:
        words = unquote(stem, errors="strict")
    except UnicodeDecodeError:
        words = stem
    words = _UNDERSCORE_SPACE.sub(" ", words)
    words = _DASH_BETWEEN_WORDS.sub(" ", words.replace("_", " "))
    words = "".join(c if c.isprintable() else " " for c in words)
    words = _SEPARATORS.sub(" ", words).strip(" -.")
    return (words or name)[:_MAX_CHARS]
