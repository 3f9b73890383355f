"""Light stems: enough to see that "licensing" answers "license", for coverage and for nothing else."""

from __future__ import annotations

from collections.abc import Iterable

_MAX_STEM = 7
_MIN_PREFIX = 5


def stem(word: str) -> str:
    """A lower-cased word without its commonest endings, at most seven characters."""
    if word.endswith("'s") or word.endswith("’s"):
        word = word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if len(word) > 5 and word.endswith("ing"):
        word = word[:-3]
    elif len(word) > 3 and word.endswith("ed"):
        word = word[:-2]
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word.endswith("y"):
        word = word[:-1] + "i"
    return word.replace("licenc", "licens")[:_MAX_STEM]


class StemSet:
    """A set of words that is asked with words: equal stems match, and long stems match by prefix."""

    def __init__(self, words: Iterable[str]) -> None:
        self._stems = {stem(word) for word in words}
        self._prefixes = {s[:n] for s in self._stems for n in range(_MIN_PREFIX, len(s) + 1)}

    def __contains__(self, word: str) -> bool:
        key = stem(word)
        if key in self._stems or key in self._prefixes:
            return True
        return any(key[:n] in self._stems for n in range(_MIN_PREFIX, len(key)))
