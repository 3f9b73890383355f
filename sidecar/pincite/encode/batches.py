"""Chunks to encoded chunks, in batches that bound memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pincite.domain.codec import CENTROID_BYTES
from pincite.domain.protocols import EncodedChunk, Encoder, TokenCoder
from pincite.domain.types import Chunk

if TYPE_CHECKING:
    from pincite.domain.protocols import ByteArray

#: Chunks per batch. 64 chunks of 200 tokens and 384 dimensions are 10 MB of float16 and 20 MB of float32.
BATCH_CHUNKS = 64
#: What is encoded before a chunk's text, with a version: another context makes other vectors.
CONTEXT_ID = "title@1"


def encode_in_batches(
    chunks: Sequence[Chunk], encoder: Encoder, coder: TokenCoder, *, batch_chunks: int = BATCH_CHUNKS
) -> Iterator[list[EncodedChunk]]:
    """Encode chunks, a batch at a time, in their order.

    The document's title is the context of each of its chunks, after Summary-Augmented Chunking: what tells
    two documents with the same clauses apart stands in the title, not in the clause. The title is not part
    of the citable text, and its tokens are not stored.
    """
    for start in range(0, len(chunks), batch_chunks):
        batch = chunks[start : start + batch_chunks]
        encoded = encoder.encode_passages(
            [chunk.text for chunk in batch], contexts=[chunk.title for chunk in batch]
        )
        yield [
            EncodedChunk(chunk=c, pooled=e.pooled, rows=rows, centroids=centroid_terms(rows, coder))
            for c, e in zip(batch, encoded, strict=True)
            for rows in [coder.rows(e.tokens)]
        ]


def centroid_terms(rows: ByteArray, coder: TokenCoder) -> tuple[str, ...] | None:
    """The distinct centroid numbers of a chunk's rows, ascending, as the terms of the centroid leg."""
    if coder.format.kind != "rc":
        return None
    numbers = np.ascontiguousarray(rows[:, :CENTROID_BYTES]).view("<u4")
    return tuple(str(number) for number in np.unique(numbers))
