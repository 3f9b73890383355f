"""Indexes of colbert-ai 0.2.22 (Stanford's ColBERT): read here, and written so that it reads them.

An index is a folder; ``N`` counts its chunks of up to 25,000 passages:

* ``metadata.json`` (``config``, counts) and ``plan.json`` (written first: an index without ``metadata.json`` was
  never finished); ``N.metadata.json``, ``doclens.N.json`` (rows of each passage);
* ``N.codes.pt`` (int32 centroid numbers), ``N.residuals.pt`` (uint8, packed as ours);
* ``centroids.pt``, ``buckets.pt`` (cutoffs, weights), ``avg_residual.pt``; ``ivf.pid.pt`` (centroid to passages).

Passages are numbered by their line in ``collection.tsv``. What colbert-ai wrote is read with ``weights_only``:
a file that holds more than tensors is refused, not run. docs/colbert.md says what differs from our own rows.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import torch

from pincite.adapters.models_checkpoint import checkpoint_id
from pincite.domain.codec import CENTROID_BYTES, Codec, TokenFormat
from pincite.domain.errors import UserError
from pincite.kernels.codec_hash import content_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pincite.domain.protocols import ByteArray, FloatArray, IntArray

#: Passages in a chunk, as colbert-ai has them.
CHUNK_PASSAGES = 25_000
#: Settings of an index that a search depends on; the others are of its making.
SETTINGS = (
    "doc_maxlen",
    "query_maxlen",
    "mask_punctuation",
    "attend_to_mask_tokens",
    "similarity",
    "interaction",
    "query_token_id",
    "doc_token_id",
    "query_token",
    "doc_token",
)
_REBUILD = "Build the index again with colbert-ai 0.2.22, or copy it whole."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImportedIndex:
    """An index that was opened; its rows are read when they are asked for.

    Attributes:
        folder: Where it lies.
        codec: Its codec, without a projection: the checkpoint has it. Centroids are as colbert-ai saved them,
            rounded to half precision, so their lengths are 1 to three digits; they are not normalised again,
            since the residuals were taken from them as they are.
        doclens: (n_passages,) int64: rows of each passage.
        config: colbert-ai's settings, as they stand in the index.
    """

    folder: Path
    codec: Codec
    doclens: IntArray
    config: Mapping[str, Any]
    chunks: tuple[int, ...]

    @property
    def pids(self) -> range:
        """Numbers of the passages."""
        return range(len(self.doclens))

    def rows(self, *, markers: bool = True) -> Iterator[tuple[int, ByteArray]]:
        """Every passage's number and rows, in order: (n, row_bytes) uint8, the layout of a token blob.

        One chunk of the index is in memory at a time.

        Args:
            markers: Whether the rows of [CLS], of the document marker and of [SEP] (the first two and the last)
                stay. colbert-ai scores them; our own rows hold a text's tokens only.

        Raises:
            UserError: ``colbert_index_malformed``; ``colbert_index_pooled`` where pooled rows have no markers
                that could be told apart.
        """
        if not markers and int(self.config.get("pool_factor") or 1) > 1:
            raise UserError(
                "colbert_index_pooled",
                f"The index {self.folder} holds pooled tokens: [CLS], marker and [SEP] can't be told apart in it.",
                mend="Import it with the markers.",
                subject=str(self.folder),
            )
        pid = 0
        for chunk, n_passages in enumerate(self.chunks):
            lengths = self.doclens[pid : pid + n_passages]
            rows = self._chunk_rows(chunk, int(lengths.sum()))
            at = 0
            for length in lengths.tolist():
                end = at + length
                yield pid, rows[at:end] if markers else rows[at + 2 : max(end - 1, at + 2)]
                pid, at = pid + 1, end

    def _chunk_rows(self, chunk: int, n_rows: int) -> ByteArray:
        codes_file = self.folder / f"{chunk}.codes.pt"
        residuals_file = self.folder / f"{chunk}.residuals.pt"
        codes, residuals = _tensor(codes_file), _tensor(residuals_file)
        packed = self.codec.format.row_bytes - CENTROID_BYTES
        if codes.shape != (n_rows,) or codes.dtype not in {torch.int32, torch.int64}:
            raise _malformed(codes_file, f"holds {_shape(codes)}, where doclens.{chunk}.json counts {n_rows} rows")
        if residuals.shape != (n_rows, packed) or residuals.dtype != torch.uint8:
            raise _malformed(residuals_file, f"holds {_shape(residuals)}, not uint8 ({n_rows}, {packed})")
        numbers = codes.numpy()
        if n_rows and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self.codec.centroids):
            raise _malformed(codes_file, f"names a centroid outside the {len(self.codec.centroids)} of the codec")
        rows = np.empty((n_rows, self.codec.format.row_bytes), dtype=np.uint8)
        rows[:, :CENTROID_BYTES] = numbers.astype("<u4").view(np.uint8).reshape(-1, CENTROID_BYTES)
        rows[:, CENTROID_BYTES:] = residuals.numpy()
        return rows


def import_index(folder: Path, *, encoder_id: str | None = None) -> ImportedIndex:
    """Open an index that colbert-ai wrote.

    Args:
        folder: The index.
        encoder_id: Whose vectors its codec takes. None: that of the checkpoint it names, with a hash of the
            weights where the checkpoint is a folder here.

    Returns:
        Codec, passage lengths and a reader of rows. Cost: the codec and the doclens; rows are not read yet.

    Raises:
        UserError: ``colbert_index_malformed`` (a file is missing, broken or does not fit the others),
            ``colbert_index_unsupported`` (similarity other than cosine).
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise _malformed(folder, "is not a folder", mend="Name the folder that holds metadata.json.")
    if not (folder / "metadata.json").is_file() and (folder / "plan.json").is_file():
        raise _malformed(
            folder / "metadata.json",
            "is missing: the index was not finished",
            mend="Let colbert-ai finish it (overwrite='resume').",
        )
    metadata = _json(folder / "metadata.json", dict)
    config = metadata.get("config")
    if not isinstance(config, dict):
        raise _malformed(folder / "metadata.json", "has no config")
    if config.get("similarity", "cosine") != "cosine":
        raise UserError(
            "colbert_index_unsupported",
            f"The index {folder} is scored by {config['similarity']}; Pincite scores by cosine.",
            mend="Train and index with similarity='cosine'.",
            subject=str(folder),
        )
    checkpoint = config.get("checkpoint")
    if encoder_id is None and not isinstance(checkpoint, str):
        raise _malformed(
            folder / "metadata.json", "names no checkpoint", mend="Name the encoder that made the index."
        )
    codec = _read_codec(folder, config, encoder_id or checkpoint_id(Path(str(checkpoint))))
    doclens, chunks = _read_doclens(folder, metadata.get("num_chunks"))
    return ImportedIndex(
        folder=folder, codec=codec, doclens=doclens, config=MappingProxyType(config), chunks=tuple(chunks)
    )


