"""JSON in, JSON out: strict on both sides."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

from flask import Response, current_app, request
from flask.json.provider import DefaultJSONProvider

from pincite.domain.errors import UserError
from pincite.serve.problems import UnsupportedMedia
from pincite.wiring import contracts

MAX_TEXT_CHARS = 8192
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class StrictJSON(DefaultJSONProvider):
    """NaN and infinities are an error on the way out, and text is sent as it is."""

    ensure_ascii = False
    sort_keys = False

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """Serialise.

        Raises:
            ValueError: A number in ``obj`` is not finite.
        """
        return super().dumps(obj, allow_nan=False, **kwargs)


def reply(document: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(current_app.json.dumps(document), status=status, mimetype="application/json")


def _not_json(why: str) -> UserError:
    return UserError("body_not_json", f"The body is not valid JSON: {why}.", subject="body")


def _reject_constant(name: str) -> NoReturn:
    raise _not_json(f"{name} is not a JSON number")


def _finite(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise _not_json("a number is too large")
    return value


def parse(raw: bytes) -> Any:
    """JSON bytes to values.

    Raises:
        UserError: ``body_not_json``: not UTF-8, not JSON, NaN or an infinity, nested too deep, or a string
            with half a surrogate pair, which no UTF-8 can carry onwards.
    """
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_reject_constant, parse_float=_finite)
        if _SURROGATE_ESCAPE.search(raw):
            json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError:
        raise _not_json("it is not UTF-8") from None
    except UnicodeEncodeError:
        raise _not_json("a string holds half a surrogate pair") from None
    except RecursionError:
        raise _not_json("it is nested too deep") from None
    except json.JSONDecodeError as exc:
        raise _not_json(f"{exc.msg} at line {exc.lineno}, column {exc.colno}") from None
    except ValueError:
        raise _not_json("a number has too many digits") from None
    return document


def read(
    schema: str, *, text_field: str | None = None, plainly_valid: Callable[[object], bool] | None = None
) -> dict[str, Any]:
    """The request's body, checked against ``contracts/schemas``.

    Args:
        schema: Name of the schema.
        text_field: The field that holds the query or question: for it, empty and too long have codes of
            their own (``question_empty``, ``question_too_long``).
        plainly_valid: A quick test; what passes it is valid by the schema, which is then not asked.

    Raises:
        UserError: ``body_not_json``, ``body_invalid``, ``<text_field>_empty``, ``<text_field>_too_long``.
        UnsupportedMedia: ``media_type_unsupported``.
    """
    if request.mimetype != "application/json":
        raise UnsupportedMedia(
            "media_type_unsupported",
            "The body must be JSON.",
            mend="Send Content-Type: application/json.",
            subject="Content-Type",
        )
    document = parse(request.get_data(cache=False))
    if text_field is not None and isinstance(document, dict):
        _check_text(text_field, document.get(text_field))
    quick = plainly_valid is not None and plainly_valid(document)
    error = None if quick else contracts.violation(schema, document)
    if error is not None:
        where = contracts.field(error)
        raise UserError(
            "body_invalid",
            f"{where} {contracts.rule(error)}.",
            mend=f"See contracts/schemas/{schema}.schema.json.",
            subject=where,
        )
    checked: dict[str, Any] = document
    return checked


def _check_text(field: str, value: Any) -> None:
    if not isinstance(value, str):
        return
    if not value.strip():
        raise UserError(f"{field}_empty", f"{field} is empty.", mend=f"Send a {field}.", subject=field)
    if len(value) > MAX_TEXT_CHARS:
        raise UserError(
            f"{field}_too_long",
            f"{field} has {len(value)} characters; {MAX_TEXT_CHARS} are allowed.",
            mend=f"Send a shorter {field}.",
            subject=field,
        )
