"""Chunks and questions of ``make bench-first-stage``, and their resumable encoding."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.encode import codec_artefact
from pincite.encode.codec_train import n_centroids_for, train_codec
from pincite.encode.shipped_codecs import shipped_codec
from pincite.encode.token_rows import CodecCoder, project
from pincite.evals import licences
from pincite.evals.refusal import data_file
from pincite.ingest.chunk_forensic import spans
from pincite.kernels.residual import encode_rows
from pincite.wiring.console import say
from pincite.wiring.sources import tokenizer

if TYPE_CHECKING:
    from pincite.domain.codec import Codec
    from pincite.domain.protocols import ByteArray, Encoder, FloatArray, IntArray

_WINDOW, _STRIDE = 200, 150
_BLOCK = 500
_SAMPLE_CHUNKS = 2_000
_SAMPLE_TOKENS = 250_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A chunk: where it is from, its document's title, its text."""

    source: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedCorpus:
    """A corpus as the index has it.

    Attributes:
        codec: Trained without any question.
        pooled: (n, dim) float32.
        rows: (n_tokens, row_bytes) uint8; ``starts`` and ``lengths`` (n,) say whose.
        floats: (n_tokens, codec.dim) float16: the projected vectors before the codec.
    """

    codec: Codec
    pooled: FloatArray
    rows: ByteArray
    floats: Any
    starts: IntArray
    lengths: IntArray


def texts(limit: int) -> list[Text]:
    """The first ``limit`` chunks: all that questions are about, then licences, rules and laws."""
    found: list[Text] = []
    for item in _all_texts():
        found.append(item)
        if len(found) == limit:
            break
    counts = Counter(item.source for item in found)
    say(f"{len(found)} chunks: " + ", ".join(f"{name} {n}" for name, n in counts.items()))
    return found


def questions(n_each: int = 100) -> list[str]:
    """Public questions of PDPA, the contracts and the policies, evenly spread over each set."""
    found: list[str] = []
    for name, key in (
        ("pdpa/pdpa_qa_public.jsonl", "question_user"),
        ("legalbench_rag/legalbench_rag_qa_public.jsonl", "question"),
        ("policyqa/questions_public.jsonl", "question"),
    ):
        mine = list(dict.fromkeys(item[key] for item in _jsonl(name)))
        picked = np.unique(np.linspace(0, len(mine) - 1, min(n_each, len(mine))).astype(int))
        found += [mine[i] for i in picked]
    return found


def encoded(items: Sequence[Text], encoder: Encoder, cache: Path) -> EncodedCorpus:
    """Encode, block by block; a block that an earlier run wrote is read. A killed run is resumed."""
    cache.mkdir(parents=True, exist_ok=True)
    codec = _codec(items, encoder, cache)
    parts = []
    n_made = 0
    for at in range(0, len(items), _BLOCK):
        block = items[at : at + _BLOCK]
        path = cache / f"block-{_key(codec.codec_id, block)}.npz"
        if not path.is_file():
            _write_block(path, block, encoder, codec)
            n_made += 1
            say(f"encoded {at + len(block)} of {len(items)}")
        with np.load(path) as data:
            parts.append({name: data[name] for name in data.files})
    say(f"{len(parts)} blocks, {n_made} of them encoded now")
    lengths = np.concatenate([part["lengths"] for part in parts])
    return EncodedCorpus(
        codec=codec,
        pooled=np.concatenate([part["pooled"] for part in parts]).astype(np.float32),
        rows=np.concatenate([part["rows"] for part in parts]),
        floats=np.concatenate([part["floats"] for part in parts]),
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
    )


