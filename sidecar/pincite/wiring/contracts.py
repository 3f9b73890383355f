"""The JSON Schemas of ``contracts/schemas`` as validators, with errors that name the field.

Messages never hold the value that was wrong: it may be a question, a passage, or 100 kB long.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError, best_match
from referencing import Registry, Resource

from pincite import resources

_SCHEMAS = "contracts/schemas"
_SUFFIX = ".schema.json"


@cache
def names() -> tuple[str, ...]:
    """Names of all schemas, sorted (``answer``, ``chunk`` …)."""
    folder = resources.path(_SCHEMAS)
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}")))


@cache
def schema(name: str) -> dict[str, Any]:
    """One schema, parsed."""
    loaded: dict[str, Any] = resources.load_json(f"{_SCHEMAS}/{name}{_SUFFIX}")
    return loaded


@cache
def _registry() -> Registry[Any]:
    registry: Registry[Any] = Registry()
    loaded = [Resource.from_contents(schema(name)) for name in names()]
    return registry.with_resources([(resource.id() or "", resource) for resource in loaded])


@cache
def validator(name: str) -> Draft202012Validator:
    """The validator of one schema; ``date`` formats are checked."""
    return Draft202012Validator(schema(name), registry=_registry(), format_checker=FormatChecker(["date"]))


def violation(name: str, document: Any) -> ValidationError | None:
    """The most telling violation of the schema by the document, or None when it is valid."""
    checker = validator(name)
    if next(checker.iter_errors(document), None) is None:
        return None
    found: ValidationError = best_match(checker.iter_errors(document))
    return found


def field(error: ValidationError) -> str:
    """Where the violation is, as ``candidates[3].bm25``; ``body`` for the document itself."""
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "body"


def rule(error: ValidationError) -> str:
    """What the schema asks for at that place, in words; never the value that broke it."""
    wanted: Any = error.validator_value
    within: Any = error.schema
    match error.validator:
        case "required":
            present = error.instance if isinstance(error.instance, dict) else {}
            missing = [name for name in wanted if name not in present]
            return f"lacks {', '.join(missing)}"
        case "additionalProperties":
            known = ", ".join(sorted(within.get("properties", {})))
            return f"has a field that is not known; known are: {known}"
        case "type":
            kinds = wanted if isinstance(wanted, list) else [wanted]
            return f"must be of type {' or '.join(kinds)}"
        case "minLength" if wanted == 1:
            return "must not be empty"
        case "minLength" | "maxLength":
            bound = "least" if error.validator == "minLength" else "most"
            return f"must have at {bound} {wanted} characters"
        case "minItems" | "maxItems":
            bound = "least" if error.validator == "minItems" else "most"
            return f"must have at {bound} {wanted} items"
        case "minimum":
            return f"must be at least {wanted}"
        case "maximum":
            return f"must be at most {wanted}"
        case "enum":
            return f"must be one of {', '.join(str(value) for value in wanted)}"
        case "format":
            return f"must be a {wanted}"
        case _:
            return f"breaks the rule {error.validator}: {str(wanted)[:200]}"
