"""The hash in a codec's id: equal for codecs that encode and decode alike."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from pincite.domain.codec import BIT_ORDER, Codec


def content_hash(codec: Codec) -> str:
    """12 hex digits over everything that encoding and decoding depend on."""
    digest = hashlib.sha256(
        json.dumps([codec.encoder_id, codec.token_dim, codec.dim, codec.nbits, BIT_ORDER]).encode()
    )
    for array in (
        codec.centroids,
        codec.bucket_cutoffs,
        codec.bucket_weights,
        codec.document_projection,
        codec.query_projection,
    ):
        digest.update(b"none" if array is None else np.ascontiguousarray(array, dtype="<f4").tobytes())
    return digest.hexdigest()[:12]