def _codec(items: Sequence[Text], encoder: Encoder, cache: Path) -> Codec:
    shipped = shipped_codec(encoder.encoder_id)
    if shipped is not None:
        return shipped
    picked = np.unique(np.linspace(0, len(items) - 1, min(_SAMPLE_CHUNKS, len(items))).astype(int))
    sample_of = [items[i] for i in picked]
    path = cache / f"codec-{_key(encoder.encoder_id, sample_of)}.bin"
    if path.is_file():
        return codec_artefact.from_bytes(path.read_bytes())
    say(f"training a codec on {len(sample_of)} chunks")
    vectors = np.concatenate(
        [
            e.tokens.astype(np.float16)
            for at in range(0, len(sample_of), 64)
            for e in _encode(sample_of[at : at + 64], encoder)
        ]
    )
    n_tokens = len(vectors) * len(items) // len(sample_of)
    chosen = np.random.default_rng(0).permutation(len(vectors))[:_SAMPLE_TOKENS]
    codec = train_codec(
        vectors[chosen].astype(np.float32),
        encoder_id=encoder.encoder_id,
        name="first-stage",
        n_centroids=min(n_centroids_for(n_tokens), max(len(chosen) // 16, 4)),
        n_collection_tokens=n_tokens,
        progress=lambda what, i, n: say(f"{what} {i}/{n}"),
    )
    _replace(path, codec_artefact.to_bytes(codec))
    return codec


def _encode(block: Sequence[Text], encoder: Encoder) -> list[Any]:
    return encoder.encode_passages([item.text for item in block], contexts=[item.title for item in block])


def _write_block(path: Path, block: Sequence[Text], encoder: Encoder, codec: Codec) -> None:
    made = [e for at in range(0, len(block), 64) for e in _encode(block[at : at + 64], encoder)]
    projected = project(np.concatenate([e.tokens for e in made]), codec.document_projection)
    partial = path.with_suffix(".partial.npz")
    np.savez(
        partial,
        pooled=np.stack([e.pooled for e in made]),
        floats=projected.astype(np.float16),
        rows=encode_rows(codec, projected),
        lengths=np.array([len(e.tokens) for e in made], dtype=np.int64),
    )
    partial.replace(path)


def query_vectors(encoder: Encoder, codec: Codec, asked: Sequence[str]) -> list[tuple[FloatArray, FloatArray]]:
    """(pooled, projected token vectors) of each question."""
    coder = CodecCoder(codec)
    made = [encoder.encode_query(text) for text in asked]
    return [(e.pooled, coder.query(e.tokens)) for e in made]


def _key(name: str, items: Sequence[Text]) -> str:
    digest = hashlib.sha256(name.encode())
    for item in items:
        digest.update(f"\x00{item.title}\x01{item.text}".encode())
    return digest.hexdigest()[:24]


def _replace(path: Path, raw: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(raw)
    partial.replace(path)


def _jsonl(name: str) -> Iterator[Any]:
    with data_file(name).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _all_texts() -> Iterator[Text]:
    for item in _jsonl("pdpa/pdpa_corpus_subsections.jsonl"):
        yield Text(source="pdpa", title="Personal Data Protection Act 2012", text=item["text"])
    docs = data_file("legalbench_rag/legalbench_rag_qa_public.jsonl").parent / "docs"
    for path in sorted(docs.rglob("*.txt")):
        yield from _windows("contracts", path.stem, path.read_text(encoding="utf-8", errors="replace"))
    for item in _jsonl("policyqa/passages_public.jsonl"):
        yield from _windows("policies", item["doc"], item["text"])
    folder = licences.data_folder()
    for path in sorted(folder.glob("*.LICENSE")):
        yield from _windows("licences", path.stem.replace("-", " "), licences.body_of(path))
    for path in sorted((folder.parent / "rules").glob("*.RULE")):
        yield from _windows("rules", path.stem.replace("_", " "), licences.body_of(path))
    for item in _jsonl("zh_law/corpus_core.jsonl"):
        yield from _windows("zh_law", item["law"], item["text"])


def _windows(source: str, title: str, text: str) -> Iterator[Text]:
    tokens = tokenizer().tokenize(text).spans
    for _, span in spans(text, tokens, window=_WINDOW, stride=_STRIDE):
        piece = span.slice(text)
        if piece.strip():
            yield Text(source=source, title=title, text=piece)
