"""Ingest into a real cluster: round trip, idempotence, replacement, resumption, deletion, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from live import Node, data_folder, http
from referencing import Registry, Resource

from pincite import resources
from pincite.adapters.models_hash import HashEncoder
from pincite.adapters.opensearch_sources import SourceIndex
from pincite.domain.errors import ConfigError, NotFound, PinciteError, UpstreamError
from pincite.domain.protocols import Encoded
from pincite.domain.types import SearchFilter
from pincite.encode.token_rows import HalfCoder
from pincite.ingest.walk import walk
from pincite.wiring.ingest_flow import IngestFlow, IngestOptions, IngestReport
from pincite.wiring.services import Services
from pincite.wiring.sources import extractor_set, tokenizer

SENTENCE = "The tenant of unit {n} shall pay the rent of {n}00 dollars on the first day of each month. "


def ingest(app: Services, path: Path, **options: Any) -> IngestReport:
    return app.ingest(walk([path], extractor_set()), IngestOptions(**options))


def chunks_of(node: Node, prefix: str) -> dict[str, dict[str, Any]]:
    return {hit["_id"]: hit for hit in node.scroll(f"{prefix}-chunks")}


def assert_round_trip(node: Node, prefix: str, folder: Path) -> int:
    """Every chunk's text is the slice of its file that its provenance names."""
    schemas = [resources.load_json(f"contracts/schemas/{n}.schema.json") for n in ("chunk", "provenance")]
    registry: Any = Registry().with_resources([(s["$id"], Resource.from_contents(s)) for s in schemas])
    validator = jsonschema.Draft202012Validator(schemas[0], registry=registry)
    texts: dict[str, str] = {}
    hits = node.scroll(f"{prefix}-chunks")
    for hit in hits:
        chunk = hit["_source"]
        validator.validate(chunk)
        p = chunk["provenance"]
        if p["file_name"] not in texts:
            raw = (folder / p["file_name"]).read_bytes()
            encoding = "utf-16" if raw[:2] == b"\xff\xfe" else "utf-8-sig"
            texts[p["file_name"]] = raw.decode(encoding)
        assert texts[p["file_name"]][p["char_start"] : p["char_end"]] == chunk["text"]
        assert hit["_id"] == chunk["chunk_id"]
        assert "tokens" not in chunk
        assert "vector" not in chunk
    return len(hits)


def test_contracts_round_trip(node: Node, prefix: str) -> None:
    folder = data_folder() / "legalbench_rag" / "docs"
    report = node.cli_json(prefix, "ingest", str(folder))
    assert report["totals"]["failed"] == 0
    assert {s["file_name"] for s in report["sources"]} == {p.name for p in folder.iterdir()}
    n = assert_round_trip(node, prefix, folder)
    assert n == report["totals"]["chunks"] > 2000
    for source in report["sources"]:
        text = (folder / source["file_name"]).read_bytes().decode("utf-8-sig")
        assert source["chars"] == len(text)


def test_text_fixtures_round_trip_or_named_error(node: Node, prefix: str) -> None:
    folder = data_folder() / "offsets" / "text_fixtures"
    report = node.cli_json(prefix, "ingest", str(folder), code=1)
    errors = {s["file_name"]: s["error"]["code"] for s in report["sources"] if s["error"]}
    assert errors == dict.fromkeys(
        ("lcl_big5_trad_fail.txt", "lcl_gb18030.txt", "lcl_invalid_utf8.txt"), "source_encoding_unknown"
    )
    for source in report["sources"]:
        if source["error"]:
            assert source["file_name"] in source["error"]["message"]
            assert source["error"]["mend"]
    assert assert_round_trip(node, prefix, folder) > 0


def test_ingesting_twice_writes_nothing(node: Node, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "lease.txt").write_text("".join(SENTENCE.format(n=n) for n in range(60)), encoding="utf-8")
    app = node.app(prefix)
    first = ingest(app, tmp_path)
    assert first.count("indexed") == 1
    before = {key: hit["_seq_no"] for key, hit in chunks_of(node, prefix).items()}
    second = ingest(app, tmp_path)
    assert second.count("unchanged") == 1
    assert second.as_dict()["totals"]["chunks_written"] == 0
    assert {key: hit["_seq_no"] for key, hit in chunks_of(node, prefix).items()} == before


