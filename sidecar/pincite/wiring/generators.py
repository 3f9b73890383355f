"""Settings to an answerer: generator, validators, splitter."""

from __future__ import annotations

from pincite.answer.compose import Answerer
from pincite.answer.extractive import ExtractiveGenerator
from pincite.answer.llm import ChatGenerator
from pincite.answer.validators import Citeguard, LinksStand, NumbersStand
from pincite.domain.errors import ConfigError
from pincite.domain.protocols import Generator
from pincite.text.sentences import LegalSentenceSplitter
from pincite.wiring.parts import LazyEncoder
from pincite.wiring.settings import Settings


def build_answerer(settings: Settings, encoder: LazyEncoder) -> Answerer:
    """The answerer that the settings ask for.

    Raises:
        ConfigError: ``generator_unknown``, ``llm_not_configured``, or the encoder cannot be loaded.
    """
    splitter = LegalSentenceSplitter()
    return Answerer(
        generator=_generator(settings, encoder, splitter),
        validators=[Citeguard(encoder.get()), NumbersStand(), LinksStand()],
        splitter=splitter,
    )


def _generator(settings: Settings, encoder: LazyEncoder, splitter: LegalSentenceSplitter) -> Generator:
    if settings.generator == "extractive":
        return ExtractiveGenerator(encoder.get(), splitter, threshold=settings.answerability_threshold)
    if settings.generator == "openai":
        from pincite.adapters.openai_chat import OpenAIChat

        given = settings.openai
        return ChatGenerator(
            OpenAIChat(
                base_url=given.base_url,
                model=given.model,
                api_key=given.api_key.get_secret_value() if given.api_key else None,
                timeout_s=given.timeout_s,
                max_tokens=given.max_tokens,
            )
        )
    raise ConfigError(
        "generator_unknown",
        f"PINCITE_GENERATOR={settings.generator!r} names no generator.",
        mend="Set it to extractive or openai.",
        subject="PINCITE_GENERATOR",
    )