def read_collection(path: Path) -> list[str]:
    """The passages of a ``collection.tsv``: lines of ``pid<TAB>text`` or ``pid<TAB>text<TAB>title``.

    The result at position pid is what colbert-ai encoded: it puts a title before the text, with `` | `` between.

    Raises:
        UserError: ``colbert_collection_malformed``, with the line.
    """
    passages = []
    with path.open(encoding="utf-8") as lines:
        for at, line in enumerate(lines):
            pid, *columns = line.strip("\n\r ").split("\t")
            if not columns or (pid != "id" and pid != str(at)):
                raise UserError(
                    "colbert_collection_malformed",
                    f"Line {at + 1} of {path} is not 'pid<TAB>text' with the pid {at}.",
                    mend="Number the passages from 0, one a line, in order, without tabs in the text.",
                    subject=str(path),
                )
            passages.append(f"{columns[1]} | {columns[0]}" if len(columns) > 1 else columns[0])
    return passages


def export_index(
    folder: Path,
    codec: Codec,
    documents: Iterable[ByteArray],
    *,
    checkpoint: str,
    collection: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    chunk_passages: int = CHUNK_PASSAGES,
) -> int:
    """Write an index that colbert-ai's ``Searcher`` opens.

    Passages are numbered in the order of ``documents``. Centroids are saved in half precision, as colbert-ai
    does, where that changes none of them; else as float32, which it reads too (and rounds on a GPU).

    Args:
        folder: Must not exist, or be empty. It appears whole or not at all.
        codec: Without projections: colbert-ai has no place for one.
        documents: Rows of each passage, (n, row_bytes) uint8 as the codec writes them.
        checkpoint: Path or hub id of the ColBERT checkpoint that encodes the queries.
        collection: The passages' ``collection.tsv``. None: ``Searcher`` must be given one.
        settings: Further settings of colbert-ai (``SETTINGS``): ``ImportedIndex.config`` will do.
        chunk_passages: Passages in a chunk.

    Returns:
        How many passages were written. Cost: one chunk in memory, and 8 bytes for each pair of a passage and a
        centroid in it.

    Raises:
        UserError: ``export_exists``, ``export_empty``, ``export_rows_malformed``, ``export_projection``.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            "export_exists", f"{folder} exists already.", mend="Name a new folder.", subject=str(folder)
        )
    if codec.document_projection is not None or codec.query_projection is not None:
        raise UserError(
            "export_projection",
            f"The codec {codec.codec_id} projects vectors; colbert-ai projects in its checkpoint only.",
            mend="Export an index of a ColBERT checkpoint, whose codec has no projection.",
            subject=codec.codec_id,
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        writer = _Writer(work, codec)
        waiting: list[ByteArray] = []
        for rows in documents:
            waiting.append(rows)
            if len(waiting) == chunk_passages:
                writer.chunk(waiting)
                waiting = []
        if waiting:
            writer.chunk(waiting)
        if not writer.n_rows:
            raise UserError("export_empty", "There are no rows to export.", mend="Ingest and encode first.")
        kept = {name: settings[name] for name in SETTINGS if settings and settings.get(name) is not None}
        config = kept | {
            "dim": codec.dim,
            "nbits": codec.nbits,
            "checkpoint": checkpoint,
            "collection": str(collection.resolve()) if collection else None,
        }
        writer.finish(config)
        os.chmod(work, 0o755)  # noqa: PTH101, S103 - a folder like any other, where mkdtemp makes a private one
        if folder.exists():
            folder.rmdir()
        work.rename(folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return writer.n_passages


class _Writer:
    """Writes the files of an index, chunk after chunk."""

    def __init__(self, folder: Path, codec: Codec) -> None:
        self._folder, self._codec = folder, codec
        self._pairs: list[NDArray[np.int64]] = []
        self._n_chunks = self.n_passages = self.n_rows = 0

    def chunk(self, documents: list[ByteArray]) -> None:
        codec, number = self._codec, self._n_chunks
        for pid, rows in enumerate(documents, self.n_passages):
            if rows.ndim != 2 or rows.shape[1] != codec.format.row_bytes or rows.dtype != np.uint8:
                raise _bad_rows(pid, f"are {rows.dtype} {rows.shape}, not {codec.format.name}")
        lengths = [len(rows) for rows in documents]
        rows = np.concatenate(documents)
        codes = np.ascontiguousarray(rows[:, :CENTROID_BYTES]).view("<u4")[:, 0].astype(np.int64)
        owners = np.repeat(np.arange(self.n_passages, self.n_passages + len(documents)), lengths)
        if len(codes) and int(codes.max()) >= len(codec.centroids):
            pid = int(owners[codes.argmax()])
            raise _bad_rows(pid, f"name centroid {codes.max()} of {len(codec.centroids)}")
        self._pairs.append(np.unique(codes << 32 | owners))
        torch.save(torch.from_numpy(codes.astype(np.int32)), self._folder / f"{number}.codes.pt")
        packed = np.ascontiguousarray(rows[:, CENTROID_BYTES:])
        torch.save(torch.from_numpy(packed), self._folder / f"{number}.residuals.pt")
        _write_json(self._folder / f"doclens.{number}.json", lengths)
        facts = {
            "passage_offset": self.n_passages,
            "num_passages": len(documents),
            "num_embeddings": len(rows),
            "embedding_offset": self.n_rows,
        }
        _write_json(self._folder / f"{number}.metadata.json", facts)
        self._n_chunks += 1
        self.n_passages += len(documents)
        self.n_rows += len(rows)

    def finish(self, config: Mapping[str, Any]) -> None:
        codec, folder = self._codec, self._folder
        centroids = torch.from_numpy(np.array(codec.centroids))
        half = centroids.half()
        torch.save(half if torch.equal(half.float(), centroids) else centroids, folder / "centroids.pt")
        buckets = (
            torch.from_numpy(np.array(codec.bucket_cutoffs)),
            torch.from_numpy(np.array(codec.bucket_weights)),
        )
        torch.save(buckets, folder / "buckets.pt")
        # colbert-ai saves it and uses it nowhere; buckets are equally full, so the mean of weights is close.
        average = codec.facts.get("avg_residual", float(np.abs(codec.bucket_weights).mean()))
        torch.save(torch.tensor(float(average)), folder / "avg_residual.pt")
        torch.save(self._ivf(), folder / "ivf.pid.pt")
        counts = {"config": dict(config), "num_chunks": self._n_chunks, "num_partitions": len(codec.centroids)}
        average_length = self.n_rows / self.n_passages
        plan = counts | {"num_embeddings_est": float(self.n_rows), "avg_doclen_est": average_length}
        _write_json(folder / "plan.json", plan)
        done = counts | {"num_embeddings": self.n_rows, "avg_doclen": average_length}
        _write_json(folder / "metadata.json", done)

    def _ivf(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Passages of each centroid, ascending, and how many. Read in strides, hence the zeros at the end."""
        pairs = np.sort(np.concatenate(self._pairs))
        lengths = np.bincount(pairs >> 32, minlength=len(self._codec.centroids))
        passages = (pairs & 0xFFFFFFFF).astype(np.int32)
        if len(passages) - lengths[-1] + lengths.max() > len(passages):
            passages = np.concatenate([passages, np.zeros(lengths.max(), dtype=np.int32)])
        return torch.from_numpy(passages), torch.from_numpy(lengths.astype(np.int64))


