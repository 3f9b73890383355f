"""The composed ingest: files → documents → chunks → vectors → the cluster. Resumable, idempotent.

A run that dies at any moment leaves the previous version of each source in force; the next run writes
only what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pincite.adapters.opensearch_sources import SourceIndex, StoredRecord
from pincite.domain import ids
from pincite.domain.codes import SourceStatus
from pincite.domain.errors import SourceError
from pincite.domain.protocols import Encoder, TokenCoder, Tokenizer
from pincite.domain.types import Chunk, SourceDocument
from pincite.encode.batches import encode_in_batches
from pincite.ingest import chunk_forensic
from pincite.ingest.extractors import ExtractorSet
from pincite.ingest.read_source import load_document
from pincite.ingest.walk import FoundFile, Walked, read_bytes
from pincite.wiring.clock import now

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What the caller says of all sources of a run."""

    collection: str = "default"
    case_id: str | None = None
    date: str | None = None
    acl: tuple[str, ...] = ()
    titles: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOutcome:
    """What became of one source: ``indexed``, ``unchanged`` or ``failed``."""

    file_name: str
    source_id: str
    status: str
    pages: int = 0
    chars: int = 0
    chunks: int = 0
    chunks_written: int = 0
    warnings: tuple[str, ...] = ()
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What became of a run."""

    run_id: str
    sources: tuple[SourceOutcome, ...]

    def count(self, status: str) -> int:
        """How many sources ended so."""
        return sum(1 for source in self.sources if source.status == status)

    def as_dict(self) -> dict[str, Any]:
        """JSON form: ``run_id``, ``totals``, ``sources[]``."""
        return {
            "run_id": self.run_id,
            "totals": {
                "sources": len(self.sources),
                "indexed": self.count("indexed"),
                "unchanged": self.count("unchanged"),
                "failed": self.count("failed"),
                "chunks": sum(s.chunks for s in self.sources),
                "chunks_written": sum(s.chunks_written for s in self.sources),
            },
            "sources": [
                {
                    "file_name": s.file_name,
                    "source_id": s.source_id,
                    "status": s.status,
                    "pages": s.pages,
                    "chars": s.chars,
                    "chunks": s.chunks,
                    "chunks_written": s.chunks_written,
                    "warnings": list(s.warnings),
                    "error": s.error,
                }
                for s in self.sources
            ],
        }


class IngestFlow:
    """Takes sources in.

    Args:
        sources: Records and chunks in the cluster.
        extractors: By file suffix.
        tokenizer: The chunker's.
        encoder: Loaded when the first chunk needs it, so that an unchanged run costs no model.
        encoder_id: The index's encoder.
        coder: Token vectors to rows; loaded likewise.
        codec_id: The index's codec.
    """

    def __init__(
        self,
        sources: SourceIndex,
        *,
        extractors: ExtractorSet,
        tokenizer: Tokenizer,
        encoder: Callable[[], Encoder],
        encoder_id: str,
        coder: Callable[[], TokenCoder],
        codec_id: str,
    ) -> None:
        self._sources, self._extractors, self._tokenizer = sources, extractors, tokenizer
        self._encoder, self._encoder_id = encoder, encoder_id
        self._coder, self._codec_id = coder, codec_id

    def run(self, found: Walked, options: IngestOptions, progress: Progress | None = None) -> IngestReport:
        """Take files in, one after the other; a file that cannot be taken in is reported, not raised.

        Raises:
            UpstreamError: the cluster failed; what was written stays, and the next run resumes.
            UserError: ``source_busy``.
        """
        run_id = ids.new_run_id()
        outcomes = [
            SourceOutcome(file_name=error.subject or "", source_id="", status="failed", error=error.as_dict())
            for error in found.errors
        ]
        for n, file in enumerate(found.files, start=1):
            if progress is not None:
                progress(file.file_name, n, len(found.files))
            outcomes.append(self._take(file, options, run_id))
        self._sources.refresh()
        return IngestReport(run_id=run_id, sources=tuple(outcomes))

    def _take(self, file: FoundFile, options: IngestOptions, run_id: str) -> SourceOutcome:
        source_id = ids.source_id(options.collection, file.file_name)
        record = self._sources.get(source_id)
        try:
            extractor = self._extractors.for_file(file.file_name)
            raw = read_bytes(file.path, file_name=file.file_name)
        except SourceError as exc:
            return self._failed(self._base(file, options, run_id), record, exc)
        base = self._base(file, options, run_id) | {
            "content_hash": ids.content_hash(raw),
            "n_bytes": len(raw),
            "extractor": extractor.extractor.as_dict(),
        }
        if record is not None and _unchanged(record, base):
            return SourceOutcome(
                file_name=file.file_name,
                source_id=source_id,
                status="unchanged",
                pages=record.document.get("n_pages") or 0,
                chars=record.document["n_chars"],
                chunks=record.document["n_chunks"],
                warnings=tuple(record.document.get("warnings") or ()),
            )
        warnings = _replaced(record, base)
        try:
            document = load_document(
                raw,
                file_name=file.file_name,
                uri=base["uri"],
                extractors=self._extractors,
                collection=options.collection,
                case_id=options.case_id,
                date=options.date,
                acl=options.acl,
                title=options.titles.get(file.file_name),
            )
            chunks = list(chunk_forensic.chunk(document, self._tokenizer, run_id))
        except SourceError as exc:
            return self._failed(self._base(file, options, run_id), record, exc)
        return self._index(document, chunks, base, record, warnings)

    def _index(
        self,
        document: SourceDocument,
        chunks: list[Chunk],
        base: dict[str, Any],
        record: StoredRecord | None,
        warnings: tuple[str, ...],
    ) -> SourceOutcome:
        pending = base | {
            "title": document.title,
            "media_type": document.media_type,
            "n_chars": len(document.text),
            "n_pages": len(document.pages) or None,
            "page_labels": [page.label for page in document.pages if page.label is not None],
            "n_chunks": len(chunks),
            "warnings": [*warnings, *document.warnings],
            "error": None,
        }
        record = self._sources.put(_in_force(record, pending, SourceStatus.INDEXING), record)
        stamps = self._sources.chunk_stamps(document.source_id)
        missing = [chunk for chunk in chunks if stamps.get(chunk.chunk_id) != self._stamp(chunk)]
        if missing:
            for batch in encode_in_batches(missing, self._encoder(), self._coder()):
                self._sources.write_chunks(
                    batch, encoder_id=self._encoder_id, codec_id=self._codec_id, ingested_at=now()
                )
        self._sources.refresh_chunks()
        # Searches see the new version from here on. The record says "indexing" until the old chunks are gone,
        # so that a run that dies between the two is gone on with, not taken for unchanged.
        switched = pending | {
            "status": SourceStatus.INDEXING.value,
            "pending_hash": None,
            "version": int(record.document.get("version") or 0) + 1,
        }
        record = self._sources.put(switched, record)
        kept = {chunk.chunk_id for chunk in chunks}
        self._sources.delete_chunks(document.source_id, [key for key in stamps if key not in kept])
        self._sources.put(switched | {"status": SourceStatus.INDEXED.value, "updated_at": now()}, record)
        return SourceOutcome(
            file_name=document.file_name,
            source_id=document.source_id,
            status="indexed",
            pages=len(document.pages),
            chars=len(document.text),
            chunks=len(chunks),
            chunks_written=len(missing),
            warnings=(*warnings, *document.warnings),
        )

    def _failed(self, base: dict[str, Any], record: StoredRecord | None, error: SourceError) -> SourceOutcome:
        """Record why a source is not in; a version that was in before stays in force."""
        error_doc = {"code": error.code, "message": error.message, "mend": error.mend or None}
        self._sources.put(_in_force(record, base | {"error": error_doc}, SourceStatus.FAILED), record)
        return SourceOutcome(
            file_name=base["file_name"], source_id=base["source_id"], status="failed", error=error.as_dict()
        )

    def _base(self, file: FoundFile, options: IngestOptions, run_id: str) -> dict[str, Any]:
        """What a record holds before the file is read."""
        moment = now()
        return {
            "source_id": ids.source_id(options.collection, file.file_name),
            "collection": options.collection,
            "file_name": file.file_name,
            "uri": file.path.absolute().as_uri(),
            "content_hash": None,
            "case_id": options.case_id,
            "date": options.date,
            "acl": list(options.acl),
            "n_bytes": 0,
            "extractor": None,
            "chunker": chunk_forensic.CHUNKER.as_dict(),
            "encoder_id": self._encoder_id,
            "ingest_run": run_id,
            "title": options.titles.get(file.file_name),
            "created_at": moment,
            "updated_at": moment,
        }

    def _stamp(self, chunk: Chunk) -> tuple[Any, ...]:
        return (
            chunk.title,
            chunk.date,
            chunk.acl,
            self._encoder_id,
            self._codec_id,
            chunk.provenance.case_id,
            chunk.provenance.file_name,
        )


_IDENTITY = ("content_hash", "case_id", "date", "extractor", "chunker", "encoder_id", "file_name")


def _unchanged(record: StoredRecord, base: dict[str, Any]) -> bool:
    """Whether the record says that exactly this is in the index already."""
    old = record.document
    return (
        old["status"] == SourceStatus.INDEXED.value
        and all(old.get(key) == base[key] for key in _IDENTITY)
        and list(old.get("acl") or ()) == base["acl"]
        and (base["title"] is None or old.get("title") == base["title"])
    )


def _replaced(record: StoredRecord | None, base: dict[str, Any]) -> tuple[str, ...]:
    """A warning when another file of the same name is about to be replaced."""
    if record is None or not record.document.get("content_hash"):
        return ()
    old = record.document
    if old["uri"] == base["uri"] or old["content_hash"] == base["content_hash"]:
        return ()
    return (
        f"replaces the source of the same name that was read from {old['uri']}; use --collection to keep both",
    )


def _in_force(record: StoredRecord | None, new: dict[str, Any], status: SourceStatus) -> dict[str, Any]:
    """The record while ``new`` is not (yet) in: the version in force stays named."""
    old = record.document if record is not None else {}
    in_force = {key: old.get(key) for key in ("content_hash", "extractor", "chunker")}
    kept = (
        {}
        if not old.get("content_hash")
        else {key: old.get(key) for key in ("n_chars", "n_pages", "n_chunks", "page_labels", "title", "n_bytes")}
    )
    return (
        new
        | kept
        | in_force
        | {
            "status": status.value,
            "pending_hash": new["content_hash"],
            "version": int(old.get("version") or 0),
            "created_at": old.get("created_at") or new["created_at"],
        }
    )


def remove_source(sources: SourceIndex, record: StoredRecord) -> int:
    """Take a source out: hidden at once, then its chunks go, then its record. Returns the chunks' number."""
    source_id = record.document["source_id"]
    sources.put(
        {**record.document, "status": SourceStatus.DELETED.value, "content_hash": None, "updated_at": now()},
        record,
    )
    chunk_ids: Iterable[str] = list(sources.chunk_stamps(source_id))
    sources.delete_chunks(source_id, chunk_ids)
    sources.refresh()
    sources.remove(source_id)
    return len(list(chunk_ids))