def test_a_changed_source_replaces_its_chunks(node: Node, prefix: str, tmp_path: Path) -> None:
    path = tmp_path / "lease.txt"
    path.write_text("".join(SENTENCE.format(n=n) for n in range(60)), encoding="utf-8")
    app = node.app(prefix)
    ingest(app, tmp_path)
    old = set(chunks_of(node, prefix))
    path.write_text("".join(SENTENCE.format(n=n) for n in range(100, 150)), encoding="utf-8")
    ingest(app, tmp_path)
    new = chunks_of(node, prefix)
    assert not old & set(new)
    assert assert_round_trip(node, prefix, tmp_path) == len(new)
    record = next(r for r in app.sources() if r["file_name"] == "lease.txt")
    assert record["version"] == 2
    assert record["n_chunks"] == len(new)


def test_new_metadata_rewrites_every_chunk(node: Node, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "lease.txt").write_text("".join(SENTENCE.format(n=n) for n in range(60)), encoding="utf-8")
    app = node.app(prefix)
    ingest(app, tmp_path)
    ids = set(chunks_of(node, prefix))
    report = ingest(app, tmp_path, case_id="2026-17", date="2024-05-01")
    found = chunks_of(node, prefix)
    assert set(found) == ids
    assert report.as_dict()["totals"]["chunks_written"] == len(ids)
    assert {hit["_source"]["provenance"]["case_id"] for hit in found.values()} == {"2026-17"}
    assert {hit["_source"]["date"] for hit in found.values()} == {"2024-05-01"}


class _FailsAfter:
    """The hash encoder of a machine that dies: raises after so many batches."""

    def __init__(self, batches: int) -> None:
        self._inner, self._left = HashEncoder(), batches
        self.encoder_id, self.dim, self.token_dim = (
            self._inner.encoder_id,
            self._inner.dim,
            self._inner.token_dim,
        )

    def encode_passages(self, texts: Sequence[str], *, contexts: Sequence[str] | None = None) -> list[Encoded]:
        if self._left == 0:
            raise UpstreamError("power_cut", "the lights went out")
        self._left -= 1
        return self._inner.encode_passages(texts, contexts=contexts)

    def encode_query(self, text: str) -> Encoded:
        return self._inner.encode_query(text)


def flow_with(app: Services, encoder: Callable[[], Any]) -> IngestFlow:
    return IngestFlow(
        app._sources,
        extractors=extractor_set(),
        tokenizer=tokenizer(),
        encoder=encoder,
        encoder_id=HashEncoder().encoder_id,
        coder=lambda: HalfCoder(64),
        codec_id="f16-64",
    )


def test_an_interrupted_run_resumes_and_hides_what_is_half_in(node: Node, prefix: str, tmp_path: Path) -> None:
    path = tmp_path / "lease.txt"
    path.write_text("Version one speaks of aardvarks. " * 30, encoding="utf-8")
    app = node.app(prefix)
    ingest(app, tmp_path)
    path.write_text("".join(SENTENCE.format(n=n) for n in range(900)), encoding="utf-8")
    with pytest.raises(UpstreamError, match="the lights went out"):
        flow_with(app, lambda: _FailsAfter(1)).run(walk([tmp_path], extractor_set()), IngestOptions())
    # The half-written version is in the index but no search of Pincite's shows it.
    written = len(chunks_of(node, prefix))
    found = app.search("tenant rent dollars aardvarks", size=20, filters=SearchFilter(), caller=None)
    assert {"aardvarks" in p.chunk.text for p in found.passages} == {True}
    report = ingest(app, tmp_path)
    totals = report.as_dict()["totals"]
    assert 0 < totals["chunks_written"] < totals["chunks"]
    assert written > totals["chunks"] - totals["chunks_written"] - 1
    assert assert_round_trip(node, prefix, tmp_path) == totals["chunks"]
    found = app.search("tenant rent dollars aardvarks", size=20, filters=SearchFilter(), caller=None)
    assert {"aardvarks" in p.chunk.text for p in found.passages} == {False}


