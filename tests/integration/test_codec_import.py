"""A codec from colbert-ai's index format, stored in the cluster and put in force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from live import Node

from pincite.adapters.models_colbert_index import export_index
from pincite.ingest.walk import walk
from pincite.kernels import residual
from pincite.wiring.codec_flow import TrainOptions, codec_of_colbert_index
from pincite.wiring.ingest_flow import IngestOptions
from pincite.wiring.late import load_codec
from pincite.wiring.sources import extractor_set


def silent(*_: Any) -> None:
    """No progress."""


def test_an_imported_codec_is_put_in_force(node: Node, prefix: str, tmp_path: Path) -> None:
    sources = tmp_path / "in"
    sources.mkdir()
    words = "lease tenant landlord rent deposit notice term renewal repair loan lender interest barn river".split()
    for i in range(3):
        text = " ".join(words[(i * 5 + j * (i + 3)) % len(words)] for j in range(400))
        (sources / f"s{i}.txt").write_text(f"{text}.", encoding="utf-8")
    app = node.app(prefix)
    assert app.ingest(walk([sources], extractor_set()), IngestOptions()).count("failed") == 0
    trained = app.codec_train(TrainOptions(name="tiny", n_centroids=32, seed=7), silent)
    rows = residual.encode_rows(trained, np.eye(trained.dim, dtype=np.float32))
    export_index(tmp_path / "index", trained, [rows], checkpoint="elsewhere")

    imported = codec_of_colbert_index(tmp_path / "index", encoder_id=trained.encoder_id)
    assert imported.codec_id != trained.codec_id
    app.codec_store(imported)
    app.codec_store(imported)
    assert app.codec_migrate(imported.codec_id, silent, keep_old=False)["chunks_written"] > 0
    status = app.codec_status()
    assert (status["codec_id"], list(status["chunks_by_codec"])) == (imported.codec_id, [imported.codec_id])
    stored = load_codec(imported.codec_id, trained.encoder_id, app.indices)
    np.testing.assert_array_equal(stored.centroids, trained.centroids)
    np.testing.assert_array_equal(stored.bucket_weights, trained.bucket_weights)
