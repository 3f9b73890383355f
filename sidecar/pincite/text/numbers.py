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
    re.compile(r"(?<![\d.])(?P<m>\d{1,2}) ?月(?: ?(?P<d>\d{1,2}) ?[日号])?"),
)
_UNITS = {
    "%": "%", "percent": "%", "per cent": "%", "$": "$", "usd": "$", "dollar": "$", "dollars": "$",
    "€": "€", "eur": "€", "euro": "€", "euros": "€", "£": "£", "gbp": "£", "pound": "£", "pounds": "£",
    "¥": "¥", "rmb": "¥", "cny": "¥", "yuan": "¥", "元": "¥", "人民币": "¥",
}  # fmt: skip
_SCALES = {
    "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
    "万": 10**4, "百万": 10**6, "千万": 10**7, "亿": 10**8,
}  # fmt: skip
_NUMBER = re.compile(
    r"(?P<pre>[$€£¥]|\b(?:usd|eur|gbp|rmb|cny) ?)? ?"
    r"(?<!\d)(?P<num>\d+(?:[.,'’]\d+)*)"
    r"(?:(?P<word>[\x1e\x1f])|(?P<refs>(?: ?\([0-9a-z]{1,4}\)){1,4}))?"
    r"(?: ?(?P<scale>hundred\b|thousand\b|million\b|billion\b|trillion\b|百万|千万|万|亿))?"
    r"(?: ?(?P<post>%|percent\b|per cent\b|usd\b|eur\b|gbp\b|dollars?\b|euros?\b|pounds?\b|yuan\b|元))?"
)
_REF = re.compile(r"\(([0-9a-z]{1,4})\)")
#: Stands after a number that was a word: what follows in brackets repeats it and is no part of a reference.
_WORD = "\x1e"
#: The same after a lone "one", which is often an article or a pronoun.
_ONE = "\x1f"
_HAN_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "○": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_ORDINAL = re.compile(r"第([零〇一二三四五六七八九十百千两]{1,9})(?=[编章节条款项])")
_HAN_CHARS = "零〇○一二三四五六七八九十百千两万亿"
_HAN_RUN = rf"[零〇○一二三四五六七八九十两](?>[{_HAN_CHARS}]{{0,15}})(?:点[零〇○一二三四五六七八九]{{1,9}})?"
_HAN_SHARE = re.compile(rf"百分之 ?(?P<num>{_HAN_RUN}|\d+(?:\.\d+)?)")
#: A numeral before a unit, or one that ends in 万 or 亿; not the tail of a vague or fixed word (数十万, 统一).
_HAN_NUMBER = re.compile(
    rf"(?<![{_HAN_CHARS}\d.几数统唯同任某])(?P<num>{_HAN_RUN})"
    r"(?:(?=(?P<bracket> ?\([\d.,]{1,15}\))?"
    r" ?(?:[日天月年元个%倍周岁次名人份期户吨米]|小时|工作日|分钟|美元|欧元|英镑|公斤|公里|平方))|(?<=[万亿]))"
)
_ONES = "one two three four five six seven eight nine"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: value for value, word in enumerate(f"zero {_ONES} {_TEENS}".split())} | {
    word: value * 10 for value, word in enumerate(_TENS.split(), start=2)
}
_ALL_WORDS = "|".join(sorted(_WORDS, key=len, reverse=True))
_BIG = "thousand|million|billion|trillion"
_SMALL = rf"(?>(?:{_TENS.replace(' ', '|')})[- ](?:{_ONES.replace(' ', '|')})\b|(?:{_ALL_WORDS})\b)"
#: Up to "nine hundred and ninety-nine", with its scale. "one hundred and two hundred" are two numbers.
_WORD_PART = re.compile(
    rf"\b(?:(?>(?P<hundreds>{_SMALL}|a)[- ]hundred\b)(?:(?>(?:[- ]| and )(?P<rest>{_SMALL}))(?![- ]hundred\b))?"
    rf"|(?P<small>{_SMALL}|a(?=[- ](?:{_BIG})\b)))(?:[- ](?P<scale>{_BIG})\b)?"
)
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
        raw: The number as written, by canonical form, for messages; number words as digits. ``_ONE``
            for a 1 that is stated by a lone "one" only.
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
        if match["word"] == _ONE and value == ("1", ""):
            raw.setdefault(value, _ONE)
        else:
            raw[value] = match.group().replace(_WORD, "").replace(_ONE, "").strip()
        refs.update(_REF.findall(match["refs"] or ""))
    return Numbers(dates=frozenset(dates), values=frozenset(values), refs=frozenset(refs), raw=raw)


