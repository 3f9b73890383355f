"""The codec's life: trained on a sample of the index, listed, and put in force by re-encoding all chunks.

Re-encoding fills a second index and then gives it the alias. It can be killed at any moment: searches go on
with the index in use, and the next run finds what is already written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pincite.adapters.chunk_documents import from_source
from pincite.adapters.opensearch_codecs import CodecIndex
from pincite.adapters.opensearch_indices import IndexModel, Indices
from pincite.adapters.opensearch_migration import ChunkMigration
from pincite.adapters.opensearch_sources import SourceIndex
from pincite.domain.codec import Codec
from pincite.domain.errors import UserError
from pincite.domain.protocols import Encoder, TokenCoder
from pincite.domain.types import Chunk
from pincite.encode import codec_artefact
from pincite.encode.batches import BATCH_CHUNKS, encode_in_batches
from pincite.encode.codec_train import train_codec
from pincite.encode.shipped_codecs import shipped_codec
from pincite.encode.token_rows import CodecCoder
from pincite.wiring.clock import now
from pincite.wiring.late import load_codec, store_codec

Progress = Callable[[str, int, int], None]

#: Tokens that a codec is trained on, at most: 300,000 of 384 dimensions are 460 MB.
_MAX_SAMPLE_TOKENS = 300_000
_MIN_SAMPLE_TOKENS = 1_000
_CODEC_ID = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How to train.

    Attributes:
        name: The first part of the codec's id.
        nbits: Bits a dimension: 1, 2 or 4.
        n_chunks: Chunks of the sample.
        n_centroids: None: by the rule of ColBERTv2, from the index's number of tokens.
        seed: Same index, same seed, same codec.
    """

    name: str = "codec"
    nbits: int = 2
    n_chunks: int = 2_000
    n_centroids: int | None = None
    seed: int = 0


