"""The codec's life on a real node: stored with the index, trained, put in force by re-encoding, resumable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from live import Node, eventually, http

from pincite.adapters.opensearch_codecs import CodecIndex
from pincite.adapters.opensearch_migration import ChunkMigration
from pincite.domain.errors import ConfigError, ContractError
from pincite.domain.types import SearchFilter
from pincite.ingest.walk import walk
from pincite.kernels import blobs, reference
from pincite.wiring.codec_flow import TrainOptions
from pincite.wiring.ingest_flow import IngestOptions
from pincite.wiring.late import load_codec
from pincite.wiring.services import Services
from pincite.wiring.sources import extractor_set

WORDS = (
    "lease tenant landlord rent deposit premises notice term renewal sublet repair damage loan borrower lender "
    "interest default security guarantor instalment barn roof cow grass river bridge engine wheel paper ink letter"
).split()
OPTIONS = TrainOptions(name="tiny", n_centroids=64, seed=7)


def silent(*_: Any) -> None:
    """No progress."""


def write_sources(folder: Path, n: int = 12) -> Path:
    """Files of several chunks each, of different words."""
    folder.mkdir(exist_ok=True)
    for i in range(n):
        words = [WORDS[(i * 7 + j * (i + 3)) % len(WORDS)] for j in range(450)]
        (folder / f"s{i:02}.txt").write_text(" ".join(words) + ".", encoding="utf-8")
    return folder


def ingest(app: Services, folder: Path) -> None:
    report = app.ingest(walk([folder], extractor_set()), IngestOptions())
    assert report.count("failed") == 0


def stored_rows(node: Node, alias: str) -> dict[str, Any]:
    http("POST", f"{node.url}/{alias}/_refresh")
    _, reply = http(
        "POST",
        f"{node.url}/{alias}/_search",
        {"size": 1000, "docvalue_fields": ["tokens"], "_source": ["text", "codec_id"], "query": {"match_all": {}}},
    )
    return {hit["_id"]: hit for hit in reply["hits"]["hits"]}


def test_a_codec_is_trained_put_in_force_and_scores_as_the_reference(
    node: Node, prefix: str, tmp_path: Path
) -> None:
    app = node.app(prefix)
    ingest(app, write_sources(tmp_path / "in"))
    alias = app.indices.alias("chunks")
    before = stored_rows(node, alias)
    assert {hit["_source"]["codec_id"] for hit in before.values()} == {"f16-64"}

    codec = app.codec_train(OPTIONS, silent)
    again = app.codec_train(OPTIONS, silent)
    assert codec.codec_id == again.codec_id, "same index, same seed, same codec"
    assert app.codec_status()["codec_id"] == "f16-64", "training puts nothing in force"

    report = app.codec_migrate(codec.codec_id, silent, keep_old=False)
    assert report["chunks_written"] == len(before)
    after = stored_rows(node, alias)
    assert after.keys() == before.keys()
    assert {hit["_source"]["codec_id"] for hit in after.values()} == {codec.codec_id}
    status = app.codec_status()
    assert (status["codec_id"], status["token_format"]) == (codec.codec_id, "rc2-64")
    assert status["migration"] == []
    _, left = http("GET", f"{node.url}/_alias/{alias}")
    assert list(left) == [report["index"]]
    _, gone = http("GET", f"{node.url}/{report['dropped']}")
    assert gone["status"] == 404

    # A process that starts from the cluster alone scores what the reference scores from the stored bytes.
    other = node.app(prefix)
    found = other.search("tenant may sublet the premises", size=10, filters=SearchFilter(), caller=None)
    assert found.passages
    assert found.degraded == ()
    assert any(p.score("centroids") is not None for p in found.passages), "the third leg contributes"
    stored = load_codec(codec.codec_id, codec.encoder_id, app.indices)
    query = other.encoder().encode_query("tenant may sublet the premises").tokens
    if stored.document_projection is not None:
        pytest.fail("the hash encoder's dimensions are the codec's")
    for passage in found.passages:
        blob = after[passage.chunk.chunk_id]["fields"]["tokens"][0]
        rows = blobs.from_base64(blob, stored.format, n_centroids=len(stored.centroids))
        want = reference.maxsim(query, reference.decode_rows(stored, rows))
        assert passage.score("maxsim") == pytest.approx(want, rel=1e-3)


def test_the_process_that_ran_before_follows_the_switch(node: Node, prefix: str, tmp_path: Path) -> None:
    app = node.app(prefix)
    ingest(app, write_sources(tmp_path / "in", 4))
    before = {p.chunk.chunk_id: p.score("maxsim") for p in _search(app).passages}
    other = node.app(prefix)
    codec = other.codec_train(OPTIONS, silent)
    other.codec_migrate(codec.codec_id, silent, keep_old=False)
    # Within the time that it may take to notice, a chunk is scored from what it was or not at all; codes of the
    # one codec are never read with the other.
    for passage in _search(app).passages:
        assert passage.score("maxsim") in (None, before[passage.chunk.chunk_id])
    app._late._checked = -1e9  # as if the time had passed
    fresh = {p.chunk.chunk_id: p.score("maxsim") for p in _search(app).passages}
    assert fresh == {p.chunk.chunk_id: p.score("maxsim") for p in _search(other).passages}
    assert None not in fresh.values()
    assert fresh != before


def _search(app: Services) -> Any:
    return app.search("tenant may sublet", size=50, filters=SearchFilter(), caller=None)


def test_what_is_written_and_deleted_meanwhile_is_caught_up_with(node: Node, prefix: str, tmp_path: Path) -> None:
    app = node.app(prefix)
    folder = write_sources(tmp_path / "in", 6)
    ingest(app, folder)
    codec = app.codec_train(OPTIONS, silent)
    migration = ChunkMigration(app.indices)
    real_switch = migration.switch

    def switch(old: str, new: str) -> None:
        # The worst moment: after the last pass, before the alias moves.
        (folder / "late.txt").write_text("A late barn roof. " * 40, encoding="utf-8")
        (folder / "s01.txt").write_text("Changed: the cow eats grass. " * 40, encoding="utf-8")
        ingest(node.app(prefix), folder)
        node.app(prefix).delete_source("s02.txt")
        real_switch(old, new)

    app._codecs._migration.switch = switch  # type: ignore[method-assign]
    app.codec_migrate(codec.codec_id, silent, keep_old=False)
    files = {hit["_source"]["provenance"]["file_name"] for hit in node.scroll(app.indices.alias("chunks"))}
    assert files == {"late.txt", "s00.txt", "s01.txt", "s03.txt", "s04.txt", "s05.txt"}
    texts = [
        hit["_source"]["text"]
        for hit in node.scroll(app.indices.alias("chunks"))
        if hit["_source"]["provenance"]["file_name"] == "s01.txt"
    ]
    assert texts
    assert all("cow eats grass" in text for text in texts)
    assert {h["_source"]["codec_id"] for h in node.scroll(app.indices.alias("chunks"))} == {codec.codec_id}


def test_a_killed_migration_goes_on_where_it_stopped(node: Node, prefix: str, tmp_path: Path) -> None:
    app = node.app(prefix)
    ingest(app, write_sources(tmp_path / "in", 30))
    n_chunks = len(node.scroll(app.indices.alias("chunks")))
    codec = app.codec_train(OPTIONS, silent)
    process = subprocess.Popen(
        [sys.executable, "-m", "pincite.cli.main", "codec", "migrate", codec.codec_id],
        env=node.environment(prefix),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    migration = ChunkMigration(app.indices)
    eventually(lambda: any(migration.count(name) for name in _refreshed(node, migration)) or process.poll() == 0)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=20)
    left = migration.unfinished()
    if left:  # it was killed in time: searches still see the whole old index
        assert app.codec_status()["migration"][0]["to"] == codec.codec_id
    assert len(node.scroll(app.indices.alias("chunks"))) == n_chunks
    time.sleep(0.1)
    report = node.cli_json(prefix, "codec", "migrate", codec.codec_id)
    assert report["chunks_written"] < n_chunks, "what was written before the kill is not written again"
    hits = node.scroll(app.indices.alias("chunks"))
    assert len(hits) == n_chunks
    assert {hit["_source"]["codec_id"] for hit in hits} == {codec.codec_id}
    assert migration.unfinished() == {}


def _refreshed(node: Node, migration: ChunkMigration) -> list[str]:
    names = list(migration.unfinished())
    for name in names:
        http("POST", f"{node.url}/{name}/_refresh")
    return names


def test_clear_errors_for_codecs_that_are_not_there_or_not_whole(node: Node, prefix: str, tmp_path: Path) -> None:
    app = node.app(prefix)
    ingest(app, write_sources(tmp_path / "in", 3))
    with pytest.raises(ConfigError) as missing:
        app.codec_migrate("nothing@000000000000", silent, keep_old=False)
    assert missing.value.code == "codec_missing"
    done = node.cli(prefix, "codec", "migrate", "nothing@000000000000")
    assert done.returncode == 3
    assert "nothing@000000000000" in done.stderr

    codec = app.codec_train(OPTIONS, silent)
    stored = CodecIndex(app.indices)
    alias = app.indices.alias("codecs")
    _, page = http("POST", f"{node.url}/{alias}/_search", {"size": 10, "query": {"term": {"part": 0}}})
    hit = page["hits"]["hits"][0]
    broken = hit["_source"] | {"content": hit["_source"]["content"][:-8] + "AAAAAAAA"}
    http("PUT", f"{node.url}/{alias}/_doc/{hit['_id']}?refresh=true", broken)
    with pytest.raises(ContractError) as malformed:
        stored.get(codec.codec_id)
    assert malformed.value.code == "codec_malformed"
    with pytest.raises(ContractError):
        app.codec_migrate(codec.codec_id, silent, keep_old=False)
    assert app.codec_status()["codec_id"] == "f16-64"


def test_a_codec_of_another_encoder_is_refused(node: Node, prefix: str, tmp_path: Path) -> None:
    app = node.app(prefix)
    ingest(app, write_sources(tmp_path / "in", 3))
    codec = app.codec_train(OPTIONS, silent)
    with pytest.raises(ConfigError) as mismatch:
        load_codec(codec.codec_id, "another@1", app.indices)
    assert mismatch.value.code == "codec_mismatch"


def test_artefacts_of_several_parts_come_back_whole(
    node: Node, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = node.app(prefix)
    app.init()
    monkeypatch.setattr("pincite.adapters.opensearch_codecs.PART_BYTES", 1000)
    raw = bytes(range(256)) * 17
    manifest = {
        "codec_id": "parts@1",
        "encoder_id": "hash-64@0",
        "format": "rc2-64",
        "dim": 64,
        "nbits": 2,
        "n_centroids": 4,
        "bit_order": "x",
        "facts": {"n": 1},
    }
    stored = CodecIndex(app.indices)
    stored.put(raw, manifest, created_at="2026-01-01T00:00:00Z")
    stored.put(b"another", manifest, created_at="2026-01-01T00:00:00Z")
    assert stored.get("parts@1") == raw, "an artefact is written once"
    [listed] = stored.all()
    assert (listed.codec_id, listed.n_bytes) == ("parts@1", len(raw))