def test_a_run_that_dies_before_the_old_chunks_are_gone_is_gone_on_with(
    node: Node, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lease.txt"
    path.write_text("Version one speaks of aardvarks. " * 30, encoding="utf-8")
    app = node.app(prefix)
    ingest(app, tmp_path)
    path.write_text("Version two speaks of zebras. " * 30, encoding="utf-8")

    def die(*args: Any) -> None:
        raise UpstreamError("power_cut", "the lights went out")

    with monkeypatch.context() as patched:
        patched.setattr(SourceIndex, "delete_chunks", die)
        with pytest.raises(UpstreamError, match="the lights went out"):
            ingest(app, tmp_path)
    found = app.search("version speaks", size=20, filters=SearchFilter(), caller=None)
    assert {"zebras" in p.chunk.text for p in found.passages} == {True}
    ingest(app, tmp_path)
    assert {"zebras" in hit["_source"]["text"] for hit in chunks_of(node, prefix).values()} == {True}
    assert app.sources()[0]["status"] == "indexed"
    assert ingest(app, tmp_path).count("unchanged") == 1


def test_sources_and_delete(node: Node, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The first lease concerns a barn.", encoding="utf-8")
    (tmp_path / "b.md").write_text("# Second lease\n\nIt concerns a boat.", encoding="utf-8")
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe\x00")
    assert node.cli_json(prefix, "ingest", str(tmp_path), code=1)["totals"]["failed"] == 1
    listed = {r["file_name"]: r for r in node.cli_json(prefix, "sources")["sources"]}
    assert listed["a.txt"]["status"] == "indexed"
    assert listed["b.md"]["title"] == "Second lease"
    assert listed["c.txt"]["status"] == "failed"
    assert node.cli_json(prefix, "delete", "a.txt")["chunks"] == 1
    assert {h["_source"]["provenance"]["file_name"] for h in node.scroll(f"{prefix}-chunks")} == {"b.md"}
    assert "a.txt" not in {r["file_name"] for r in node.cli_json(prefix, "sources")["sources"]}
    gone = node.cli_json(prefix, "delete", "a.txt", code=2)
    assert gone["error"]["code"] == "source_unknown"


def test_a_failed_new_version_leaves_the_old_one_in_force(node: Node, prefix: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("The lease concerns a barn.", encoding="utf-8")
    app = node.app(prefix)
    ingest(app, tmp_path)
    path.write_bytes(b"")
    report = ingest(app, tmp_path)
    assert [s.error["code"] for s in report.sources if s.error] == ["source_empty"]
    found = app.search("barn lease", filters=SearchFilter(), caller=None)
    assert [p.chunk.text for p in found.passages] == ["The lease concerns a barn."]
    assert app.sources()[0]["error"]["code"] == "source_empty"


def test_filters(node: Node, prefix: str, tmp_path: Path) -> None:
    for name, case, date in (("x", "c-1", "2020-01-01"), ("y", "c-2", "2024-01-01")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.txt").write_text(f"The lease of barn {name} runs for ten years.", encoding="utf-8")
        node.cli_json(prefix, "ingest", str(folder), "--case", case, "--date", date)

    def files(*args: str) -> list[str]:
        found = node.cli_json(prefix, "search", "lease of a barn", *args)["passages"]
        return sorted(p["provenance"]["file_name"] for p in found)

    assert files() == ["x.txt", "y.txt"]
    assert files("--case", "c-2") == ["y.txt"]
    assert files("--file", "x.txt") == ["x.txt"]
    assert files("--file", "*.txt", "--since", "2021-01-01") == ["y.txt"]
    assert files("--until", "2020-01-01") == ["x.txt"]
    assert files("--ingested-until", "2020-01-01") == []
    answer = node.cli_json(prefix, "ask", "How long does the lease of the barn run?", "--case", "c-1")
    assert {e["file_name"] for e in answer["evidence"]} == {"x.txt"}


def test_another_encoder_is_refused(node: Node, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The lease concerns a barn.", encoding="utf-8")
    ingest(node.app(prefix), tmp_path)
    for command in (["ingest", str(tmp_path)], ["search", "barn"], ["ask", "What about the barn?"], ["init"]):
        reply = node.cli_json(prefix, *command, env={"PINCITE_ENCODER": "minilm"}, code=3)
        assert reply["error"]["code"] == "encoder_mismatch"
        assert "hash-64@0" in reply["error"]["message"]
    assert len(node.scroll(f"{prefix}-chunks")) == 1


def test_a_read_only_cluster_is_named_and_nothing_is_lost(node: Node, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The lease concerns a barn.", encoding="utf-8")
    app = node.app(prefix)
    app.init()
    index = f"{node.url}/{prefix}-chunks-v1-000001/_settings"
    assert http("PUT", index, {"index.blocks.write": True})[0] == 200
    with pytest.raises(UpstreamError) as caught:
        ingest(app, tmp_path)
    assert caught.value.code == "cluster_read_only"
    assert app.sources()[0]["status"] == "indexing"
    assert app.search("barn", filters=SearchFilter(), caller=None).passages == ()
    assert http("PUT", index, {"index.blocks.write": None})[0] == 200
    assert ingest(app, tmp_path).count("indexed") == 1
    assert len(app.search("barn", filters=SearchFilter(), caller=None).passages) == 1


def test_a_cluster_that_is_down(node: Node, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The lease concerns a barn.", encoding="utf-8")
    down = {"PINCITE_OPENSEARCH__URL": "http://127.0.0.1:9"}
    for command in (["ingest", str(tmp_path)], ["search", "barn"], ["ask", "What about the barn?"], ["init"]):
        reply = node.cli_json(prefix, *command, env=down, code=4)
        assert reply["error"]["code"] == "cluster_unreachable"
        assert "http://127.0.0.1:9" in reply["error"]["message"]


def test_bad_paths(node: Node, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd.xyz").write_text("text", encoding="utf-8")
    missing = node.cli_json(prefix, "ingest", str(tmp_path / "nowhere"), code=2)
    assert missing["error"]["code"] == "path_missing"
    nothing = node.cli_json(prefix, "ingest", str(tmp_path / "empty"), code=2)
    assert nothing["error"]["code"] == "no_sources"


def test_init_is_idempotent(node: Node, prefix: str) -> None:
    app = node.app(prefix)
    first = app.init()
    assert len(first.created) == 6
    assert first.pipelines == (f"{prefix}-search",)
    second = app.init()
    assert second.created == ()
    assert len(second.existed) == 6


def test_the_index_is_strict_where_provenance_lives(node: Node, prefix: str) -> None:
    app = node.app(prefix)
    app.init()
    for body in ({"unknown_field": 1}, {"provenance": {"unknown_field": 1}}):
        status, reply = http("POST", f"{node.url}/{prefix}-chunks/_doc", body)
        assert status == 400
        assert reply["error"]["type"] == "strict_dynamic_mapping_exception"


def test_someone_elses_index_is_refused(node: Node, prefix: str) -> None:
    assert http("PUT", f"{node.url}/{prefix}-chunks", {})[0] == 200
    with pytest.raises(ConfigError) as caught:
        node.app(prefix).init()
    assert caught.value.code == "index_not_pincite"


def test_show_prints_a_passage_in_its_context(node: Node, prefix: str, tmp_path: Path) -> None:
    text = "".join(SENTENCE.format(n=n) for n in range(90))
    (tmp_path / "lease.txt").write_text(text, encoding="utf-8")
    app = node.app(prefix)
    ingest(app, tmp_path)
    chunk = next(iter(chunks_of(node, prefix).values()))["_source"]
    view = app.show(chunk["chunk_id"], context_chars=50, caller=None)[0]
    p = chunk["provenance"]
    assert view["quote"] == chunk["text"]
    assert view["before"] == text[max(0, p["char_start"] - 50) : p["char_start"]]
    place = app.show("lease.txt:100-2,000", context_chars=30, caller=None)[0]
    assert (place["before"], place["quote"], place["after"]) == (text[70:100], text[100:2000], text[2000:2030])
    for bad, code in (
        ("c00000000", "citation_unknown"),
        ("nonsense", "citation_malformed"),
        ("lease.txt:9-3", "citation_malformed"),
    ):
        with pytest.raises(PinciteError) as caught:
            app.show(bad, context_chars=10, caller=None)
        assert caught.value.code == code
    end = len(text)
    for place in (f"lease.txt:{end}-{end + 100}", f"lease.txt:{end + 300}-{end + 310}", "lease.txt:900000-900010"):
        with pytest.raises(NotFound):
            app.show(place, context_chars=400, caller=None)
    with pytest.raises(NotFound) as caught:
        app.show(f"lease.txt:100-{end + 100}", context_chars=10, caller=None)
    assert caught.value.code == "span_outside_source"


def test_json_output_is_one_document(node: Node, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The lease concerns a barn.", encoding="utf-8")
    done = node.cli(prefix, "ingest", str(tmp_path), "--json")
    assert json.loads(done.stdout)["totals"]["indexed"] == 1
