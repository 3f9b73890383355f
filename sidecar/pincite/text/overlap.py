"""Lexical overlap between a sentence and the text that it cites (CiteGuard-RAG §2.6)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

#: Scripts written without spaces: their runs become character bigrams.
_UNSPACED = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]")

_STOPWORD_LIST = """
a about above after again all also am an and any are as at be because been before being below both but
by can cannot could did do does doing down during each few for from further had has have having he her
here hers him his how i if in into is it its itself just may me might more most must my no nor not of
off on once only or other our ours out over own per s same shall she should so some such t than that
the their theirs them then there these they this those through to too under until up upon us very was
we were what when where whether which while who whom whose why will with within without would you your
yours
"""
#: Function words of English; they say nothing about what a sentence is about.
STOPWORDS = frozenset(_STOPWORD_LIST.split())


def tokens(text: str) -> list[str]:
    """Tokens in order: case-folded words, and character bigrams of scripts without spaces.

    A run of one such character is itself the token. Compatibility forms (full-width letters, ligatures)
    are normalised.
    """
    out: list[str] = []
    for word in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if len(word) > 1 and _UNSPACED_RUN.match(word):
            out.extend(word[i : i + 2] for i in range(len(word) - 1))
        else:
            out.append(word)
    return out


def content_tokens(text: str) -> list[str]:
    """Tokens without function words; all tokens when nothing else is left."""
    every = tokens(text)
    return [token for token in every if token not in STOPWORDS] or every


def lexical_overlap(sentence: str, cited: Iterable[str]) -> float:
    """Share of the sentence's distinct content tokens that occur in the cited texts, in [0, 1].

    0.0 for a sentence without tokens: what cannot be compared does not pass.
    """
    wanted = set(content_tokens(sentence))
    if not wanted:
        return 0.0
    found = {token for text in cited for token in tokens(text)}
    return len(wanted & found) / len(wanted)
