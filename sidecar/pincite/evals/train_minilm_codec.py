"""``python -m pincite.evals.train_minilm_codec``: make the codec that is shipped for MiniLM, from public texts.

Same texts, seed and machine: same file. On another CPU the encoder's rounding differs, and so do bytes and id.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pincite.adapters.models_sbert import MINILM_ID, load_minilm
from pincite.domain.errors import PinciteError
from pincite.domain.protocols import Encoder
from pincite.encode import codec_artefact, shipped_codecs
from pincite.encode.codec_train import pca_rotation, train_codec
from pincite.evals.codec_texts import training_texts
from pincite.wiring.console import fail, say

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

NAME = "minilm-legal"
N_CENTROIDS = 8192
N_QUERIES = 4000
_BATCH = 64


def tokens_of(
    encoder: Encoder, texts: Sequence[str], titles: Sequence[str] | None, what: str = ""
) -> list[FloatArray]:
    """Token vectors of texts in half precision; texts without a token are left out."""
    out: list[FloatArray] = []
    for start in range(0, len(texts), _BATCH):
        some = slice(start, start + _BATCH)
        batch = encoder.encode_passages(texts[some], contexts=titles[some] if titles else None)
        out += [one.tokens.astype(np.float16) for one in batch if len(one.tokens)]
        if what and start % (_BATCH * 16) == 0:
            say(f"  {what}: {start + len(batch)} of {len(texts)}")
    return out


def train(
    documents: Sequence[FloatArray], queries: Sequence[FloatArray], facts: dict[str, object], *, seed: int
) -> bytes:
    """The artefact of the codec that is trained on these token vectors."""
    began = time.monotonic()

    def progress(stage: str, done: int, total: int) -> None:
        say(f"  {stage}: {done} of {total}, {time.monotonic() - began:.0f} s")

    sample = np.concatenate(documents).astype(np.float32)
    projection = pca_rotation(sample, 128, np.random.default_rng(seed), np.concatenate(queries).astype(np.float32))
    codec = train_codec(
        sample,
        encoder_id=MINILM_ID,
        name=NAME,
        n_centroids=N_CENTROIDS,
        projection=(projection, None),
        facts=facts,
        seed=seed,
        progress=progress,
    )
    return codec_artefact.to_bytes(codec)


def run(out: Path, seed: int) -> int:
    """Encode, train, write."""
    texts = training_texts(seed)
    encoder = load_minilm()
    documents = tokens_of(encoder, [t for _, t in texts.passages], [t for t, _ in texts.passages], "passages")
    queries = tokens_of(encoder, texts.queries[:N_QUERIES], None, "queries")
    facts = {
        "projection": "PCA of document and question tokens, random rotation",
        "sources": list(texts.sources),
        "n_queries": len(queries),
        "engine": encoder.engine,
    }
    raw = train(documents, queries, facts, seed=seed)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(raw)
    say(f"{out}: {codec_artefact.from_bytes(raw).codec_id}, {len(raw)} bytes")
    return 0


def main() -> None:
    """Run it; an error of ours ends as one clear message."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=shipped_codecs.FOLDER / "minilm.safetensors")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        sys.exit(run(options.out, options.seed))
    except PinciteError as exc:
        sys.exit(fail(exc, as_json=False))


if __name__ == "__main__":
    main()
