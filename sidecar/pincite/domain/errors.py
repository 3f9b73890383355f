"""The tree of errors, and the closed list of their codes.

::

    PinciteError
    ├── UserError        the input is at fault; HTTP 400, exit 2
    │   ├── NotFound     what was named does not exist; HTTP 404, exit 2
    │   └── SourceError  one source file could not be taken in; the run goes on with the others
    ├── ConfigError      the installation is at fault; HTTP 500, exit 3
    ├── ContractError    a peer broke the wire contract; HTTP 502, exit 4
    ├── UpstreamError    a peer (cluster, sidecar, broker, LLM) failed; HTTP 503, exit 4
    └── Overloaded       our own queue is full; HTTP 429, exit 5

Each error says what is wrong with which input (``subject``) and how to mend it (``mend``).
Codes are stable: clients may switch on them, messages may change.
"""

from __future__ import annotations

from typing import Any, ClassVar


class PinciteError(Exception):
    """Base of all errors that Pincite raises on purpose.

    Args:
        code: Stable machine-readable code, for instance ``source_empty``.
        message: One sentence that says what is wrong and names the input.
        mend: One sentence that says what to do about it.
        subject: The input at fault (a path, a setting, an index, a URL), if there is one.
        detail: Further machine-readable facts, JSON-compatible.
    """

    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        code: str,
        message: str,
        *,
        mend: str = "",
        subject: str | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.mend = mend
        self.subject = subject
        self.detail = dict(detail or {})

    def as_dict(self) -> dict[str, Any]:
        """The error as a JSON-compatible mapping: code, message, mend, subject, detail."""
        return {
            "code": self.code,
            "message": self.message,
            "mend": self.mend or None,
            "subject": self.subject,
            **({"detail": self.detail} if self.detail else {}),
        }


class UserError(PinciteError):
    """The caller's input is at fault."""

    http_status = 400
    exit_code = 2


class NotFound(UserError):
    """What the caller named does not exist, or the caller may not see it."""

    http_status = 404


class SourceError(UserError):
    """One source could not be taken in. ``subject`` is its file name."""

    http_status = 422


class ConfigError(PinciteError):
    """The installation or its settings are at fault."""

    exit_code = 3


class ContractError(PinciteError):
    """A peer sent something that the contract does not allow."""

    http_status = 502
    exit_code = 4


class UpstreamError(PinciteError):
    """A peer failed: cluster, sidecar, broker or language model."""

    http_status = 503
    exit_code = 4

    def __init__(self, code: str, message: str, *, retryable: bool = False, **kwargs: Any) -> None:
        super().__init__(code, message, **kwargs)
        self.retryable = retryable


class Overloaded(PinciteError):
    """Our own bounded queue is full; try again later."""

    http_status = 429
    exit_code = 5
