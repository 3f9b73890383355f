"""MaxSim over residual codes with torch, for a CUDA device. The same contract as the CPU's kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.domain.codec import Codec
from pincite.kernels.maxsim_codes import byte_weights, check_call

if TYPE_CHECKING:
    from pincite.domain.protocols import ByteArray, FloatArray, IntArray


def cuda_available() -> bool:
    """Whether torch is installed and sees a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


class TorchScorer:
    """Scores rows of one residual codec on a torch device; sums in float32.

    Args:
        codec: The codec; its centroids are kept on the device.
        device: ``cuda``, or ``cpu`` for tests.
    """

    def __init__(self, codec: Codec, *, device: str) -> None:
        import torch

        self._torch: Any = torch
        self._codec, self._device = codec, device
        self._centroids = torch.from_numpy(np.ascontiguousarray(codec.centroids)).to(device)
        self._table = torch.from_numpy(byte_weights(codec)).to(device)

    def score(self, query: FloatArray, rows: ByteArray, starts: IntArray, lengths: IntArray) -> FloatArray:
        """(n_documents,) float32; see ``MaxSimScorer``. The documents' rows are copied to the device once."""
        torch, form = self._torch, self._codec.format
        check_call(query, rows, starts, lengths, dim=form.dim, row_bytes=form.row_bytes)
        out = np.zeros(len(starts), dtype=np.float32)
        filled = np.flatnonzero(lengths)
        if not len(query) or not len(filled):
            return out
        gathered = np.concatenate([rows[starts[i] : starts[i] + lengths[i]] for i in filled])
        numbers = np.ascontiguousarray(gathered[:, :4]).view("<u4")[:, 0].astype(np.int64)
        if int(numbers.max()) >= len(self._codec.centroids):
            raise ValueError(f"a row names a centroid that the codec's {len(self._codec.centroids)} lack")
        with torch.inference_mode():
            packed = torch.from_numpy(np.ascontiguousarray(gathered[:, 4:])).to(self._device)
            decoded = self._table[packed.long()].reshape(len(gathered), form.dim)
            decoded += self._centroids[torch.from_numpy(numbers).to(self._device)]
            decoded /= decoded.norm(dim=1, keepdim=True).clamp_min(1e-12)
            products = decoded @ torch.from_numpy(np.ascontiguousarray(query, dtype=np.float32)).to(self._device).T
            owner = np.repeat(np.arange(len(filled)), lengths[filled])
            index = torch.from_numpy(owner).to(self._device)[:, None].expand_as(products)
            best = torch.full((len(filled), len(query)), -torch.inf, device=self._device)
            best = best.scatter_reduce(0, index, products, reduce="amax")
            out[filled] = best.sum(dim=1).cpu().numpy()
        return out
