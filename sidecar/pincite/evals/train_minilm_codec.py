"""``python -m pincite.evals.train_minilm_codec``: make the codec that is shipped for MiniLM, from public texts.

Projection and centroids from licences, buckets from statutes (codec_texts.py). ``--buckets-only`` keeps the
projection and the centroids of the file that is there. Same texts, seed and machine: same file. On another CPU
the encoder's rounding differs, and so do bytes and id.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pincite.adapters.models_sbert import load_minilm
from pincite.domain.codec import Codec
from pincite.domain.protocols import Encoder
from pincite.encode import codec_artefact, shipped_codecs
from pincite.encode.codec_train import pca_rotation, refit_buckets, train_codec
from pincite.evals.codec_texts import Passage, TrainingTexts, training_texts
from pincite.evals.command import run_as_command
from pincite.wiring.console import say

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

NAME = "minilm-legal"
N_CENTROIDS = 8192
N_QUERIES = 4000
N_BUCKET_PASSAGES = 200
_BATCH = 64


def tokens_of(encoder: Encoder, passages: Sequence[Passage], what: str = "") -> list[FloatArray]:
    """Token vectors of passages (title, text) in half precision; texts without a token are left out."""
    out: list[FloatArray] = []
    for start in range(0, len(passages), _BATCH):
        some = passages[start : start + _BATCH]
        batch = encoder.encode_passages([text for _, text in some], contexts=[title for title, _ in some])
        out += [one.tokens.astype(np.float16) for one in batch if len(one.tokens)]
        if what and start % (_BATCH * 16) == 0:
            say(f"  {what}: {start + len(some)} of {len(passages)}")
    return out


def train(encoder: Encoder, texts: TrainingTexts, seed: int) -> Codec:
    """Projection and centroids, with buckets that fit licences."""
    began = time.monotonic()

    def progress(stage: str, done: int, total: int) -> None:
        say(f"  {stage}: {done} of {total}, {time.monotonic() - began:.0f} s")

    documents = tokens_of(encoder, texts.passages, "passages")
    queries = tokens_of(encoder, [("", query) for query in texts.queries[:N_QUERIES]], "queries")
    sample = np.concatenate(documents).astype(np.float32)
    asked = np.concatenate(queries).astype(np.float32)
    projection = pca_rotation(sample, 128, np.random.default_rng(seed), asked)
    return train_codec(
        sample,
        encoder_id=encoder.encoder_id,
        name=NAME,
        n_centroids=N_CENTROIDS,
        projection=(projection, None),
        facts={
            "projection": "PCA of document and question tokens, random rotation",
            "sources": list(texts.sources),
            "n_queries": len(queries),
        },
        seed=seed,
        progress=progress,
    )


def run(out: Path, seed: int, *, buckets_only: bool) -> int:
    """Encode, train, write."""
    texts = training_texts(seed)
    encoder = load_minilm()
    codec = codec_artefact.from_bytes(out.read_bytes()) if buckets_only else train(encoder, texts, seed)
    some = texts.statutes[:: max(len(texts.statutes) // N_BUCKET_PASSAGES, 1)]
    sample = np.concatenate(tokens_of(encoder, some)).astype(np.float32)
    facts = {"buckets": f"Massachusetts housing statutes (public law), {len(sample)} tokens"}
    raw = codec_artefact.to_bytes(refit_buckets(codec, sample, NAME, facts))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(raw)
    say(f"{out}: {codec_artefact.from_bytes(raw).codec_id}, {len(raw)} bytes")
    return 0


def main() -> None:
    """Run it; an error of ours ends as one clear message."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=shipped_codecs.FOLDER / "minilm.safetensors")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--buckets-only", action="store_true")
    options = parser.parse_args()
    run_as_command(lambda: run(options.out, options.seed, buckets_only=options.buckets_only))


if __name__ == "__main__":
    main()
