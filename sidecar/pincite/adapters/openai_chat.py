"""Chat models over the OpenAI wire format: DeepSeek, vLLM, Ollama, llama.cpp and OpenAI itself."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
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
        timeout_s: For the whole request, from connecting to the last byte, in seconds. A server that sends
            a byte now and then does not stretch it.
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
            reply = _within(self._timeout_s, lambda wire: self._request(wire, system, user))
        except (TimeoutError, openai.APITimeoutError):
            raise self._failure("llm_timeout", f"did not answer within {self._timeout_s:g} s", True) from None
        except openai.APIConnectionError:
            raise self._failure("llm_unreachable", "cannot be reached", True) from None
        except openai.APIStatusError as exc:
            raise self._status(exc.status_code) from None
        except (openai.OpenAIError, ValueError, TypeError) as exc:
            kind = type(exc).__name__
            raise self._failure("llm_bad_reply", f"sent what is not a chat completion ({kind})") from None
        return self._content(reply)

    def _request(self, wire: _Wire, system: str, user: str) -> Any:
        """One request on a connection of its own, so that cutting it cuts no other request."""
        import openai

        with (
            openai.DefaultHttpxClient(timeout=self._timeout_s, event_hooks={"request": [wire.watch]}) as http,
            openai.OpenAI(
                base_url=self._base_url,
                # The client insists on a key; servers without keys ignore it.
                api_key=self._api_key or "none",
                timeout=self._timeout_s,
                max_retries=0,
                http_client=http,
            ) as client,
        ):
            return client.chat.completions.create(
                model=self._model,
                messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
                temperature=0,
                max_tokens=self._max_tokens,
                seed=self._seed,
                stream=False,
            )

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


class _Wire:
    """The socket of one request, to be cut from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def watch(self, request: Any) -> None:
        """Hook of the HTTP client: learn of the socket as soon as there is one."""
        request.extensions["trace"] = self._trace

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            return
        connected = info["return_value"].get_extra_info("socket")
        with self._lock:
            self._sockets.append(connected)
            if self._is_cut:
                _shut(connected)

    def cut(self) -> None:
        """End the connection, and any that is still being made; whoever reads from it gets an error."""
        with self._lock:
            self._is_cut = True
            for connected in self._sockets:
                _shut(connected)


def _shut(connected: socket.socket) -> None:
    # Shut down, not closed: a closed descriptor could be given to another file while a thread reads from it.
    # The plain socket's method: that of a TLS socket takes the TLS state away from under the reader.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _within(timeout_s: float, work: Callable[[_Wire], Any]) -> Any:
    """The result of ``work``, or what it raised.

    The HTTP client's own timeout is for each read, so the work runs in a thread, whose connection is cut
    when the time is over.

    Raises:
        TimeoutError: the work was not done in time.
    """
    wire = _Wire()
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(wire))
        except BaseException as exc:
            errors.append(exc)

    thread = threading.Thread(target=run, name="pincite-chat", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        wire.cut()
        raise TimeoutError
    if errors:
        raise errors[0]
    return results[0]
