"""ColBERT checkpoints against the library's own encoding, on a seeded checkpoint."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pincite.adapters.models_encoders import is_colbert, open_encoder
from pincite.adapters.models_sbert import SentenceTransformerEncoder, load_minilm, packaged_minilm
from pincite.domain.errors import ConfigError
from pincite.testing.checkpoints import write_colbert_checkpoint, write_cross_encoder_checkpoint

pytest.importorskip("sentence_transformers")

from pincite.adapters.models_colbert import ColbertEncoder
from pincite.adapters.models_fast import ENGINES

ALL = (*ENGINES, "sentence-transformers")
QUESTION = "Who may be fined, and how much?"
PASSAGE = "A landlord, who may be fined (s. 3), shall pay: $5."


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_colbert_checkpoint(tmp_path_factory.mktemp("colbert") / "colbert", seed=3)


@pytest.fixture(scope="module")
def library(checkpoint: Path) -> Any:
    from sentence_transformers import MultiVectorEncoder

    return MultiVectorEncoder(str(checkpoint), device="cpu")


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> ColbertEncoder:
    return ColbertEncoder(checkpoint, engine="fp32")


@pytest.mark.parametrize("engine", ALL)
def test_same_vectors_as_the_library(checkpoint: Path, library: Any, engine: str) -> None:
    encoder = ColbertEncoder(checkpoint, engine=engine)
    assert (encoder.engine, encoder.dim, encoder.token_dim) == (engine, 128, 128)
    query = encoder.encode_query(QUESTION)
    expected = library.encode_query(QUESTION).numpy()
    assert query.tokens.shape == expected.shape == (32, 128)
    document = encoder.encode_passages([PASSAGE])[0]
    # The library also keeps [CLS], [D] and [SEP]; punctuation is gone on both sides.
    own = library.encode_document(PASSAGE).numpy()[2:-1]
    assert document.tokens.shape == own.shape
    if engine in {"bf16", "int8"}:
        assert (query.tokens * expected).sum(axis=1).mean() > 0.98
        assert (document.tokens * own).sum(axis=1).mean() > 0.98
    else:
        np.testing.assert_allclose(query.tokens, expected, atol=1e-5)
        np.testing.assert_allclose(document.tokens, own, atol=1e-5)


def test_ordinals_say_which_tokens_were_kept(encoder: ColbertEncoder, library: Any) -> None:
    words = library.tokenizer.tokenize(PASSAGE)
    found = encoder.encode_passages([PASSAGE])[0]
    assert found.ordinals is not None and found.ordinals.dtype == np.int64
    assert [words[i] for i in found.ordinals] == [w for w in words if w not in set(string.punctuation)]
    assert len(found.tokens) == len(found.ordinals) < len(words)


def test_long_empty_and_hard_texts(encoder: ColbertEncoder) -> None:
    texts = ["rent " * 700, "", "... !!", "第十二条 👍 [unused1] [MASK] e\u0301"]
    found = encoder.encode_passages(texts, contexts=["a lease of 2024"] * 4)
    assert [len(e.tokens) for e in found[:3]] == [700, 0, 0]
    for one in found:
        assert one.tokens.shape[1] == 128 and one.tokens.dtype == np.float32
        assert np.linalg.norm(one.pooled) == pytest.approx(1.0, abs=1e-5)
    # A marker in a text is text: its brackets are punctuation, its letters are kept.
    assert len(encoder.encode_passages(["[unused1]"])[0].tokens) >= 2
    assert encoder.encode_query("").tokens.shape == (32, 128)


def test_a_long_query_is_not_cut_and_padding_is_configurable(checkpoint: Path, encoder: ColbertEncoder) -> None:
    assert len(encoder.encode_query("rent " * 100).tokens) == 103
    assert len(encoder.encode_query("rent " * 600).tokens) == 600 + 2 * 3
    longer = ColbertEncoder(checkpoint, engine="fp32", query_tokens=48)
    assert len(longer.encode_query(QUESTION).tokens) == 48


def test_a_separate_encoder_makes_the_pooled_vectors(checkpoint: Path) -> None:
    minilm = load_minilm()
    encoder = ColbertEncoder(checkpoint, engine="fp32", pooled=minilm)
    assert (encoder.dim, encoder.token_dim) == (384, 128)
    assert minilm.encoder_id in encoder.encoder_id
    np.testing.assert_allclose(
        encoder.encode_passages([PASSAGE])[0].pooled, minilm.encode_passages([PASSAGE])[0].pooled, atol=1e-6
    )
    np.testing.assert_allclose(
        encoder.encode_query(QUESTION).pooled, minilm.encode_query(QUESTION).pooled, atol=1e-6
    )


def test_kinds_are_told_apart(checkpoint: Path, tmp_path: Path) -> None:
    assert is_colbert(checkpoint) and is_colbert("colbert-ir/colbertv2.0")
    assert not is_colbert(packaged_minilm()) and not is_colbert("BAAI/bge-small-en-v1.5")
    assert not is_colbert(write_cross_encoder_checkpoint(tmp_path / "cross"))
    assert isinstance(open_encoder(checkpoint, engine="fp32"), ColbertEncoder)
    assert isinstance(open_encoder(packaged_minilm(), engine="fp32"), SentenceTransformerEncoder)
    with pytest.raises(ConfigError) as failure:
        open_encoder(checkpoint, engine="fp7")
    assert failure.value.code == "engine_unknown"


def test_seeds_make_the_same_checkpoint_again(checkpoint: Path, tmp_path: Path) -> None:
    same = write_colbert_checkpoint(tmp_path / "a", seed=3) / "model.safetensors"
    other = write_colbert_checkpoint(tmp_path / "b", seed=4) / "model.safetensors"
    first = (checkpoint / "model.safetensors").read_bytes()
    assert same.read_bytes() == first != other.read_bytes()
