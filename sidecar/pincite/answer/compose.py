"""The answer flow: generate, split, parse, validate; regenerate once; answer or refuse."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pincite.answer.parse import Marker, ParsedText, parse
from pincite.answer.quote import cite
from pincite.answer.validators import run_validator
from pincite.domain.codes import Outcome, RefusalReason, Support
from pincite.domain.errors import UpstreamError
from pincite.domain.protocols import Generator, SentenceSplitter, Validator
from pincite.domain.types import (
    AnswerDraft,
    DroppedSentence,
    Evidence,
    Generation,
    Question,
    Refusal,
    Sentence,
    Span,
    StageTime,
    Verdict,
    Versioned,
)

RESOLUTION = Versioned(id="resolution", version="1")
#: What is left after failing sentences are dropped counts as an answer from this share on.
_MIN_SUPPORTED_SHARE = 0.5

#: What the person who asked reads. Plain, and the same for everyone.
MESSAGES: dict[RefusalReason, str] = {
    RefusalReason.NO_EVIDENCE: "No passage that you may see was found for this question.",
    RefusalReason.NOT_ANSWERABLE: "The passages found do not answer this question.",
    RefusalReason.UNSUPPORTED: "No answer could be given that the passages found support.",
    RefusalReason.GENERATOR_DECLINED: "The passages found are not sufficient to answer this question.",
    RefusalReason.GENERATOR_FAILED: "The answer could not be written because the language model failed.",
    RefusalReason.EVIDENCE_CHANGED: "The passages changed while the answer was waiting; please ask again.",
    RefusalReason.TOO_MANY_ATTEMPTS: "The answer was given up after several attempts; please ask again.",
}


def refuse(
    reason: RefusalReason,
    *,
    detail: str | None = None,
    generation: Generation | None = None,
    dropped: Sequence[DroppedSentence] = (),
    n_generations: int = 0,
    stages: Sequence[StageTime] = (),
) -> AnswerDraft:
    """A refusal with the standard message of its reason."""
    message = MESSAGES[reason]
    return AnswerDraft(
        outcome=Outcome.REFUSAL,
        text=message,
        sentences=(),
        refusal=Refusal(reason=reason, message=message, detail=detail),
        dropped=tuple(dropped),
        n_generations=n_generations,
        generation=generation,
        stages=tuple(stages),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """A generated sentence after all checks; ``gap`` is the white space before it."""

    sentence: Sentence
    markers: tuple[str, ...]
    gap: str

    @property
    def good(self) -> bool:
        return self.sentence.supported and bool(self.sentence.citations)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    number: int
    generation: Generation
    checked: tuple[_Checked, ...]

    @property
    def share(self) -> float:
        """Share of the sentences that passed; 0.0 without sentences."""
        return sum(c.good for c in self.checked) / len(self.checked) if self.checked else 0.0


class _Clock:
    """Wall time by stage, summed over attempts, in the order of first use."""

    def __init__(self) -> None:
        self._took: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._took[name] = self._took.get(name, 0.0) + (time.perf_counter() - begin) * 1000.0

    def times(self) -> tuple[StageTime, ...]:
        return tuple(StageTime(name=name, took_ms=took) for name, took in self._took.items())


class Answerer:
    """Makes an answer or a refusal from a question and its evidence. Stateless.

    Args:
        generator: Writes candidate answers.
        validators: Each must pass every sentence that is shown; at least one.
        splitter: Splits the generated text.
        threshold: Answerability below which is refused; None takes the generator's own.
    """

    def __init__(
        self,
        *,
        generator: Generator,
        validators: Sequence[Validator],
        splitter: SentenceSplitter,
        threshold: float | None = None,
    ) -> None:
        if not validators:
            raise ValueError("an answerer without validators would show what nobody checked")
        self._generator = generator
        self._validators = tuple(validators)
        self._splitter = splitter
        self._threshold = threshold

    @property
    def generator_id(self) -> str:
        """The generator's id with version."""
        return self._generator.generator_id

    @property
    def validator_ids(self) -> tuple[str, ...]:
        """The validators' ids with versions."""
        return (str(RESOLUTION), *(str(v.validator) for v in self._validators))

    def answer(self, question: Question, evidence: Sequence[Evidence]) -> AnswerDraft:
        """Answer or refuse.

        A first generation with a failing sentence is followed by exactly one stricter one; the better of
        the two is taken. Failing sentences are dropped; what is left is an answer if at least half of the
        sentences passed, else the answer is refused as ``unsupported``.

        Raises:
            UpstreamError: retryable ones only; the caller decides when to try again.
        """
        clock = _Clock()
        if not evidence:
            return refuse(RefusalReason.NO_EVIDENCE)
        attempts: list[_Attempt] = []
        failed: UpstreamError | None = None
        generation: Generation | None = None
        n_generations = 0
        for strict in (False, True):
            try:
                with clock.stage("generate"):
                    generation = self._generate(question, evidence, strict=strict)
            except UpstreamError as exc:
                if exc.retryable:
                    raise
                failed = exc
                break
            n_generations += 1
            reason = _refusal_of(generation)
            if reason is not None:
                dropped = _dropped(attempts, None)
                return refuse(
                    reason,
                    generation=generation,
                    dropped=dropped,
                    n_generations=n_generations,
                    stages=clock.times(),
                )
            checked = self._check(generation.text, evidence, clock)
            attempts.append(_Attempt(number=n_generations, generation=generation, checked=checked))
            if attempts[-1].share == 1.0:
                break
        return self._decide(attempts, failed, generation, n_generations, clock.times())

    def _generate(self, question: Question, evidence: Sequence[Evidence], *, strict: bool) -> Generation:
        generation = self._generator.generate(question, evidence, strict=strict)
        if self._threshold is not None and generation.answerability is not None:
            return replace(generation, threshold=self._threshold)
        return generation

    def _decide(
        self,
        attempts: Sequence[_Attempt],
        failed: UpstreamError | None,
        generation: Generation | None,
        n_generations: int,
        stages: tuple[StageTime, ...],
    ) -> AnswerDraft:
        # Ties go to the later attempt: it was written under the stricter rules.
        best = max(attempts, key=lambda a: (a.share, a.number), default=None)
        if best is None or best.share < _MIN_SUPPORTED_SHARE:
            return refuse(
                RefusalReason.UNSUPPORTED if failed is None else RefusalReason.GENERATOR_FAILED,
                detail=None if failed is None else failed.code,
                generation=best.generation if best else generation,
                dropped=_dropped(attempts, None),
                n_generations=n_generations,
                stages=stages,
            )
        text, sentences = _assemble([c for c in best.checked if c.good])
        return AnswerDraft(
            outcome=Outcome.ANSWER,
            text=text,
            sentences=sentences,
            refusal=None,
            dropped=_dropped(attempts, best),
            n_generations=n_generations,
            generation=best.generation,
            stages=stages,
        )

    def _check(self, text: str, evidence: Sequence[Evidence], clock: _Clock) -> tuple[_Checked, ...]:
        by_id = {item.citation_id: item for item in evidence}
        with clock.stage("split"):
            parsed = parse(text, by_id.keys())
            spans = self._splitter.split(parsed.text)
            owned = parsed.assign(spans)
        with clock.stage("validate"):
            out: list[_Checked] = []
            previous = 0
            for span, markers in zip(spans, owned, strict=True):
                gap = parsed.text[previous : span.start]
                out.append(self._check_sentence(parsed, span, markers, by_id, gap))
                previous = span.end
        return tuple(out)

    def _check_sentence(
        self,
        parsed: ParsedText,
        span: Span,
        markers: tuple[Marker, ...],
        by_id: dict[str, Evidence],
        gap: str,
    ) -> _Checked:
        shown = span.slice(parsed.text)
        cited = [by_id[i] for i in dict.fromkeys(i for m in markers for i in m.ids)]
        errors = [error for m in markers for error in m.errors]
        # Brackets and links in a verbatim quote are the source's own, not the generator's.
        raw = parsed.raw(span, markers)
        if raw != shown and any(raw in item.text for item in cited):
            shown, errors = raw, []
        verdicts: list[Verdict] = [_resolution(cited, [f"{e.raw} ({e.code})" for e in errors])]
        if verdicts[0].support is Support.SUPPORTED:
            passages = [item.passage for item in cited]
            verdicts += [run_validator(v, shown, passages) for v in self._validators]
        sentence = Sentence(
            text=shown,
            span=Span(start=0, end=len(shown)),
            citations=tuple(cite(shown, item, self._splitter) for item in cited),
            verdicts=tuple(verdicts),
        )
        return _Checked(sentence=sentence, markers=tuple(m.span.slice(parsed.generated) for m in markers), gap=gap)


