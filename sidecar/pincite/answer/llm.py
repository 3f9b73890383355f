"""The generator over a chat model: a strict prompt, quoted evidence, one completion."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from pincite.domain.errors import ConfigError
from pincite.domain.protocols import ChatModel
from pincite.domain.types import Evidence, Generation, PromptRef, Question

#: What a model says when the passages do not answer.
DECLINE = "INSUFFICIENT"
_HEADER = re.compile(r"\A\{#\s*\n(.*?)\n#\}\n", re.DOTALL)
_DECLINED = re.compile(rf"\W*{DECLINE}\W*", re.IGNORECASE)
#: What could end a quoted passage early, or begin another one.
_TAG = re.compile(r"<(?=\s*/?\s*passage\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt template with its identity."""

    ref: PromptRef
    template: str

    def render(self, question: str, evidence: Sequence[Evidence], *, strict: bool) -> tuple[str, str]:
        """(system message, user message). Passages and question are data: nothing in them is a template."""
        import jinja2

        # No HTML is made here; autoescape would change the passages that are to be quoted exactly.
        environment = jinja2.Environment(
            undefined=jinja2.StrictUndefined,
            autoescape=False,  # noqa: S701
        )
        template = environment.from_string(self.template)
        items = [
            {
                "citation_id": item.citation_id,
                "title": _as_attribute(item.passage.chunk.title),
                "text": _as_data(item.text),
            }
            for item in evidence
        ]
        shared = {"decline": DECLINE, "strict": strict}
        system = template.render(part="system", **shared)
        user = template.render(part="user", question=_as_data(question), evidence=items, **shared)
        return system.strip(), user.strip()


def load_prompt(name: str = "strict.en") -> Prompt:
    """A shipped prompt by its id.

    Raises:
        ConfigError: ``prompt_unknown`` or ``prompt_invalid``, naming the prompt.
    """
    file = resources.files("pincite.answer.prompts").joinpath(f"{name}.j2")
    if not re.fullmatch(r"[a-z0-9._-]{1,60}", name) or not file.is_file():
        raise ConfigError("prompt_unknown", f"there is no prompt {name!r}", mend="Use strict.en.", subject=name)
    raw = file.read_text(encoding="utf-8")
    header = _HEADER.match(raw)
    if header is None:
        raise ConfigError("prompt_invalid", f"prompt {name!r} has no TOML header", subject=name)
    meta = tomllib.loads(header[1])
    sha256 = hashlib.sha256(raw.encode("utf-8")).hexdigest()
    ref = PromptRef(id=str(meta["id"]), version=str(meta["version"]), sha256=sha256)
    return Prompt(ref=ref, template=raw[header.end() :])


class ChatGenerator:
    """Fulfils ``Generator`` with a chat model.

    It has no answerability of its own: the model declines with ``INSUFFICIENT``, and the validators judge
    every sentence.

    Args:
        chat: The model.
        prompt: The prompt; the default is the strict English one.
    """

    def __init__(self, chat: ChatModel, prompt: Prompt | None = None) -> None:
        self._chat = chat
        self._prompt = prompt or load_prompt()

    @property
    def generator_id(self) -> str:
        """Stable id with version."""
        return "openai@1"

    def generate(self, question: Question, evidence: Sequence[Evidence], *, strict: bool) -> Generation:
        """One completion. A reply that is only the decline word, however dressed, is a decline."""
        system, user = self._prompt.render(question.text, evidence, strict=strict)
        reply = self._chat.complete(system, user)
        return Generation(
            text=reply,
            declined=_DECLINED.fullmatch(reply) is not None,
            answerability=None,
            threshold=None,
            model=self._chat.model,
            prompt=self._prompt.ref,
        )


def _as_data(text: str) -> str:
    """Text that cannot close the quotation that it stands in; code points stay one for one."""
    return _TAG.sub("‹", text)


def _as_attribute(text: str) -> str:
    return _as_data(" ".join(text.split())).replace('"', "'")[:200]
