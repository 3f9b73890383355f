"""Validators: each judges one sentence against the passages that it cites. They fail closed.

``Citeguard`` is the rule of CiteGuard-RAG §2.6; it is weak by itself (on human labels it passes nearly
everything), so ``NumbersStand`` and ``LinksStand`` say no where it says yes. A sentence is supported when
every verdict is: the worst one decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from pincite.domain.codes import Support
from pincite.domain.protocols import Encoder, Validator
from pincite.domain.types import Passage, Verdict, Versioned
from pincite.text.numbers import missing_numbers
from pincite.text.overlap import lexical_overlap

#: The reason of a pass by cosine alone begins so; ``verify`` knows it by this.
SEMANTIC = "semantic only: "
_NO_CITATION = "no citation resolves"
_URL = re.compile(r"(?:(?:https?|ftp)://|www\.|mailto:)[^\s<>\"'“”‘’()\[\]{}，。；、]{1,500}", re.IGNORECASE)
_URL_TAIL = ".,;:!?*_"


def _texts(cited: Sequence[Passage]) -> list[str]:
    return [passage.chunk.text for passage in cited]


class Citeguard:
    """Lexical overlap ≥ 0.10 or cosine ≥ 0.40 with a cited passage (CiteGuard-RAG §2.6).

    The cosine is computed only where the overlap is below its bar, and only if there is an encoder.

    Args:
        encoder: For the cosine; without one the lexical half decides alone.
        min_overlap: Share of content tokens, in [0, 1].
        min_cosine: Cosine of pooled vectors, in [-1, 1].
    """

    def __init__(
        self, encoder: Encoder | None = None, *, min_overlap: float = 0.10, min_cosine: float = 0.40
    ) -> None:
        self._encoder = encoder
        self._min_overlap = min_overlap
        self._min_cosine = min_cosine

    @property
    def validator(self) -> Versioned:
        """Id and version."""
        return Versioned(id="citeguard", version="1")

    def validate(self, sentence: str, cited: Sequence[Passage]) -> Verdict:
        """Supported or unsupported; the score is the measure that decided."""
        if not cited:
            return _verdict(self.validator, Support.UNSUPPORTED, 0.0, _NO_CITATION)
        texts = _texts(cited)
        overlap = lexical_overlap(sentence, texts)
        if overlap >= self._min_overlap:
            reason = f"lexical overlap {overlap:.2f} ≥ {self._min_overlap:.2f}"
            return _verdict(self.validator, Support.SUPPORTED, overlap, reason)
        short = f"lexical overlap {overlap:.2f} < {self._min_overlap:.2f}"
        if self._encoder is None:
            return _verdict(self.validator, Support.UNSUPPORTED, overlap, f"{short}; no encoder")
        query = self._encoder.encode_query(sentence).pooled
        cosine = max(float(query @ encoded.pooled) for encoded in self._encoder.encode_passages(texts))
        passed = cosine >= self._min_cosine
        sign = "≥" if passed else "<"
        reason = f"{SEMANTIC if passed else ''}cosine {cosine:.2f} {sign} {self._min_cosine:.2f}; {short}"
        support = Support.SUPPORTED if passed else Support.UNSUPPORTED
        return _verdict(self.validator, support, max(overlap, cosine), reason)


class NumbersStand:
    """Every number, date, sum, share and section reference of the sentence stands in a cited passage."""

    @property
    def validator(self) -> Versioned:
        """Id and version."""
        return Versioned(id="numbers", version="2")

    def validate(self, sentence: str, cited: Sequence[Passage]) -> Verdict:
        """Supported, or unsupported with the numbers that are missing."""
        if not cited:
            return _verdict(self.validator, Support.UNSUPPORTED, None, _NO_CITATION)
        absent = missing_numbers(sentence, _texts(cited))
        if absent:
            reason = "not in the cited text: " + ", ".join(absent[:8])
            return _verdict(self.validator, Support.UNSUPPORTED, None, reason)
        return _verdict(self.validator, Support.SUPPORTED, None, "all numbers stand in the cited text")


class LinksStand:
    """Every web or mail address of the sentence stands in a cited passage."""

    @property
    def validator(self) -> Versioned:
        """Id and version."""
        return Versioned(id="links", version="1")

    def validate(self, sentence: str, cited: Sequence[Passage]) -> Verdict:
        """Supported, or unsupported with the first address that is missing."""
        if not cited:
            return _verdict(self.validator, Support.UNSUPPORTED, None, _NO_CITATION)
        texts = _texts(cited)
        stand = {url.rstrip(_URL_TAIL) for text in texts for url in _URL.findall(text)}
        for url in _URL.findall(sentence):
            if url.rstrip(_URL_TAIL) not in stand:
                return _verdict(self.validator, Support.UNSUPPORTED, None, f"address not cited: {url[:120]}")
        return _verdict(self.validator, Support.SUPPORTED, None, "all addresses stand in the cited text")


def run_validator(validator: Validator, sentence: str, cited: Sequence[Passage]) -> Verdict:
    """The validator's verdict, or ``unchecked`` when it fails: a crash is never a pass.

    A score that is not finite, and a support that is no member of the closed list, are failures too.
    """
    try:
        verdict = validator.validate(sentence, cited)
        if verdict.score is not None and not math.isfinite(verdict.score):
            raise ValueError("the score is not finite")
        support = Support(verdict.support)
    except Exception as exc:
        reason = f"the validator failed: {type(exc).__name__}"
        return _verdict(validator.validator, Support.UNCHECKED, None, reason)
    return _verdict(verdict.validator, support, verdict.score, verdict.reason)


def _verdict(validator: Versioned, support: Support, score: float | None, reason: str) -> Verdict:
    if score is not None:
        score = min(1.0, max(0.0, score))
    return Verdict(validator=validator, support=support, score=score, reason=reason)
