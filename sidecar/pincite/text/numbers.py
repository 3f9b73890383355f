"""Numbers, dates, sums, percentages and section references, made comparable.

A number that a sentence states must stand in the text that it cites. Numbers are compared as whole
tokens, so ``3`` is found neither in ``13`` nor in ``1.3``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan"),
            ("february", "feb"),
            ("march", "mar"),
            ("april", "apr"),
            ("may",),
            ("june", "jun"),
            ("july", "jul"),
            ("august", "aug"),
            ("september", "sep", "sept"),
            ("october", "oct"),
            ("november", "nov"),
            ("december", "dec"),
        ),
        start=1,
    )
    for name in names
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATES = (
    re.compile(r"(?<![\d.])(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?![\d.]*\d)"),
    re.compile(r"(?<!\d)(?P<y>\d{4}) ?年 ?(?P<m>\d{1,2}) ?月(?: ?(?P<d>\d{1,2}) ?[日号])?"),
    re.compile(
        rf"(?<![\d.])(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: day)?(?: of)? (?P<n>{_MONTH})\b\.?"
        rf"(?:,? ?(?P<y>\d{{4}})(?!\d))?"
    ),
    re.compile(rf"\b(?P<n>{_MONTH})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:])(?:,? ?(?P<y>\d{{4}})(?!\d))?"),
    re.compile(rf"\b(?P<n>{_MONTH})\.?,? (?P<y>\d{{4}})(?!\d)"),
)
_UNITS = {
    "%": "%", "percent": "%", "per cent": "%", "$": "$", "usd": "$", "dollar": "$", "dollars": "$",
    "€": "€", "eur": "€", "euro": "€", "euros": "€", "£": "£", "gbp": "£", "pound": "£", "pounds": "£",
    "¥": "¥", "rmb": "¥", "cny": "¥", "yuan": "¥", "元": "¥", "人民币": "¥",
}  # fmt: skip
_SCALES = {
    "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
    "万": 10**4, "亿": 10**8,
}  # fmt: skip
_NUMBER = re.compile(
    r"(?P<pre>[$€£¥]|\b(?:usd|eur|gbp|rmb|cny) ?)? ?"
    r"(?<!\d)(?P<num>\d+(?:[.,'’]\d+)*)"
    r"(?P<refs>(?: ?\([0-9a-z]{1,4}\)){1,4})?"
    r"(?: ?(?P<scale>thousand\b|million\b|billion\b|trillion\b|万|亿))?"
    r"(?: ?(?P<post>%|percent\b|per cent\b|usd\b|eur\b|gbp\b|dollars?\b|euros?\b|pounds?\b|yuan\b|元))?"
)
_REF = re.compile(r"\(([0-9a-z]{1,4})\)")
_HAN_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_ORDINAL = re.compile(r"第([零〇一二三四五六七八九十百千两]{1,9})(?=[编章节条款项])")
_ONES = "one two three four five six seven eight nine"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: value for value, word in enumerate(f"{_ONES} {_TEENS}".split(), start=1)} | {
    word: value * 10 for value, word in enumerate(_TENS.split(), start=2)
}
_ALL_WORDS = "|".join(sorted(_WORDS, key=len, reverse=True))
_WORD_NUMBER = re.compile(rf"\b(?:({_TENS.replace(' ', '|')})[- ]?({_ONES.replace(' ', '|')})|({_ALL_WORDS}))\b")
#: "may" the verb, so that "section 3 may" is not the third of May.
_MODAL_MAY = re.compile(r"\bmay\b|\bMAY\b(?! \d)")
_LIST_NUMBER = re.compile(r"\A\s*(?:[-*•]\s+|\*\*)?\(?\d{1,2}[.)](?=\s)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a text states in numbers.

    Attributes:
        dates: (year, month, day); 0 for a part that is not given.
        values: (canonical number, unit); unit is "" or one of ``% $ € £ ¥``.
        refs: The parenthesised parts of references, as the ``b`` of ``2(b)``.
        raw: The number as written, by canonical form, for messages.
    """

    dates: frozenset[tuple[int, int, int]]
    values: frozenset[tuple[str, str]]
    refs: frozenset[str]
    raw: dict[tuple[str, str] | tuple[int, int, int], str]


