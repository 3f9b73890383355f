"""The OpenAPI document, the schemas beside it and the running app agree."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import ignored_auth
from tiny_services import TinyServices

from pincite import resources
from pincite.serve.app import create_app
from pincite.wiring import contracts

_URN = "urn:pincite:contract:1:"


def openapi() -> dict[str, Any]:
    """``contracts/openapi.yaml`` with the schemas put in their places."""
    document: dict[str, Any] = yaml.safe_load(resources.path("contracts/openapi.yaml").read_text("utf-8"))
    schemas = document["components"]["schemas"]
    for name, reference in schemas.items():
        assert reference == {"$ref": f"schemas/{name}.schema.json"}
        schemas[name] = _local(copy.deepcopy(contracts.schema(name)))
    return document


def _local(node: Any) -> Any:
    if isinstance(node, dict):
        out = {k: _local(v) for k, v in node.items() if k not in {"$schema", "$id"}}
        if str(node.get("$ref", "")).startswith(_URN):
            out["$ref"] = "#/components/schemas/" + node["$ref"].removeprefix(_URN)
        return out
    return [_local(item) for item in node] if isinstance(node, list) else node


def test_the_document_is_valid() -> None:
    assert list(OpenAPIV31SpecValidator(openapi()).iter_errors()) == []


def test_every_schema_of_the_sidecar_is_named() -> None:
    used = set(openapi()["components"]["schemas"])
    # These two cross other borders: the index, and the search response.
    assert set(contracts.names()) - used == {"chunk", "ext_pincite"}


def test_the_apps_routes_are_the_documents() -> None:
    app = create_app(TinyServices())
    served = {
        (re.sub(r"<(?:[^:>]+:)?([^>]+)>", r"{\1}", rule.rule), method.lower())
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    documented = {(path, method) for path, item in openapi()["paths"].items() for method in item}
    assert served == documented


def _examples() -> list[tuple[str, str, Path]]:
    root = resources.path("contracts/examples")
    return sorted((p.parts[-3], p.parts[-2], p) for p in root.glob("*/*/*.json"))


@pytest.mark.parametrize(("name", "kind", "path"), _examples(), ids=lambda v: v.stem if isinstance(v, Path) else v)
def test_golden_examples(name: str, kind: str, path: Path) -> None:
    document = resources.load_json(str(path.relative_to(resources.path("contracts").parent)))
    assert (contracts.violation(name, document) is None) is (kind == "valid")


def test_schemas_have_examples_of_both_kinds() -> None:
    kinds = {(name, kind) for name, kind, _ in _examples()}
    mine = set(openapi()["components"]["schemas"]) - {"answer", "provenance"}
    assert {(name, kind) for name in mine for kind in ("valid", "invalid")} <= kinds


def test_the_examples_of_requests_are_answered_as_they_are_marked() -> None:
    routes = {
        "hook_rerank_request": "/v1/hook/rerank",
        "rerank_request": "/v1/rerank",
        "embed_request": "/v1/embed",
        "search_request": "/v1/search",
        "ask_request": "/v1/ask",
    }
    client = create_app(TinyServices()).test_client()
    seen = 0
    for name, kind, path in _examples():
        if name in routes:
            response = client.post(
                routes[name],
                data=path.read_bytes(),
                content_type="application/json",
                headers={"Pincite-Contract": "1"},
            )
            assert response.status_code == (200 if kind == "valid" else 400), path
            seen += 1
    assert seen >= 10


def _schema() -> Any:
    rules = {
        "seed": 20,
        # 409 is what the contract says of a missing contract header.
        "checks": {"missing_required_header": {"expected-statuses": [401, 409]}},
    }
    loaded = schemathesis.openapi.from_dict(openapi(), config=SchemathesisConfig.from_dict(rules))
    loaded.app = create_app(TinyServices(), token=_TOKEN)
    return loaded


_TOKEN = "t0ken"
_api = _schema()


@_api.parametrize()
@settings(
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_sent_the_reply_keeps_the_contract(case: Any) -> None:
    case.headers["Authorization"] = f"Bearer {_TOKEN}"
    # Left out: it makes one of several allowed credentials wrong and expects the other not to do. Which
    # credentials do is tested by name in tests/unit/test_serve.py.
    case.call_and_validate(excluded_checks=[ignored_auth])
