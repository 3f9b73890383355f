"""Extended grapheme clusters (UAX #29): what a reader takes for one character.

A quotation that ends between a letter and its accent, or inside an emoji, is not what the page shows.
"""

from __future__ import annotations

from bisect import bisect_right

import regex

# Two neighbouring characters are joined only if one of them is of these classes (rules GB6 to GB13), or if
# they are CR and LF (GB3). So clusters of several characters need looking for around these alone, which
# costs a fraction of walking the whole text.
_JOINERS = (
    r"\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}\p{GCB=Prepend}\p{GCB=Regional_Indicator}"
    r"\p{GCB=L}\p{GCB=V}\p{GCB=T}"
)
_REGION = regex.compile(rf"[^{_JOINERS}]?+(?:[{_JOINERS}]++[^{_JOINERS}]?+)++")
# ``\X`` counts the regional indicators (halves of flags) before it each time, which is quadratic over a long
# row of them. A match never starts within a flag, so two of them with a third behind are a cluster.
_CLUSTER = regex.compile(r"\p{GCB=Regional_Indicator}{2}(?=\p{GCB=Regional_Indicator})|\X")


class Graphemes:
    """The cluster boundaries of one text. Building costs one linear pass; each look-up is logarithmic."""

    def __init__(self, text: str) -> None:
        self._text = text
        # Clusters of more than one character, CR LF apart.
        self._starts: list[int] = []
        self._ends: list[int] = []
        if text.isascii():
            return
        for region in _REGION.finditer(text):
            for match in _CLUSTER.finditer(text, region.start(), region.end()):
                start, end = match.span()
                if end - start > 1:
                    self._starts.append(start)
                    self._ends.append(end)

    def end_at_or_after(self, index: int) -> int:
        """The first boundary that is not before ``index`` (code points)."""
        cluster = self._around(index)
        return cluster[1] if cluster else index

    def start_at_or_before(self, index: int) -> int:
        """The last boundary that is not after ``index`` (code points)."""
        cluster = self._around(index)
        return cluster[0] if cluster else index

    def _around(self, index: int) -> tuple[int, int] | None:
        """The cluster that ``index`` lies strictly inside of."""
        if self._text[max(index - 1, 0) : index + 1] == "\r\n":
            return index - 1, index + 1
        i = bisect_right(self._starts, index) - 1
        if i >= 0 and self._starts[i] < index < self._ends[i]:
            return self._starts[i], self._ends[i]
        return None


def extend_to_grapheme_end(text: str, end: int) -> int:
    """The end of the cluster that ``end`` cuts, or ``end`` where it cuts none.

    One pass over the text; for many ends of one text build ``Graphemes`` once.
    """
    return Graphemes(text).end_at_or_after(end)