def _refusal_of(generation: Generation) -> RefusalReason | None:
    score, threshold = generation.answerability, generation.threshold
    # `not >=` refuses NaN too.
    if score is not None and (not math.isfinite(score) or (threshold is not None and not score >= threshold)):
        return RefusalReason.NOT_ANSWERABLE
    return RefusalReason.GENERATOR_DECLINED if generation.declined else None


def _resolution(cited: Sequence[Evidence], errors: Sequence[str]) -> Verdict:
    if errors:
        support, reason = Support.UNSUPPORTED, "citations that do not resolve: " + ", ".join(errors[:8])
    elif not cited:
        support, reason = Support.UNSUPPORTED, "the sentence cites nothing"
    else:
        support, reason = Support.SUPPORTED, f"{len(cited)} of {len(cited)} citations resolve"
    return Verdict(validator=RESOLUTION, support=support, score=None, reason=reason)


def _assemble(kept: Sequence[_Checked]) -> tuple[str, tuple[Sentence, ...]]:
    """The shown text and its sentences with their spans in it."""
    parts: list[str] = []
    sentences: list[Sentence] = []
    length = 0
    for number, item in enumerate(kept):
        if number:
            # A dropped neighbour takes its gap along; words never run together unless they did before.
            gap = item.gap if not item.gap or "\n" in item.gap or "\r" in item.gap else " "
            dropped_between = not gap and not parts[-1][-1:].isspace() and item.sentence.text[:1].isascii()
            gap = " " if dropped_between else gap
            parts.append(gap)
            length += len(gap)
        text = item.sentence.text
        sentences.append(replace(item.sentence, span=Span(start=length, end=length + len(text))))
        parts.append(text)
        length += len(text)
    return "".join(parts), tuple(sentences)


def _dropped(attempts: Sequence[_Attempt], shown: _Attempt | None) -> tuple[DroppedSentence, ...]:
    """Every sentence that was generated and is not shown."""
    return tuple(
        DroppedSentence(
            text=item.sentence.text,
            attempt=attempt.number,
            markers=item.markers,
            verdicts=item.sentence.verdicts,
        )
        for attempt in attempts
        for item in attempt.checked
        if attempt is not shown or not item.good
    )
