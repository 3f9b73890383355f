"""Every golden example: the valid ones validate, the invalid ones do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from pincite import resources
from pincite.domain.codes import AnswerState, Outcome, RefusalReason, Support

SCHEMAS = {p.name.removesuffix(".schema.json"): p for p in resources.path("contracts/schemas").glob("*.json")}
EXAMPLES = sorted(resources.path("contracts/examples").glob("*/*/*.json"))


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


REGISTRY: Registry[Any] = Registry().with_resources(
    [(load(path)["$id"], Resource.from_contents(load(path))) for path in SCHEMAS.values()]
)


def validator(name: str) -> Draft202012Validator:
    checker = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator(load(SCHEMAS[name]), registry=REGISTRY, format_checker=checker)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schema_is_a_schema(name: str) -> None:
    schema = load(SCHEMAS[name])
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:pincite:contract:1:{name}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: "/".join(p.parts[-3:]))
def test_example(path: Path) -> None:
    name, kind = path.parts[-3], path.parts[-2]
    assert kind in ("valid", "invalid")
    errors = list(validator(name).iter_errors(load(path)))
    assert bool(errors) == (kind == "invalid"), [e.message for e in errors]


def test_every_folder_has_both_kinds() -> None:
    for folder in resources.path("contracts/examples").iterdir():
        assert folder.name in SCHEMAS
        for kind in ("valid", "invalid"):
            assert list((folder / kind).glob("*.json")), f"{folder.name}/{kind} is empty"


def test_closed_lists_of_the_answer_are_those_of_the_code() -> None:
    properties = load(SCHEMAS["answer"])["properties"]
    assert properties["state"]["enum"] == [s.value for s in AnswerState]
    assert properties["outcome"]["enum"] == [*[o.value for o in Outcome], None]
    assert properties["refusal"]["properties"]["reason"]["enum"] == [r.value for r in RefusalReason]
    verdict = properties["sentences"]["items"]["properties"]["verdicts"]["items"]
    assert verdict["properties"]["support"]["enum"] == [s.value for s in Support]
