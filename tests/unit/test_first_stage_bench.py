"""The first-stage benchmark's own parts: a cache that resumes, and exact MaxSim as the reference has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pincite.adapters.models_hash import HashEncoder
from pincite.evals import first_stage_corpus
from pincite.evals.first_stage import exact
from pincite.evals.first_stage_corpus import Text, encoded, query_vectors
from pincite.kernels import reference

WORDS = "lease tenant landlord rent deposit notice term renewal repair damage loan lender barn roof river".split()
ITEMS = [
    Text(
        source="s",
        title=f"t{i % 3}",
        text=f"{i} " + " ".join(WORDS[(i * 5 + j * (i + 1)) % 15] for j in range(12)),
    )
    for i in range(40)
]


class Counting(HashEncoder):
    """Counts what it encodes."""

    n = 0

    def encode_passages(self, texts, *, contexts=None):  # type: ignore[no-untyped-def]
        self.n += len(texts)
        return super().encode_passages(texts, contexts=contexts)


def test_an_interrupted_encoding_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_stage_corpus, "_BLOCK", 10)
    first = encoded(ITEMS, Counting(), tmp_path)
    blocks = sorted(tmp_path.glob("block-*.npz"))
    assert len(blocks) == 4
    blocks[2].unlink()
    encoder = Counting()
    again = encoded(ITEMS, encoder, tmp_path)
    assert encoder.n == 10
    assert again.codec.codec_id == first.codec.codec_id
    assert (again.rows == first.rows).all()
    assert (again.starts == first.starts).all()
    # Another text is another block.
    encoder = Counting()
    encoded([*ITEMS[:-1], Text(source="s", title="t", text="another text")], encoder, tmp_path)
    assert encoder.n >= 10


def test_exact_is_the_references_maxsim(tmp_path: Path) -> None:
    encoder = HashEncoder()
    corpus = encoded(ITEMS, encoder, tmp_path)
    ((_, query),) = query_vectors(encoder, corpus.codec, ["the tenant gives notice of repair"])
    codes, floats = exact(corpus, [query])
    ranges = list(zip(corpus.starts, corpus.lengths, strict=True))
    decoded = reference.decode_rows(corpus.codec, corpus.rows)
    for found, vectors in ((codes[0], decoded), (floats[0], corpus.floats.astype(np.float32))):
        scores = np.array([reference.maxsim(query, vectors[s : s + n]) for s, n in ranges])
        assert scores[[int(i) for i in found]] == pytest.approx(np.sort(scores)[::-1][:10], rel=1e-4)
