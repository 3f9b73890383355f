"""``python -m pincite.evals.train_minilm_codec``: makes the codec that is shipped for the packaged MiniLM.

Trained on windows of 200 tokens of the licence texts of ``licensedcode-data`` (CC-BY-4.0), at most four a
licence: public texts of legal language, none of which is in a set that quality is measured on. Run it again
with the same packages and seed, and the same file comes out.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pincite.adapters.models_sbert import MINILM_ID, load_minilm
from pincite.encode import codec_artefact, shipped_codecs
from pincite.encode.codec_train import train_codec
from pincite.evals.licences import licence_bodies
from pincite.wiring.console import say
from pincite.wiring.sources import tokenizer

SEED = 20261201
N_CENTROIDS = 8192
_N_WINDOWS, _PER_LICENCE, _WINDOW = 3600, 4, 200


def windows() -> Iterator[tuple[str, str]]:
    """(title, text) of the sample."""
    rng = random.Random(SEED)  # noqa: S311  # a sample, not a secret
    bodies = sorted(licence_bodies())
    rng.shuffle(bodies)
    n = 0
    for title, text in bodies:
        spans = tokenizer().tokenize(text).spans
        starts = list(range(0, len(spans), _WINDOW))
        for start in rng.sample(starts, min(_PER_LICENCE, len(starts))):
            piece = spans[start : start + _WINDOW]
            yield title, text[piece[0].start : piece[-1].end]
            n += 1
            if n == _N_WINDOWS:
                return


def main(out: Path | None = None) -> None:
    """Encode the sample, train, write the artefact."""
    encoder = load_minilm()
    sample = list(windows())
    vectors = []
    for start in range(0, len(sample), 64):
        batch = sample[start : start + 64]
        encoded = encoder.encode_passages([text for _, text in batch], contexts=[title for title, _ in batch])
        vectors += [one.tokens for one in encoded]
        say(f"encoded {start + len(batch)} of {len(sample)}")
    codec = train_codec(
        np.concatenate(vectors),
        encoder_id=MINILM_ID,
        name="minilm-legal",
        n_centroids=N_CENTROIDS,
        facts={
            "texts": "licence texts of licensedcode-data 32.1.0 (CC-BY-4.0)",
            "n_windows": len(sample),
            "context": "title@1",
            "projection": "uncentred PCA, then a random rotation",
        },
        seed=SEED,
        progress=lambda what, n, total: say(f"{what} {n}/{total}"),
    )
    path = out or Path(shipped_codecs.__file__).resolve().parents[1] / "_codecs" / "minilm.safetensors"
    path.write_bytes(codec_artefact.to_bytes(codec))
    print(f"{codec.codec_id}: {path.stat().st_size} bytes in {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
