"""A bounded cache of decoded token vectors, keyed by chunk id and version (design.md §5, Freshness)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pincite.domain.types import ChunkVersion

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray


class TokenCache:
    """Least recently used out first; thread-safe.

    Vectors are held as float32: widening 200 chunks takes longer than scoring them.

    Args:
        max_bytes: Upper bound of the vectors' bytes. One that alone is larger is not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._items: OrderedDict[tuple[str, int, int], FloatArray] = OrderedDict()
        self._lock = threading.Lock()

    def get_many(self, wanted: Mapping[str, ChunkVersion]) -> dict[str, FloatArray]:
        """What the cache holds of exactly these versions."""
        found = {}
        with self._lock:
            for chunk_id, version in wanted.items():
                key = (chunk_id, version.seq_no, version.primary_term)
                array = self._items.get(key)
                if array is not None:
                    self._items.move_to_end(key)
                    found[chunk_id] = array
        return found

    def put(self, chunk_id: str, version: ChunkVersion, tokens: FloatArray) -> None:
        """Keep the vectors of one version."""
        key = (chunk_id, version.seq_no, version.primary_term)
        with self._lock:
            old = self._items.pop(key, None)
            if old is not None:
                self._n_bytes -= old.nbytes
            self._items[key] = tokens
            self._n_bytes += tokens.nbytes
            while self._n_bytes > self._max_bytes and self._items:
                _, dropped = self._items.popitem(last=False)
                self._n_bytes -= dropped.nbytes

    @property
    def full(self) -> bool:
        """Whether one more chunk of the usual size would push another one out."""
        with self._lock:
            usual = self._n_bytes // len(self._items) if self._items else 0
            return self._n_bytes + usual > self._max_bytes

    @property
    def n_bytes(self) -> int:
        """Bytes held."""
        with self._lock:
            return self._n_bytes

    def __len__(self) -> int:
        with self._lock:
            return len(self._items)
