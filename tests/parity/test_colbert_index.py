"""Checkpoints and indexes against colbert-ai 0.2.22: the same vectors, and indexes that both sides read."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pincite.domain.errors import UserError
from pincite.kernels import reference, residual
from pincite.kernels.maxsim_codes import CodesScorer
from pincite.testing.checkpoints import write_colbert_checkpoint

pytest.importorskip("sentence_transformers")

import torch

from pincite.adapters.models_colbert import ColbertEncoder
from pincite.adapters.models_colbert_index import ImportedIndex, export_index, import_index, read_collection

NBITS = 2
#: Of the same computation in the same order; a processor with other kernels may round otherwise.
EQUAL = 1e-6
QUERIES = [
    "Who owns the copyright of a contribution?",
    "Does a patent licence end when I sue?",
    "May I sell a warranty with the software?",
    "trademark use",
    "What must a copy of the work carry with it when it is given to others in object form, and where?",
]


def _passages() -> list[str]:
    """The repository's licence: real text, one passage a sentence or clause, and its longest paragraph whole."""
    text = (Path(__file__).resolve().parents[2] / "LICENSE").read_text(encoding="utf-8")
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    pieces = [piece for paragraph in paragraphs for piece in re.split(r"(?<=[.;:]) ", paragraph)]
    return [piece for piece in pieces if len(piece.split()) > 6] + [" ".join(sorted(paragraphs, key=len)[-2:])]


@pytest.fixture(scope="module")
def passages() -> list[str]:
    return _passages()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_colbert_checkpoint(tmp_path_factory.mktemp("checkpoint") / "colbert", seed=5)


