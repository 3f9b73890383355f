"""Every error as one shape: ``application/problem+json`` (RFC 9457, contracts/schemas/problem.schema.json)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from flask import Flask, Response, current_app, g, request
from werkzeug.exceptions import HTTPException

from pincite.domain.errors import ContractError, Overloaded, PinciteError, UpstreamError, UserError

_log = structlog.stdlib.get_logger(__name__)

_HTTP_CODES = {
    404: "route_unknown",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "media_type_unsupported",
}


class Unauthorized(UserError):
    """The sidecar's token is missing or wrong."""

    http_status = 401


class UnsupportedMedia(UserError):
    """The body is not JSON."""

    http_status = 415


class ContractMismatch(ContractError):
    """The peer speaks another version of the hook's contract."""

    http_status = 409


def request_id() -> str:
    """The id of the request in hand."""
    return str(g.get("request_id", "unknown"))


def problem(status: int, *, code: str, detail: str, mend: str = "", subject: str | None = None) -> Response:
    """A problem response.

    Args:
        status: HTTP status, 400 to 599.
        code: Stable machine-readable code.
        detail: One sentence for people.
        mend: One sentence on what to do about it.
        subject: The input at fault.
    """
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    body: dict[str, Any] = {
        "type": f"urn:pincite:problem:{code}",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "mend": mend or None,
        "subject": subject,
        "request_id": request_id(),
        "instance": request.path,
    }
    g.problem_code = code
    response = Response(current_app.json.dumps(body), status=status, mimetype="application/problem+json")
    if status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="pincite"'
    return response


def _pincite_error(error: PinciteError) -> Response:
    if error.http_status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.warning("request_failed", code=error.code, subject=error.subject, request_id=request_id())
    response = problem(
        error.http_status, code=error.code, detail=error.message, mend=error.mend, subject=error.subject
    )
    if isinstance(error, Overloaded) or (isinstance(error, UpstreamError) and error.retryable):
        response.headers["Retry-After"] = "1"
    return response


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    if status < HTTPStatus.BAD_REQUEST:
        # A redirect is not an error; Flask raises it for a route with a trailing slash.
        return Response(status=status, headers=error.get_headers())
    code = _HTTP_CODES.get(status, "request_invalid" if status < 500 else "internal_error")
    response = problem(status, code=code, detail=error.description or HTTPStatus(status).phrase)
    for name, value in error.get_headers():
        if name.lower() in {"allow", "retry-after"}:
            response.headers[name] = value
    return response


def _unknown_error(error: Exception) -> Response:
    # The type and the place say enough to look for it; the message may hold a question or a passage.
    _log.error("internal_error", error=type(error).__name__, request_id=request_id(), where=_where(error))
    return problem(
        500,
        code="internal_error",
        detail="Something went wrong that Pincite did not foresee.",
        mend="Report it with the request_id; the log has the place.",
    )


def _where(error: BaseException) -> list[str]:
    """``file:line`` of each frame, innermost last: a traceback without values."""
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return frames[-12:]


def install(app: Flask) -> None:
    """Register the handlers: our errors, HTTP's, and all others."""
    app.register_error_handler(PinciteError, _pincite_error)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _unknown_error)