def missing_numbers(sentence: str, cited: Iterable[str]) -> list[str]:
    """The numbers of a sentence that do not stand in the cited texts, as written; empty is good.

    Number words and Han numerals before a unit count as numbers on both sides. Not demanded of the
    sentence: a list number at its beginning, and a lone "one" without a unit of money or share, which is
    often no quantity. A sentence that stands word for word in a cited text has nothing missing.
    """
    cited = list(cited)
    if any(_stands_verbatim(sentence, text) for text in cited):
        return []
    said = read_numbers(_LIST_NUMBER.sub(" ", sentence, count=1))
    if not said.values and not said.dates:
        return []
    text = "\n\n".join(cited)
    flat = _flatten(text)
    stands = read_numbers(text)
    plain = {value for value, _ in stands.values}
    units_there = {unit for _, unit in stands.values} | {_UNITS[u] for u in _UNITS if u in flat}
    absent = [
        said.raw[date]
        for date in sorted(said.dates)
        if not any(all(a in (0, b) for a, b in zip(date, there, strict=True)) for there in stands.dates)
    ]
    # A year or a day of the cited dates may be quoted alone; a month's number is not in the words.
    plain |= {str(part) for year, _, day in stands.dates for part in (year, day) if part}
    for value, unit in sorted(said.values):
        if said.raw[value, unit] == _ONE:
            continue
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
    flat = _HAN_ORDINAL.sub(lambda match: f"第{_han(match[1])}", flat)
    flat = _HAN_SHARE.sub(lambda match: f"{_han_decimal(match['num'])}%", flat)
    return _digits_for_words(_HAN_NUMBER.sub(_han_digits, flat))


def _han_digits(match: re.Match[str]) -> str:
    following = match.string[match.end() : match.end() + 2].lstrip()[:1]
    # 一月 and 一日 are dates as often as lengths, so they stay plain digits.
    lone = match["num"] == "一" and following not in ("月", "日", "年")
    return _han_decimal(match["num"]) + (_ONE if lone else _WORD if match["bracket"] else "")


def _han_decimal(numeral: str) -> str:
    if numeral[0].isascii():
        return numeral
    whole, point, fraction = numeral.partition("点")
    return str(_han(whole)) + ("." + "".join(str(_HAN_DIGITS[char]) for char in fraction) if point else "")


def _han(numeral: str) -> int:
    total, section, digit = 0, 0, 0
    for char in numeral:
        if char in _HAN_UNITS:
            section += (digit or 1) * _HAN_UNITS[char]
            digit = 0
        elif char == "万":
            total += (section + digit) * 10**4
            section = digit = 0
        elif char == "亿":
            total = (total + section + digit) * 10**8
            section = digit = 0
        else:
            value = _HAN_DIGITS[char]
            digit = digit * 10 + value if digit and not section and not total else value
    return total + section + digit


def _digits_for_words(flat: str) -> str:
    """``one hundred and five`` becomes ``105`` with a mark after it."""
    out: list[str] = []
    position = 0
    # Of the number being read: where it begins and ends, its value, the scale of its last part.
    begin, end, total, last = 0, 0, 0, 0
    for match in _WORD_PART.finditer(flat):
        scale = _SCALES[match["scale"]] if match["scale"] else 1
        value = _word_value(match) * scale
        joins = last > scale and flat[end : match.start()] in (" ", "-", " and ")
        if joins:
            end, total, last = match.end(), total + value, scale
            continue
        if last:
            out += [flat[position:begin], _marked(total, flat[begin:end])]
            position = end
        begin, end, total, last = match.start(), match.end(), value, scale
    if last:
        out += [flat[position:begin], _marked(total, flat[begin:end])]
        position = end
    return "".join(out) + flat[position:]


def _word_value(match: re.Match[str]) -> int:
    if match["small"]:
        return _small(match["small"])
    return _small(match["hundreds"]) * 100 + (_small(match["rest"]) if match["rest"] else 0)


def _small(words: str) -> int:
    return 1 if words == "a" else sum(_WORDS[word] for word in words.replace("-", " ").split())


def _marked(value: int, words: str) -> str:
    return f"{value}{_ONE if words == 'one' else _WORD}"


#: Before a slice of a text: what may be the head of a number that the slice begins with the tail of.
_HEAD = re.compile(rf"(?:\w|[\w][.,'’]|[-$€£¥])\Z|\b(?:{_ALL_WORDS}|hundred|{_BIG}|and|a) \Z", re.IGNORECASE)


def _stands_verbatim(sentence: str, text: str) -> bool:
    """The sentence is a slice of the text, white space apart, and cuts no number in two."""
    sentence, text = " ".join(sentence.split()), " ".join(text.split())
    if not sentence:
        return False
    start = text.find(sentence)
    while start >= 0:
        end = start + len(sentence)
        following = text[end : end + 2].lstrip()[:1]
        closed = not following or not (sentence[-1].isalnum() or text[end : end + 1].isdigit())
        if closed and not _HEAD.search(text[max(0, start - 16) : start]):
            return True
        start = text.find(sentence, end)
    return False


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
