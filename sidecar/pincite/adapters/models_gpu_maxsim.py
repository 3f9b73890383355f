"""MaxSim over residual codes with torch: codes go to the device, decoding and products happen there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pincite.kernels.maxsim_codes import check_ranges
from pincite.kernels.residual import byte_weights

if TYPE_CHECKING:
    from pincite.domain.codec import Codec
    from pincite.domain.protocols import ByteArray, FloatArray, IntArray


def cuda_available() -> bool:
    """Whether torch is installed and sees a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


class TorchScorer:
    """``MaxSimScorer`` for ``rc`` rows of one codec. Products are float32, never TF32 by our doing.

    Args:
        codec: Whose rows are scored; its centroids stay on the device.
        device: ``cuda`` or ``cpu``.

    Raises:
        ValueError: the codec holds a value that is not finite.
    """

    def __init__(self, codec: Codec, device: str) -> None:
        import torch

        if not (np.isfinite(codec.centroids).all() and np.isfinite(codec.bucket_weights).all()):
            raise ValueError("the codec holds a value that is not finite")
        self._dim = codec.dim
        self._row_bytes = codec.format.row_bytes
        self._device = torch.device(device)
        self._centroids = torch.tensor(np.asarray(codec.centroids, dtype=np.float32), device=self._device)
        self._table = torch.tensor(byte_weights(codec), device=self._device)

    def score(self, query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray) -> FloatArray:
        """(n_documents,) float32 scores; see ``MaxSimScorer``. Only the documents' rows are copied.

        Raises:
            ValueError: dimensions differ, a document lies outside of the rows, a row names no centroid, or
                the query is not finite.
        """
        import torch

        rows = np.asarray(rows)
        first, count = check_ranges(query, rows, starts, lengths, dim=self._dim, row_bytes=self._row_bytes)
        out = np.zeros(len(first), dtype=np.float32)
        n = int(count.sum())
        if n == 0 or len(query) == 0:
            return out
        owner = np.repeat(np.arange(len(first)), count)
        begins = np.cumsum(count) - count
        gathered = rows[np.arange(n) - begins[owner] + first[owner]]
        numbers = np.ascontiguousarray(gathered[:, :4]).view("<u4")[:, 0].astype(np.int64)
        if int(numbers.max()) >= len(self._centroids):
            raise ValueError(f"a row names centroid {numbers.max()} of {len(self._centroids)}")
        with torch.inference_mode():
            codes = torch.from_numpy(np.ascontiguousarray(gathered[:, 4:])).to(self._device).int()
            vectors = self._centroids[torch.from_numpy(numbers).to(self._device)]
            vectors += self._table[codes].reshape(n, self._dim)
            norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True, dtype=torch.float64)
            vectors /= torch.where(norms > 0, norms, 1.0).float()
            asked = torch.tensor(np.asarray(query, dtype=np.float32), device=self._device)
            products = vectors @ asked.T
            best = torch.full((len(first), len(query)), -torch.inf, device=self._device)
            index = torch.from_numpy(owner).to(self._device)[:, None].expand_as(products)
            best.scatter_reduce_(0, index, products, "amax")
            scores = best.sum(dim=1).cpu().numpy()
        out[count > 0] = scores[count > 0]
        return out
