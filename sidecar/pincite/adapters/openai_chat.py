"""Chat models over the OpenAI wire format: DeepSeek, vLLM, Ollama, llama.cpp and OpenAI itself."""

from __future__ import annotations

from typing import Any

from pincite.domain.errors import ConfigError, UpstreamError

#: A reply longer than this is no answer of a few sentences, whatever the server's token limit did.
_MAX_REPLY_CHARS = 40_000


class OpenAIChat:
    """Fulfils ``ChatModel``. One request per completion: whether to retry is decided outside.

    Args:
        base_url: The server's ``/v1``.
        model: The model's name there.
        api_key: Bearer token; servers at home want none.
        timeout_s: For the whole request, in seconds.
        max_tokens: Cap on the reply; a reply that hits it is refused as ``llm_truncated``.
        seed: Sent along for reproducible replies where the server honours it.

    Raises:
        ConfigError: ``llm_not_configured``: no base URL or no model.
    """

    def __init__(
        self,
        *,
        base_url: str | None,
        model: str | None,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        max_tokens: int = 800,
        seed: int = 0,
    ) -> None:
        missing = [
            name
            for name, value in (("PINCITE_OPENAI__BASE_URL", base_url), ("PINCITE_OPENAI__MODEL", model))
            if not value
        ]
        if missing or base_url is None or model is None:
            raise ConfigError(
                "llm_not_configured",
                "the openai generator needs a server and a model: " + " and ".join(missing) + " not set",
                mend="Set PINCITE_OPENAI__BASE_URL and PINCITE_OPENAI__MODEL, or PINCITE_GENERATOR=extractive.",
                subject=missing[0],
            )
        self._base_url = base_url
        self._model = model
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._max_tokens = max_tokens
        self._seed = seed
        self._client: Any = None

    @property
    def model(self) -> str:
        """The model's name, as the server knows it."""
        return self._model

    def complete(self, system: str, user: str) -> str:
        """One completion at temperature 0.

        Raises:
            UpstreamError: ``llm_timeout``, ``llm_unreachable``, ``llm_rate_limited`` (retryable);
                ``llm_auth``, ``llm_truncated``, ``llm_bad_reply`` (not).
        """
        import openai

        try:
            reply = self._connected().chat.completions.create(
                model=self._model,
                messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
                temperature=0,
                max_tokens=self._max_tokens,
                seed=self._seed,
                stream=False,
            )
        except openai.APITimeoutError:
            raise self._failure("llm_timeout", f"did not answer within {self._timeout_s:g} s", True) from None
        except openai.APIConnectionError:
            raise self._failure("llm_unreachable", "cannot be reached", True) from None
        except openai.APIStatusError as exc:
            raise self._status(exc.status_code) from None
        except (openai.OpenAIError, ValueError, TypeError) as exc:
            kind = type(exc).__name__
            raise self._failure("llm_bad_reply", f"sent what is not a chat completion ({kind})") from None
        return self._content(reply)

    def _connected(self) -> Any:
        if self._client is None:
            import openai

            self._client = openai.OpenAI(
                base_url=self._base_url,
                # The client insists on a key; servers without keys ignore it.
                api_key=self._api_key or "none",
                timeout=self._timeout_s,
                max_retries=0,
            )
        return self._client

    def _content(self, reply: Any) -> str:
        try:
            choice = reply.choices[0]
            content, finish = choice.message.content, choice.finish_reason
        except (AttributeError, IndexError, TypeError):
            raise self._failure("llm_bad_reply", "sent what is not a chat completion") from None
        if finish == "length":
            raise self._failure("llm_truncated", f"was cut off at {self._max_tokens} tokens")
        if finish not in ("stop", None):
            raise self._failure("llm_bad_reply", f"ended with {str(finish)[:40]!r}")
        if not isinstance(content, str) or len(content) > _MAX_REPLY_CHARS:
            raise self._failure("llm_bad_reply", "sent no text, or far too much")
        return content

    def _status(self, status: int) -> UpstreamError:
        if status in (401, 403):
            return self._failure("llm_auth", f"refused the credentials (HTTP {status})")
        if status == 429:
            return self._failure("llm_rate_limited", "asks to slow down (HTTP 429)", True)
        if status >= 500:
            return self._failure("llm_unreachable", f"failed (HTTP {status})", True)
        return self._failure("llm_bad_reply", f"rejected the request (HTTP {status})")

    def _failure(self, code: str, what: str, retryable: bool = False) -> UpstreamError:
        mend = {
            "llm_auth": "Check PINCITE_OPENAI__API_KEY.",
            "llm_truncated": "Raise PINCITE_OPENAI__MAX_TOKENS.",
            "llm_timeout": "Raise PINCITE_OPENAI__TIMEOUT_S or use a faster model.",
        }.get(code, "Check PINCITE_OPENAI__BASE_URL and PINCITE_OPENAI__MODEL, and the server's log.")
        message = f"the language model server {what}"
        return UpstreamError(code, message, retryable=retryable, mend=mend, subject=self._base_url)