def _read_codec(folder: Path, config: Mapping[str, Any], encoder_id: str) -> Codec:
    dim, nbits = config.get("dim"), config.get("nbits")
    try:
        if not (isinstance(dim, int) and isinstance(nbits, int) and dim > 0):
            raise ValueError(f"dim is {dim} and nbits {nbits}")
        TokenFormat(kind="rc", dim=dim, nbits=nbits)
    except ValueError as exc:
        raise _malformed(folder / "metadata.json", f"describes no codec that Pincite has: {exc}") from exc
    centroids = _floats(folder / "centroids.pt", _tensor(folder / "centroids.pt"))
    if centroids.ndim != 2 or centroids.shape[1] != dim or not len(centroids):
        raise _malformed(folder / "centroids.pt", f"holds {centroids.shape}, not rows of {dim}")
    file = folder / "buckets.pt"
    buckets = _load(file)
    if not (isinstance(buckets, tuple | list) and len(buckets) == 2 and all(map(torch.is_tensor, buckets))):
        raise _malformed(file, "does not hold cutoffs and weights")
    cutoffs, weights = (_floats(file, part) for part in buckets)
    if cutoffs.shape != (2**nbits - 1,) or weights.shape != (2**nbits,):
        raise _malformed(file, f"holds {cutoffs.shape} cutoffs and {weights.shape} weights for {nbits} bits")
    if (np.diff(cutoffs) < 0).any():
        raise _malformed(file, "has cutoffs that do not ascend")
    average = _floats(folder / "avg_residual.pt", _tensor(folder / "avg_residual.pt"))
    codec = Codec(
        codec_id="",
        encoder_id=encoder_id,
        token_dim=dim,
        dim=dim,
        nbits=nbits,
        centroids=centroids,
        bucket_cutoffs=cutoffs,
        bucket_weights=weights,
        facts={
            "imported_from": "colbert-ai",
            "avg_residual": float(average.mean()),
            "settings": {name: config[name] for name in SETTINGS if name in config},
        },
    )
    return replace(codec, codec_id=f"colbert-ai@{content_hash(codec)}")