class CodecFlow:
    """Trains, lists and migrates.

    Args:
        indices: The installation.
        encoder: The index's encoder, loaded when needed.
    """

    def __init__(self, indices: Indices, *, encoder: Callable[[], Encoder]) -> None:
        self._indices, self._encoder = indices, encoder
        self._migration = ChunkMigration(indices)

    # -- status ------------------------------------------------------------------------------------

    def status(self, model: IndexModel) -> dict[str, Any]:
        """The index's codec, the codecs that are there, and what a migration has left to do."""
        return {
            "encoder_id": model.encoder_id,
            "codec_id": model.codec_id,
            "token_format": model.token_format,
            "chunks_by_codec": self._migration.codec_counts(),
            "codecs": [
                {
                    "codec_id": codec.codec_id,
                    "encoder_id": codec.encoder_id,
                    "format": codec.format,
                    "n_centroids": codec.n_centroids,
                    "n_bytes": codec.n_bytes,
                    "created_at": codec.created_at,
                    "facts": codec.manifest.get("facts", {}),
                }
                for codec in CodecIndex(self._indices).all()
            ],
            "migration": [
                {"index": name, "to": codec_id, "chunks": self._migration.count(name)}
                for name, codec_id in self._migration.unfinished().items()
            ],
        }

    # -- training ----------------------------------------------------------------------------------

    def train(self, model: IndexModel, options: TrainOptions, progress: Progress) -> Codec:
        """Train a codec on a sample of the index's chunks and store it. It is not yet in force.

        Raises:
            UserError: ``codec_sample_too_small``.
        """
        sample = self._migration.sample(options.n_chunks)
        encoder = self._encoder()
        vectors: list[Any] = []
        n_tokens = 0
        for start in range(0, len(sample), BATCH_CHUNKS):
            progress("encode", min(start + BATCH_CHUNKS, len(sample)), len(sample))
            batch = sample[start : start + BATCH_CHUNKS]
            for encoded in encoder.encode_passages([t for t, _ in batch], contexts=[t for _, t in batch]):
                vectors.append(encoded.tokens.astype(np.float32))
                n_tokens += len(encoded.tokens)
            if n_tokens >= _MAX_SAMPLE_TOKENS:
                break
        if n_tokens < _MIN_SAMPLE_TOKENS:
            raise UserError(
                "codec_sample_too_small",
                f"The index holds {n_tokens} tokens; a codec is trained on at least {_MIN_SAMPLE_TOKENS}.",
                mend="Take more sources in first (`pincite ingest`).",
            )
        known = shipped_codec(model.encoder_id)
        codec = train_codec(
            np.concatenate(vectors)[:_MAX_SAMPLE_TOKENS],
            encoder_id=model.encoder_id,
            name=options.name,
            nbits=options.nbits,
            n_centroids=options.n_centroids,
            n_collection_tokens=self._migration.n_tokens(),
            projection=None if known is None else (known.document_projection, known.query_projection),
            seed=options.seed,
            progress=progress,
        )
        store_codec(codec, self._indices)
        return codec

    # -- migration ---------------------------------------------------------------------------------

    def migrate(
        self, model: IndexModel, codec_id: str, progress: Progress, *, keep_old: bool = False
    ) -> dict[str, Any]:
        """Re-encode every chunk with another codec and put it in force.

        Searches see the old index until the new one is whole. Chunks that another process writes meanwhile
        are caught up with; those that a process with the old codec writes after the switch are found by
        running this again.

        Raises:
            ConfigError: ``codec_missing``, ``codec_mismatch``.
        """
        codec = load_codec(codec_id, model.encoder_id, self._indices)
        wanted = replace(model, codec_id=codec.codec_id, token_format=codec.format.name)
        coder = CodecCoder(codec)
        old = self._migration.current()
        if model.codec_id == codec_id:
            n_written = self._copy_all(old, old, coder, wanted, progress, delete=False)
            return {"codec_id": codec_id, "index": old, "chunks_written": n_written, "dropped": None}
        new = self._migration.open_target(wanted)
        n_written = self._copy_all(old, new, coder, wanted, progress)
        # What was written or deleted while the first pass ran; short, so the switch misses little.
        n_written += self._copy_all(old, new, coder, wanted, lambda *_: None)
        switched_at = now()
        self._migration.switch(old, new)
        n_written += self._catch_up(old, new, coder, wanted, switched_at)
        if not keep_old:
            self._migration.drop(old)
        return {
            "codec_id": codec_id,
            "index": new,
            "chunks_written": n_written,
            "dropped": None if keep_old else old,
        }

    def _copy_all(
        self, old: str, new: str, coder: TokenCoder, model: IndexModel, progress: Progress, *, delete: bool = True
    ) -> int:
        source_ids = list(self._migration.source_ids(old))
        n_written = 0
        for n, source_id in enumerate(source_ids, start=1):
            progress(source_id, n, len(source_ids))
            n_written += self._copy(source_id, old, new, coder, model)
        gone = set(self._migration.source_ids(new)) - set(source_ids) if delete else set()
        target = SourceIndex(self._indices, chunks=new)
        for source_id in gone:
            target.delete_chunks(source_id, list(target.chunk_stamps(source_id)))
        target.refresh_chunks()
        return n_written

    def _copy(self, source_id: str, old: str, new: str, coder: TokenCoder, model: IndexModel) -> int:
        """Bring one source's chunks in ``new`` to what they are in ``old``."""
        source, target = SourceIndex(self._indices, chunks=old), SourceIndex(self._indices, chunks=new)
        there = {key: _recoded(s, model.codec_id) for key, s in source.chunk_stamps(source_id).items()}
        here = target.chunk_stamps(source_id)
        wanted = {key for key, stamp in there.items() if here.get(key) != stamp}
        if old != new:
            target.delete_chunks(source_id, [key for key in here if key not in there])
        return self._write(_those(source, source_id, wanted), target, coder, model)

    def _catch_up(self, old: str, new: str, coder: TokenCoder, model: IndexModel, switched_at: str) -> int:
        """Writes and deletes that went to the old index between the last pass and the switch."""
        source, target = SourceIndex(self._indices, chunks=old), SourceIndex(self._indices, chunks=new)
        n_written = 0
        for source_id in sorted({*self._migration.source_ids(old), *self._migration.source_ids(new)}):
            there, here = source.chunk_stamps(source_id), target.chunk_stamps(source_id)
            late = {key for key in there if key not in here}
            # A source that was taken in anew after the switch has no use for its old version's chunks.
            current = source.current_versions([source_id]).get(source_id) if late else None
            late_documents = [
                doc for doc in _those(source, source_id, late) if from_source(doc).provenance.version == current
            ]
            n_written += self._write(late_documents, target, coder, model)
            gone = {key for key in here if key not in there}
            if gone:
                target.delete_chunks(
                    source_id,
                    [
                        doc["chunk_id"]
                        for doc in _those(target, source_id, gone)
                        if doc["ingested_at"] < switched_at
                    ],
                )
        target.refresh_chunks()
        return n_written

    def _write(
        self,
        documents: Iterable[Mapping[str, Any]],
        target: SourceIndex,
        coder: TokenCoder,
        model: IndexModel,
    ) -> int:
        chunks: list[Chunk] = []
        times: dict[str, str] = {}
        for document in documents:
            chunks.append(from_source(document))
            times[document["chunk_id"]] = document["ingested_at"]
        for batch in encode_in_batches(chunks, self._encoder(), coder):
            target.write_chunks(batch, encoder_id=model.encoder_id, codec_id=model.codec_id, ingested_at=times)
        return len(chunks)


def _those(index: SourceIndex, source_id: str, chunk_ids: Set[str]) -> list[Mapping[str, Any]]:
    """The documents of some of a source's chunks."""
    if not chunk_ids:
        return []
    return [doc for doc in index.chunk_documents(source_id) if doc["chunk_id"] in chunk_ids]


def _recoded(stamp: tuple[Any, ...], codec_id: str) -> tuple[Any, ...]:
    """The stamp of a chunk as it is to be with another codec."""
    return (*stamp[:_CODEC_ID], codec_id, *stamp[_CODEC_ID + 1 :])


def codec_of_colbert_index(folder: Path, *, encoder_id: str | None = None) -> Codec:
    """The codec of an index that colbert-ai wrote.

    Raises:
        UserError: ``colbert_index_malformed``, ``colbert_index_unsupported``.
    """
    # It reads torch's files.
    from pincite.adapters.models_colbert_index import import_index

    return import_index(folder, encoder_id=encoder_id).codec


def write_codec(codec: Codec, path: Path) -> None:
    """Write a codec's artefact to a new file.

    Raises:
        UserError: ``export_exists``; ``export_unwritable``.
    """
    try:
        with path.open("xb") as file:
            file.write(codec_artefact.to_bytes(codec))
    except FileExistsError as exc:
        raise UserError(
            "export_exists", f"{path} exists already.", mend="Name a new file.", subject=str(path)
        ) from exc
    except OSError as exc:
        raise UserError(
            "export_unwritable",
            f"{path} can't be written: {exc.strerror or exc}.",
            mend="Name a file in a folder that is there and may be written to.",
            subject=str(path),
        ) from exc
