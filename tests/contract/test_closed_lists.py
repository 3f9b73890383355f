"""Closed lists of codes are the same in the code and in the contracts."""

from __future__ import annotations

import re
from typing import Any

from pincite import resources
from pincite.answer.compose import MESSAGES
from pincite.domain.codes import AnswerState, Outcome, RefusalReason, SourceStatus, Support


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = resources.load_json(f"contracts/schemas/{name}.schema.json")
    return loaded["properties"]


def test_answer_codes() -> None:
    answer = schema("answer")
    assert set(answer["state"]["enum"]) == {state.value for state in AnswerState}
    assert set(answer["outcome"]["enum"]) - {None} == {outcome.value for outcome in Outcome}
    assert set(answer["refusal"]["properties"]["reason"]["enum"]) == {reason.value for reason in RefusalReason}
    verdict = answer["sentences"]["items"]["properties"]["verdicts"]["items"]["properties"]
    assert set(verdict["support"]["enum"]) == {support.value for support in Support}


def test_every_refusal_has_a_message() -> None:
    assert set(MESSAGES) == set(RefusalReason)
    assert all(MESSAGES.values())


def test_the_plugins_reasons_are_the_contracts() -> None:
    listed = set(schema("ext_pincite")["reason"]["enum"]) - {None}
    source = resources.path("plugin/src/main/java/org/pincite/opensearch/Reason.java").read_text(encoding="utf-8")
    in_java = {name.lower() for name in re.findall(r"^    ([A-Z_]+)\(Status\.", source, re.MULTILINE)}
    assert in_java == listed


def test_source_states_are_told_apart() -> None:
    assert len({status.value for status in SourceStatus}) == len(SourceStatus)
