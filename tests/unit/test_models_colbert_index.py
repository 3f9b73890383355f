"""colbert-ai's index format, written and read by us; colbert-ai itself is asked in tests/parity."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pincite.cli.main import main
from pincite.domain.codec import Codec
from pincite.domain.errors import UserError
from pincite.encode import codec_artefact
from pincite.kernels import residual

pytest.importorskip("torch")

import torch

from pincite.adapters.models_colbert_index import export_index, import_index, read_collection

DIM = 16


def _codec(nbits: int = 2) -> Codec:
    rng = np.random.default_rng(nbits)
    centroids = rng.standard_normal((8, DIM)).astype(np.float32)
    edges = np.sort(rng.normal(0, 0.1, 2 ** (nbits + 1) - 1)).astype(np.float32)
    return Codec(
        codec_id="test@000000000000",
        encoder_id="test",
        token_dim=DIM,
        dim=DIM,
        nbits=nbits,
        centroids=centroids / np.linalg.norm(centroids, axis=1, keepdims=True),
        bucket_cutoffs=edges[1::2],
        bucket_weights=edges[0::2],
        facts={},
    )


def _documents(codec: Codec, lengths: tuple[int, ...] = (4, 0, 7, 3, 5)) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((sum(lengths), DIM)).astype(np.float32)
    rows = residual.encode_rows(codec, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return np.split(rows, np.cumsum(lengths)[:-1])


@pytest.fixture
def index(tmp_path: Path) -> Path:
    codec = _codec()
    export_index(tmp_path / "index", codec, _documents(codec), checkpoint="org/colbert", chunk_passages=2)
    return tmp_path / "index"


@pytest.mark.parametrize("nbits", [1, 2, 4])
def test_what_is_written_is_read(tmp_path: Path, nbits: int) -> None:
    codec = _codec(nbits)
    documents = _documents(codec)
    settings = {"doc_maxlen": 220, "rank": 3, "interaction": None}
    n = export_index(
        tmp_path / "i", codec, documents, checkpoint="org/colbert", settings=settings, chunk_passages=2
    )
    assert n == 5
    found = import_index(tmp_path / "i")
    assert (found.codec.encoder_id, found.codec.format, found.codec.token_dim) == (
        "org/colbert",
        codec.format,
        DIM,
    )
    for name in ("centroids", "bucket_cutoffs", "bucket_weights"):
        np.testing.assert_array_equal(getattr(found.codec, name), getattr(codec, name))
    assert found.config == {
        "doc_maxlen": 220,
        "dim": DIM,
        "nbits": nbits,
        "checkpoint": "org/colbert",
        "collection": None,
    }
    assert found.doclens.tolist() == [4, 0, 7, 3, 5]
    rows = list(found.rows())
    assert [pid for pid, _ in rows] == list(found.pids) == [0, 1, 2, 3, 4]
    for (_, own), document in zip(rows, documents, strict=True):
        np.testing.assert_array_equal(own, document)
    bare = [len(own) for _, own in found.rows(markers=False)]
    assert bare == [1, 0, 4, 0, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["i"]


def test_ids_of_codecs_follow_their_content(tmp_path: Path) -> None:
    codec = _codec()
    moved = replace(codec, bucket_weights=codec.bucket_weights + np.float32(0.01))
    ids = []
    for i, (made, encoder) in enumerate([(codec, None), (codec, None), (moved, None), (codec, "other")]):
        export_index(tmp_path / str(i), made, _documents(codec), checkpoint="org/colbert")
        ids.append(import_index(tmp_path / str(i), encoder_id=encoder).codec.codec_id)
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert ids[0].startswith("colbert-ai@")


def test_centroids_are_halved_only_where_nothing_is_lost(tmp_path: Path) -> None:
    codec = _codec()
    halves = replace(codec, centroids=codec.centroids.astype(np.float16).astype(np.float32))
    for name, made, dtype in (("exact", codec, torch.float32), ("half", halves, torch.float16)):
        export_index(tmp_path / name, made, _documents(made), checkpoint="c")
        assert torch.load(tmp_path / name / "centroids.pt", weights_only=True).dtype == dtype
        np.testing.assert_array_equal(import_index(tmp_path / name).codec.centroids, made.centroids)


def test_passages_of_each_centroid(index: Path) -> None:
    passages, lengths = torch.load(index / "ivf.pid.pt", weights_only=True)
    documents = _documents(_codec())
    expected = [
        [pid for pid, rows in enumerate(documents) if (rows[:, 0] == centroid).any()] for centroid in range(8)
    ]
    assert [part.tolist() for part in torch.split(passages[: lengths.sum()], lengths.tolist())] == expected
    # Read by strides of the longest list from every start, the last one's too.
    assert len(passages) >= int(lengths[:-1].sum() + lengths.max())


def test_the_codec_becomes_an_artefact(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "codec.safetensors"
    main(["codec", "import", str(index), "--out", str(out), "--json"])
    printed = json.loads(capsys.readouterr().out)
    # Reading compares the id with the content.
    codec = codec_artefact.from_bytes(out.read_bytes())
    assert codec.codec_id == printed["codec_id"] == import_index(index).codec.codec_id
    assert (printed["format"], printed["n_centroids"], printed["encoder_id"]) == ("rc2-16", 8, "org/colbert")
    np.testing.assert_array_equal(codec.centroids, _codec().centroids)
    assert codec.facts["imported_from"] == "colbert-ai"
    for broken, code in ((out, "export_exists"), (tmp_path / "no" / "folder", "export_unwritable")):
        with pytest.raises(SystemExit) as caught:
            main(["codec", "import", str(index), "--out", str(broken), "--json"])
        assert caught.value.code == 2
        assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def _edit_json(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        file = folder / name
        found = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps(change(found) or found), encoding="utf-8")

    return edit


def _edit_tensor(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda folder: torch.save(change(torch.load(folder / name, weights_only=True)), folder / name)


BROKEN = {
    "metadata.json can't be read": lambda folder: (folder / "metadata.json").write_text("{"),
    "metadata.json is not a JSON object": lambda folder: (folder / "metadata.json").write_text("[]"),
    "metadata.json has no config": _edit_json("metadata.json", lambda found: found.pop("config") and None),
    "metadata.json names no checkpoint": _edit_json(
        "metadata.json", lambda f: f["config"].pop("checkpoint") and None
    ),
    "16 dimensions of 3 bits": _edit_json("metadata.json", lambda found: found["config"].update(nbits=3)),
    "dim is 16 and nbits None": _edit_json("metadata.json", lambda found: found["config"].update(nbits=None)),
    "counts None chunks": _edit_json("metadata.json", lambda found: found.pop("num_chunks") and None),
    "doclens.3.json is missing": _edit_json("metadata.json", lambda found: found.update(num_chunks=4)),
    "doclens.1.json is not a list of lengths": _edit_json("doclens.1.json", lambda found: ["7", -1]),
    "1.codes.pt holds int32 (10,), where": _edit_json("doclens.1.json", lambda found: [7, 4]),
    "1.codes.pt is missing": lambda folder: (folder / "1.codes.pt").unlink(),
    "1.codes.pt names a centroid outside": _edit_tensor("1.codes.pt", lambda found: found + 8),
    "0.residuals.pt holds uint8 (3, 4), not": _edit_tensor("0.residuals.pt", lambda found: found[1:]),
    "0.residuals.pt holds int16": _edit_tensor("0.residuals.pt", lambda found: found.short()),
    "0.residuals.pt is broken": lambda folder: (folder / "0.residuals.pt").write_bytes(b"not a tensor"),
    "centroids.pt can't be read": lambda folder: (folder / "centroids.pt").write_bytes(
        (folder / "centroids.pt").read_bytes()[:300]
    ),
    "centroids.pt holds a dict": _edit_tensor("centroids.pt", lambda found: {"centroids": found}),
    "centroids.pt holds (8, 15)": _edit_tensor("centroids.pt", lambda found: found[:, 1:]),
    "centroids.pt holds a value that is not finite": _edit_tensor("centroids.pt", lambda found: found / 0),
    "buckets.pt does not hold": _edit_tensor("buckets.pt", lambda found: found[0]),
    "buckets.pt holds (3,) cutoffs and (3,) weights": _edit_tensor(
        "buckets.pt", lambda found: (found[0], found[0])
    ),
    "buckets.pt has cutoffs that do not ascend": _edit_tensor("buckets.pt", lambda f: (f[0].flip(0), f[1])),
    "avg_residual.pt is missing": lambda folder: (folder / "avg_residual.pt").unlink(),
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_index_is_refused(index: Path, message: str) -> None:
    BROKEN[message](index)
    with pytest.raises(UserError) as caught:
        list(import_index(index).rows())
    assert message in caught.value.message
    assert (caught.value.code, bool(caught.value.mend)) == ("colbert_index_malformed", True)
    assert str(index) in (caught.value.subject or "")


class _Payload:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return Path.touch, (Path("ran"),)


def test_code_in_a_file_is_not_run(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(index)
    torch.save(_Payload(), index / "centroids.pt")
    with pytest.raises(UserError, match="more than tensors"):
        import_index(index)
    assert not Path("ran").exists()


def test_unsupported_indexes_are_refused(index: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        import_index(tmp_path / "nothing")
    _edit_json("metadata.json", lambda found: found["config"].update(pool_factor=2))(index)
    assert len(list(import_index(index).rows())) == 5
    with pytest.raises(UserError) as caught:
        list(import_index(index).rows(markers=False))
    assert caught.value.code == "colbert_index_pooled"
    _edit_json("metadata.json", lambda found: found["config"].update(similarity="l2"))(index)
    with pytest.raises(UserError) as caught:
        import_index(index)
    assert caught.value.code == "colbert_index_unsupported"


def test_what_can_not_be_exported(tmp_path: Path) -> None:
    codec = _codec()
    rows = _documents(codec)
    beyond = rows[0].copy()
    beyond[2, 0] = 8
    projected = replace(codec, document_projection=np.eye(DIM, dtype=np.float32))
    for code, made, documents in (
        ("export_rows_malformed", codec, [rows[0], rows[2][:, 1:]]),
        ("export_rows_malformed", codec, [rows[0], beyond]),
        ("export_empty", codec, []),
        ("export_empty", codec, [rows[1]]),
        ("export_projection", projected, rows),
    ):
        with pytest.raises(UserError) as caught:
            export_index(tmp_path / "index", made, documents, checkpoint="c")
        assert (caught.value.code, bool(caught.value.mend)) == (code, True)
        assert not list(tmp_path.iterdir())
    (tmp_path / "index").mkdir()
    export_index(tmp_path / "index", codec, rows, checkpoint="c")
    with pytest.raises(UserError) as caught:
        export_index(tmp_path / "index", codec, rows, checkpoint="c")
    assert caught.value.code == "export_exists"


def test_collections(tmp_path: Path) -> None:
    path = tmp_path / "collection.tsv"
    path.write_text("0\tfirst text\n1\tsecond\ttitle\n", encoding="utf-8")
    assert read_collection(path) == ["first text", "title | second"]
    for text in ("0\ta\n2\tb\n", "0 a\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError) as caught:
            read_collection(path)
        assert caught.value.code == "colbert_collection_malformed"
