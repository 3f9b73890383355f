"""A codec as bytes: safetensors with a JSON manifest in its metadata. Byte-stable; checked when read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from pincite.domain.codec import BIT_ORDER, Codec
from pincite.domain.errors import ContractError
from pincite.kernels.codec_hash import content_hash

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray

LAYOUT = 1
_REQUIRED = frozenset({"centroids", "bucket_cutoffs", "bucket_weights"})
_OPTIONAL = frozenset({"document_projection", "query_projection"})
_KEYS = ("codec_id", "encoder_id", "token_dim", "dim", "nbits", "bit_order", "layout", "facts")


def manifest(codec: Codec) -> dict[str, Any]:
    """What a reader needs to know of a codec before it reads the tensors."""
    return {
        "layout": LAYOUT,
        "codec_id": codec.codec_id,
        "encoder_id": codec.encoder_id,
        "token_dim": codec.token_dim,
        "dim": codec.dim,
        "nbits": codec.nbits,
        "bit_order": BIT_ORDER,
        "format": codec.format.name,
        "n_centroids": len(codec.centroids),
        "facts": dict(codec.facts),
    }


def to_bytes(codec: Codec) -> bytes:
    """The artefact. Centroids are stored in half precision where they survive it exactly."""
    half = codec.centroids.astype(np.float16)
    exact = bool((half.astype(np.float32) == codec.centroids).all())
    tensors: dict[str, Any] = {
        "centroids": half if exact else np.ascontiguousarray(codec.centroids, dtype=np.float32),
        "bucket_cutoffs": np.ascontiguousarray(codec.bucket_cutoffs, dtype=np.float32),
        "bucket_weights": np.ascontiguousarray(codec.bucket_weights, dtype=np.float32),
    }
    for name in sorted(_OPTIONAL):
        array = getattr(codec, name)
        if array is not None:
            tensors[name] = np.ascontiguousarray(array, dtype=np.float32)
    # One entry only: the order of several is not fixed.
    return bytes(save(tensors, {"pincite": json.dumps(manifest(codec), sort_keys=True, ensure_ascii=False)}))


def read_manifest(raw: bytes) -> dict[str, Any]:
    """The manifest of an artefact, without its tensors.

    Raises:
        ContractError: ``codec_malformed``.
    """
    try:
        length = int.from_bytes(raw[:8], "little")
        found = json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["pincite"])
    except (ValueError, KeyError, TypeError) as exc:
        raise malformed("it has no manifest") from exc
    if not isinstance(found, dict) or not all(key in found for key in _KEYS):
        raise malformed("its manifest is not whole")
    return found


def from_bytes(raw: bytes) -> Codec:
    """The codec of an artefact.

    Raises:
        ContractError: ``codec_malformed``, saying what is wrong.
    """
    found = read_manifest(raw)
    if found["layout"] != LAYOUT or found["bit_order"] != BIT_ORDER:
        raise malformed(f"its layout is {found['layout']} and its bit order {found['bit_order']!r}")
    try:
        tensors = load(raw)
    except SafetensorError as exc:
        raise malformed(str(exc)) from exc
    if not tensors.keys() >= _REQUIRED or not tensors.keys() <= _REQUIRED | _OPTIONAL:
        raise malformed(f"it holds {', '.join(sorted(tensors))}")
    for name, array in tensors.items():
        if array.dtype not in (np.float16, np.float32):
            raise malformed(f"{name} is of type {array.dtype}")
    arrays = {name: np.asarray(array, dtype=np.float32) for name, array in tensors.items()}
    try:
        codec = Codec(
            codec_id=found["codec_id"],
            encoder_id=found["encoder_id"],
            token_dim=found["token_dim"],
            dim=found["dim"],
            nbits=found["nbits"],
            centroids=arrays["centroids"],
            bucket_cutoffs=arrays["bucket_cutoffs"],
            bucket_weights=arrays["bucket_weights"],
            document_projection=arrays.get("document_projection"),
            query_projection=arrays.get("query_projection"),
            facts=found["facts"],
        )
        _check(codec)
    except (TypeError, ValueError) as exc:
        raise malformed(str(exc)) from exc
    if codec.codec_id.rpartition("@")[2] != content_hash(codec):
        raise malformed("its content is not what its id says")
    return codec


def malformed(what: str) -> ContractError:
    """The error for an artefact that cannot be used."""
    return ContractError(
        "codec_malformed",
        f"A codec artefact cannot be used: {what}.",
        mend="Restore it from where it was made, or train a codec with `pincite codec train`.",
    )


def _check(codec: Codec) -> None:
    """Shapes, order and finiteness; ValueError says what is wrong."""
    n_buckets = 2**codec.format.nbits
    shapes: dict[str, tuple[FloatArray | None, tuple[int, ...]]] = {
        "centroids": (codec.centroids, (len(codec.centroids), codec.dim)),
        "bucket_cutoffs": (codec.bucket_cutoffs, (n_buckets - 1,)),
        "bucket_weights": (codec.bucket_weights, (n_buckets,)),
        "document_projection": (codec.document_projection, (codec.token_dim, codec.dim)),
        "query_projection": (codec.query_projection, (codec.token_dim, codec.dim)),
    }
    for name, (array, shape) in shapes.items():
        if array is None:
            continue
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds a value that is not finite")
    if not len(codec.centroids):
        raise ValueError("it has no centroids")
    if codec.document_projection is None and codec.token_dim != codec.dim:
        raise ValueError(f"{codec.token_dim} dimensions are not {codec.dim}, and there is no projection")
    for name in ("bucket_cutoffs", "bucket_weights"):
        if (np.diff(getattr(codec, name)) < 0).any():
            raise ValueError(f"{name} do not ascend")
