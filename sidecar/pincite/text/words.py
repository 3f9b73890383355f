"""Words: what a question asks about, less the words that every question has."""

from __future__ import annotations

import regex

_WORD = regex.compile(r"\p{Han}{2}|\p{Han}|[\p{L}\p{N}][\p{L}\p{N}\p{M}'’.-]*")
_HAN = regex.compile(r"\p{Han}")

#: Function words and the verbs of asking. Content words are what is left.
STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between
    both but by can cannot could did do does doing down during each either every few for from further had has
    have having he her here hers herself him himself his how i if in into is it its itself just let may me
    might more most must my myself no nor not now of off on once only or other ought our ours out over own per
    please same shall she should so some such than that the their theirs them themselves then there these they
    this those through to too under until up upon us very was we were what when where whether which while who
    whom whose why will with within without would you your yours yourself
    according allow allowed allows answer apply applies case consider contain contains define defined describe
    described document documents does explain find following give gives happen happens indicate indicates
    information kind list many mean means mention mentioned much name need needed needs permit permitted provide
    provided provides question regarding say says specify state stated states tell text type under use used
    """.split()
)


def words(text: str) -> list[str]:
    """Lower-case words in order; Han text as consecutive pairs."""
    out: list[str] = []
    for match in _WORD.finditer(text):
        word = match.group().lower().strip("'’.-")
        if word:
            out.append(word.removesuffix("'s").removesuffix("’s"))
    return [word for word in out if word]


def content_words(text: str) -> list[str]:
    """Distinct content words, in order of first occurrence; all words when none is left."""
    every = list(dict.fromkeys(words(text)))
    return [word for word in every if word not in STOP_WORDS] or every


def has_han(text: str) -> bool:
    """Whether the text holds a Han character."""
    return _HAN.search(text) is not None