def _read_doclens(folder: Path, n_chunks: object) -> tuple[IntArray, list[int]]:
    if not isinstance(n_chunks, int) or n_chunks < 1:
        raise _malformed(folder / "metadata.json", f"counts {n_chunks} chunks")
    parts = []
    for chunk in range(n_chunks):
        file = folder / f"doclens.{chunk}.json"
        lengths = _json(file, list)
        if not all(type(length) is int and length >= 0 for length in lengths):
            raise _malformed(file, "is not a list of lengths")
        parts.append(np.array(lengths, dtype=np.int64))
    return np.concatenate(parts), [len(part) for part in parts]


def _load(file: Path) -> Any:
    try:
        # weights_only: a pickle that would call anything is refused.
        return torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError as exc:
        raise _malformed(file, "is missing") from exc
    except UnpicklingError as exc:
        raise _malformed(file, "is broken, or holds more than tensors") from exc
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, BadZipFile) as exc:
        raise _malformed(file, f"can't be read: {exc}") from exc


def _tensor(file: Path) -> torch.Tensor:
    found = _load(file)
    if not torch.is_tensor(found):
        raise _malformed(file, f"holds a {type(found).__name__}, not a tensor")
    return found


def _floats(file: Path, tensor: torch.Tensor) -> FloatArray:
    values: FloatArray = tensor.detach().float().numpy()
    if not np.isfinite(values).all():
        raise _malformed(file, "holds a value that is not finite")
    return values


def _json(file: Path, kind: type) -> Any:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as exc:
        raise _malformed(file, "is missing") from exc
    except (OSError, ValueError) as exc:
        raise _malformed(file, f"can't be read: {exc}") from exc
    if not isinstance(found, kind):
        raise _malformed(file, f"is not a JSON {'object' if kind is dict else 'array'}")
    return found


def _write_json(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=4 if isinstance(value, dict) else None) + "\n", encoding="utf-8")


def _shape(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _malformed(file: Path, what: str, *, mend: str = _REBUILD) -> UserError:
    return UserError("colbert_index_malformed", f"{file} {what}.", mend=mend, subject=str(file))


def _bad_rows(pid: int, what: str) -> UserError:
    return UserError(
        "export_rows_malformed",
        f"The rows of passage {pid} {what}.",
        mend="Export rows with the codec that wrote them.",
        subject=str(pid),
    )
