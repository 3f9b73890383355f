"""What the worker's border lets in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pincite.adapters import broker
from pincite.domain.ids import new_answer_id

HEADERS: dict[str, Any] = {"lang": "py", "task": broker.TASK, "id": "1", "root_id": "1", "parent_id": None}
EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def body(answer_id: Any = "0" * 32, kwargs: Any = None, embed: Any = None) -> bytes:
    return json.dumps([[answer_id], kwargs or {}, EMBED if embed is None else embed]).encode()


def test_our_own_message_passes() -> None:
    assert broker.message_fault(HEADERS, "application/json", body(new_answer_id())) is None
    redelivered = {**HEADERS, "x-death": [{"count": 1}]}
    assert broker.message_fault(redelivered, "application/json", body().decode()) is None


@pytest.mark.parametrize(
    ("headers", "content_type", "raw", "fault"),
    [
        (None, "application/json", body(), "unknown task"),
        ({**HEADERS, "task": "os.system"}, "application/json", body(), "unknown task"),
        ({"task": broker.TASK}, "application/json", body(), "no task id"),
        ({**HEADERS, "eta": "2030-01-01T00:00:00"}, "application/json", body(), "unknown header"),
        (HEADERS, "application/x-python-serialize", body(), "not JSON"),
        (HEADERS, "application/json", b"{", "not JSON"),
        (HEADERS, "application/json", b"[" * 100_000, "not JSON"),
        (HEADERS, "application/json", body("A" * 32), "not one answer id"),
        (HEADERS, "application/json", body("0" * 33), "not one answer id"),
        (HEADERS, "application/json", body("0" * 32 + "\n"), "not one answer id"),
        (HEADERS, "application/json", body(7), "not one answer id"),
        (HEADERS, "application/json", body(kwargs={"x": 1}), "not one answer id"),
        (HEADERS, "application/json", body(embed={"chain": [{"task": "os.system"}]}), "not one answer id"),
    ],
)
def test_any_other_does_not(headers: Any, content_type: str, raw: bytes, fault: str) -> None:
    assert broker.message_fault(headers, content_type, raw) == fault


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_json)
def test_no_shape_of_json_gets_in_or_raises(document: Any) -> None:
    assert broker.message_fault(HEADERS, "application/json", json.dumps(document).encode()) == "not one answer id"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://u:p%40ss@h:5672//", "amqp://u:**@h:5672//"),
        ("amqp://h:5672/v", "amqp://h:5672/v"),
        ("amqps://u:p@h/v", "amqps://u:**@h/v"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert broker.shown_url(url) == shown
