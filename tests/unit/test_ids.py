"""Ids are hashes of what they name; the values are fixed, since they are stored."""

from __future__ import annotations

from pincite.domain import ids
from pincite.domain.types import Span, Versioned

TEXT, FORENSIC = Versioned(id="text", version="1"), Versioned(id="forensic", version="1")


def test_ids_have_fixed_values() -> None:
    # printf '["source","default","a/b.txt"]' | sha256sum | cut -c1-32
    assert ids.source_id("default", "a/b.txt") == "157d3daa1eae47ac8d5fde23bef3ee1d"
    assert ids.digest("a", 1, None) == "0ae764bffd3a17b6454c8d9ebf712311"
    assert ids.content_hash(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_everything_that_names_a_chunk_changes_its_id() -> None:
    span = Span(start=0, end=10)
    base = ids.chunk_id("s", "h", TEXT, span, FORENSIC)
    others = {
        ids.chunk_id("s2", "h", TEXT, span, FORENSIC),
        ids.chunk_id("s", "h2", TEXT, span, FORENSIC),
        ids.chunk_id("s", "h", Versioned(id="text", version="2"), span, FORENSIC),
        ids.chunk_id("s", "h", TEXT, Span(start=0, end=11), FORENSIC),
        ids.chunk_id("s", "h", TEXT, span, Versioned(id="forensic", version="2")),
    }
    assert base not in others
    assert len(others) == 5


def test_parts_do_not_run_together() -> None:
    assert ids.digest("ab", "c") != ids.digest("a", "bc")
    assert ids.digest("1") != ids.digest(1)


def test_citation_ids_belong_to_one_answer() -> None:
    first, second = ids.citation_id("a" * 32, "c" * 32), ids.citation_id("b" * 32, "c" * 32)
    assert first != second
    assert first == ids.citation_id("a" * 32, "c" * 32)
    assert len(first) == 9
    assert first[0] == "c"