def read_numbers(text: str) -> Numbers:
    """All numbers of a text, in canonical form. Linear time."""
    flat = _flatten(text)
    dates: set[tuple[int, int, int]] = set()
    raw: dict[tuple[str, str] | tuple[int, int, int], str] = {}
    for pattern in _DATES:
        pieces: list[str] = []
        position = 0
        for match in pattern.finditer(flat):
            date = _date(match)
            if date is None:
                continue
            dates.add(date)
            raw[date] = match.group().strip()
            pieces += [flat[position : match.start()], " | "]
            position = match.end()
        flat = "".join(pieces) + flat[position:]
    values: set[tuple[str, str]] = set()
    refs: set[str] = set()
    for match in _NUMBER.finditer(flat):
        unit = _UNITS.get((match["pre"] or match["post"] or "").strip(), "")
        value = (_canonical(match["num"], match["scale"], unit), unit)
        values.add(value)
        raw[value] = match.group().strip()
        refs.update(_REF.findall(match["refs"] or ""))
    return Numbers(dates=frozenset(dates), values=frozenset(values), refs=frozenset(refs), raw=raw)


def missing_numbers(sentence: str, cited: Iterable[str]) -> list[str]:
    """The numbers of a sentence that do not stand in the cited texts, as written; empty is good.

    A list number that begins the sentence is not a statement and is left out. Number words count in
    the cited text (``thirty days`` supports ``30 days``) and are not demanded of the sentence.
    """
    said = read_numbers(_LIST_NUMBER.sub(" ", sentence, count=1))
    if not said.values and not said.dates:
        return []
    text = "\n\n".join(cited)
    flat = _flatten(text)
    stands = read_numbers(text)
    plain = {value for value, _ in stands.values} | _word_numbers(flat)
    units_there = {unit for _, unit in stands.values} | {_UNITS[u] for u in _UNITS if u in flat}
    absent = [
        said.raw[date]
        for date in sorted(said.dates)
        if not any(all(a in (0, b) for a, b in zip(date, there, strict=True)) for there in stands.dates)
    ]
    # A year or a day of the cited dates may be quoted alone.
    plain |= {str(part) for date in stands.dates for part in date if part}
    for value, unit in sorted(said.values):
        if unit:
            other = {u for v, u in stands.values if v == value and u and u != unit}
            bare = value in plain and not other and unit in units_there
            if (value, unit) not in stands.values and not bare:
                absent.append(said.raw[value, unit])
        elif value not in plain:
            absent.append(said.raw[value, unit])
    bracketed = set(_REF.findall(flat))
    absent += [f"({ref})" for ref in sorted(said.refs) if ref not in bracketed]
    return absent


def _flatten(text: str) -> str:
    """Compatibility forms, unicode digits and white space made plain; lower case."""
    flat = _MODAL_MAY.sub("m_y", unicodedata.normalize("NFKC", text)).lower()
    flat = "".join(
        str(unicodedata.digit(char)) if not char.isascii() and char.isdigit() else char for char in flat
    )
    flat = " ".join(flat.split())
    return _HAN_ORDINAL.sub(lambda match: f"第{_han(match[1])}", flat)


def _han(numeral: str) -> int:
    total, digit = 0, 0
    for char in numeral:
        if char in _HAN_UNITS:
            total += (digit or 1) * _HAN_UNITS[char]
            digit = 0
        else:
            digit = digit * 10 + _HAN_DIGITS[char] if digit and total == 0 else _HAN_DIGITS[char]
    return total + digit


def _date(match: re.Match[str]) -> tuple[int, int, int] | None:
    parts = match.groupdict()
    month = _MONTHS[parts["n"]] if parts.get("n") else int(parts["m"])
    day = int(parts.get("d") or 0)
    if not 1 <= month <= 12 or day > 31:
        return None
    return (int(parts.get("y") or 0), month, day)


def _canonical(number: str, scale: str | None, unit: str) -> str:
    """``1,000`` is 1000, ``007`` is 7; ``1.10`` stays apart from ``1.1`` unless it is a sum or a share."""
    number = number.replace("’", "'")
    for separator in (",", "'"):
        groups = number.split(".")[0].split(separator)
        if len(groups) > 1 and 1 <= len(groups[0]) <= 3 and all(len(g) == 3 for g in groups[1:]):
            number = number.replace(separator, "")
    whole, dot, fraction = number.partition(".")
    whole = whole.lstrip("0") or "0"
    if scale and whole.isdigit() and (fraction.isdigit() or not fraction):
        zeros = len(str(_SCALES[scale])) - 1
        digits = whole + fraction.ljust(zeros, "0")[: max(zeros, len(fraction))]
        if len(fraction) <= zeros:
            return digits.lstrip("0") or "0"
    if unit and "." not in fraction:
        fraction = fraction.rstrip("0")
    return whole + (dot + fraction if fraction else "")


def _word_numbers(flat: str) -> set[str]:
    found: set[str] = set()
    for tens, ones, single in _WORD_NUMBER.findall(flat):
        found.add(str(_WORDS[single] if single else _WORDS[tens] + _WORDS[ones]))
    return found