@pytest.fixture(scope="module")
def collection(passages: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("collection") / "collection.tsv"
    path.write_text("".join(f"{pid}\t{text}\n" for pid, text in enumerate(passages)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def built(oracle, checkpoint: Path, collection: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("index")
    arguments = {
        "checkpoint": str(checkpoint),
        "collection": str(collection),
        "queries": QUERIES,
        "nbits": NBITS,
        "root": str(folder / "experiments"),
        "index": str(folder / "theirs"),
    }
    return oracle("build", arguments) | {"index": folder / "theirs"}


@pytest.fixture(scope="module")
def imported(built: dict[str, Any]) -> ImportedIndex:
    return import_index(built["index"])


@pytest.fixture(scope="module")
def ours(imported: ImportedIndex, checkpoint: Path, collection: Path) -> Path:
    """Their index, read and written again by us: in three chunks, with a passage without rows at the end."""
    rows = [rows for _, rows in imported.rows()]
    folder = imported.folder.parent / "ours"
    empty = np.empty((0, imported.codec.format.row_bytes), dtype=np.uint8)
    n = export_index(
        folder,
        imported.codec,
        iter([*rows, empty]),
        checkpoint=str(checkpoint),
        collection=collection,
        settings=imported.config,
        chunk_passages=30,
    )
    assert n == len(rows) + 1
    return folder


@pytest.fixture(scope="module")
def searched(oracle, built: dict[str, Any], ours: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = oracle(
        "search", {"indexes": {"theirs": str(built["index"]), "ours": str(ours)}, "queries": QUERIES}
    )
    return found


@pytest.fixture(scope="module")
def encoded(checkpoint: Path, passages: list[str]) -> tuple[ColbertEncoder, list[np.ndarray]]:
    encoder = ColbertEncoder(checkpoint, engine="fp32", document_tokens=180)
    return encoder, [found.tokens for found in encoder.encode_passages(passages)]


def _split(built: dict[str, Any]) -> list[np.ndarray]:
    return np.split(built["documents"], np.cumsum(built["lengths"])[:-1])


def test_sentence_transformers_gives_the_same_vectors(
    built: dict[str, Any], checkpoint: Path, passages: list[str]
) -> None:
    from sentence_transformers import MultiVectorEncoder

    model = MultiVectorEncoder(str(checkpoint), device="cpu")
    theirs = _split(built)
    assert max(map(len, theirs)) < 180 <= max(len(model.tokenizer(text)["input_ids"]) for text in passages)
    # One batch on both sides, so that the same shapes are computed: the differences print as 0.0 here.
    documents = model.encode_document(passages, batch_size=64)
    for own, document in zip(map(np.asarray, documents), theirs, strict=True):
        assert own.shape == document.shape
        np.testing.assert_allclose(own, document, rtol=0, atol=EQUAL)
    queries = map(np.asarray, model.encode_query(QUERIES, batch_size=8))
    for own, query in zip(queries, built["queries"], strict=True):
        np.testing.assert_allclose(own, query, rtol=0, atol=EQUAL)


def test_our_encoder_gives_the_same_vectors(
    built: dict[str, Any], encoded: tuple[ColbertEncoder, list[np.ndarray]], passages: list[str]
) -> None:
    # Theirs stand for [CLS], [D], the text without punctuation and [SEP]; ours for the text without punctuation.
    encoder, tokens = encoded
    for own, document, text in zip(tokens, _split(built), passages, strict=True):
        if len(own) <= len(document) - 3:
            np.testing.assert_allclose(own, document[2:-1], atol=1e-5)
        else:
            # Over their length: they cut the text, we go on in a second window. The first is the same.
            assert text == passages[-1]
            n = len(document) - 3
            np.testing.assert_allclose(own[:n], document[2:-1], atol=1e-5)
    for query, text in zip(built["queries"], QUERIES, strict=True):
        np.testing.assert_allclose(encoder.encode_query(text).tokens, query, atol=1e-5)


def test_imported_rows_are_what_our_codec_makes_of_their_vectors(
    built: dict[str, Any], imported: ImportedIndex, passages: list[str], collection: Path
) -> None:
    assert read_collection(collection) == passages
    assert imported.pids == range(len(passages))
    assert imported.doclens.tolist() == built["lengths"].tolist()
    codec = imported.codec
    assert codec.format.name == f"rc{NBITS}-128"
    assert np.abs(np.linalg.norm(codec.centroids, axis=1) - 1).max() < 1e-3
    for (pid, rows), document in zip(imported.rows(), _split(built), strict=True):
        # An index on CPU is made of vectors rounded to half precision (test_colbert_codec.py).
        rounded = document.astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(rows, residual.encode_rows(codec, rounded), err_msg=str(pid))


def test_imported_rows_without_markers_are_those_of_our_encoder(
    imported: ImportedIndex, encoded: tuple[ColbertEncoder, list[np.ndarray]]
) -> None:
    encoder, tokens = encoded
    assert imported.codec.encoder_id == encoder.encoder_id
    same = n_bytes = 0
    for (_, rows), own in zip(imported.rows(markers=False), tokens, strict=True):
        made = residual.encode_rows(imported.codec, own)[: len(rows)]
        same, n_bytes = same + int((made == rows).sum()), n_bytes + rows.size
    # Not all: theirs were rounded to half precision first, which moves a residual over a cutoff now and then.
    assert same / n_bytes > 0.99


def test_searcher_finds_the_same_in_their_index_and_in_ours(
    searched: dict[str, np.ndarray], passages: list[str]
) -> None:
    np.testing.assert_array_equal(searched["ours.search.pids"], searched["theirs.search.pids"])
    np.testing.assert_array_equal(searched["ours.search.scores"], searched["theirs.search.scores"])
    n = len(passages)
    np.testing.assert_array_equal(searched["ours.exact.pids"][:, :n], searched["theirs.exact.pids"])
    np.testing.assert_allclose(searched["ours.exact.scores"][:, :n], searched["theirs.exact.scores"], rtol=1e-6)
    # A passage without rows, which colbert-ai itself never writes, scores 0 there as here.
    assert set(searched["ours.exact.pids"][:, n]) == {n}
    assert not searched["ours.exact.scores"][:, n].any()


def test_maxsim_over_imported_rows_ranks_as_their_exact_scoring(
    built: dict[str, Any], imported: ImportedIndex, searched: dict[str, np.ndarray]
) -> None:
    rows = np.concatenate([rows for _, rows in imported.rows()])
    ends = imported.doclens.cumsum()
    documents = np.split(residual.decode_rows(imported.codec, rows), ends[:-1])
    scorer = CodesScorer(imported.codec)
    for i, query in enumerate(built["queries"]):
        best = np.array([(document @ query.T).max(axis=0) for document in documents])
        pids, theirs = np.argsort(-best.sum(axis=1), kind="stable"), searched["theirs.exact.pids"][i]
        np.testing.assert_array_equal(pids[:10], theirs[:10])
        # Their search on CPU takes a negative maximum for 0 (test_colbert_codec.py).
        clipped = np.maximum(best, 0).sum(axis=1)
        np.testing.assert_allclose(clipped[theirs], searched["theirs.exact.scores"][i], rtol=1e-5)
        # The scorer of a search, over the rows as they are.
        scores = scorer.score(query, rows, ends - imported.doclens, imported.doclens)
        np.testing.assert_allclose(scores, best.sum(axis=1), rtol=1e-3)
        np.testing.assert_array_equal(np.argsort(-scores, kind="stable")[:10], theirs[:10])
    # The products above are the slow definition's.
    assert reference.maxsim(query, documents[0]) == pytest.approx(best[0].sum(), rel=1e-5)


def test_an_unfinished_index_is_refused(built: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "unfinished"
    shutil.copytree(built["index"], folder)
    (folder / "metadata.json").unlink()
    with pytest.raises(UserError, match="not finished") as caught:
        import_index(folder)
    assert caught.value.code == "colbert_index_malformed"
    assert "resume" in caught.value.mend


def test_exported_files_are_of_the_same_kinds(built: dict[str, Any], ours: Path) -> None:
    theirs: Path = built["index"]
    names = {path.name for path in theirs.iterdir()}
    assert names == {path.name for path in ours.iterdir()} - {
        f"{chunk}.{part}" for chunk in (1, 2) for part in ("codes.pt", "residuals.pt", "metadata.json")
    } - {"doclens.1.json", "doclens.2.json"}
    for name in ("centroids.pt", "buckets.pt", "avg_residual.pt", "ivf.pid.pt", "0.codes.pt", "0.residuals.pt"):
        both = [torch.load(folder / name, weights_only=True) for folder in (theirs, ours)]
        pairs = zip(*both, strict=True) if isinstance(both[0], tuple) else [both]
        for their, own in pairs:
            assert (their.dtype, their.dim()) == (own.dtype, own.dim()), name
            if name in {"centroids.pt", "buckets.pt"}:
                assert torch.equal(their, own)
    for name in ("plan.json", "metadata.json", "0.metadata.json"):
        their, own = (json.loads((folder / name).read_text(encoding="utf-8")) for folder in (theirs, ours))
        assert set(own) == set(their), name
