"""What the model adapters share: windows over long texts, batches by length, and taking turns."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.kernels.vectors import normalize

if TYPE_CHECKING:
    from pincite.domain.protocols import FloatArray


#: Tokens of a batch, so that memory is bounded and a query waits for one batch at most.
BATCH_TOKENS = 4096
#: Tokens of a context: 2 + 48 + 200 fit a model of 256 (design.md §5).
MAX_CONTEXT_TOKENS = 48


def token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The ids of the texts' own tokens: nothing added, cut or padded."""
    if not texts:
        return []
    rows: list[list[int]] = tokenizer(
        list(texts), add_special_tokens=False, truncation=False, padding=False, verbose=False
    )["input_ids"]
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What goes through the model at once: token ids that shape the vectors, and a piece of a text.

    Attributes:
        owner: Position of the text.
        before: Prompt and context: the model reads them, their tokens are not stored.
        piece: The text's own tokens.
        start: Ordinal of the piece's first token in the text.
    """

    owner: int
    before: list[int]
    piece: list[int]
    start: int

    def __len__(self) -> int:
        return len(self.before) + len(self.piece)


def cut_windows(rows: Sequence[list[int]], before: Sequence[list[int]], room: int) -> list[Window]:
    """Windows that hold every token of every text once, and at least one window a text.

    Args:
        rows: Token ids of the texts.
        before: For each text what stands before it in every window.
        room: The most tokens in a window, special tokens not counted.
    """
    return [
        Window(owner=owner, before=head, piece=row[start : start + size], start=start)
        for owner, (row, head) in enumerate(zip(rows, before, strict=True))
        for size in [max(room - len(head), 1)]
        for start in range(0, max(len(row), 1), size)
    ]


def batches(lengths: Sequence[int], max_tokens: int, *, padded: bool) -> list[list[int]]:
    """Indices in batches of similar length, longest first, each of at most ``max_tokens`` tokens.

    Args:
        lengths: Tokens of each item.
        max_tokens: Bound of a batch; a longer item is a batch of its own.
        padded: Whether padding up to the longest of the batch counts.
    """
    found: list[list[int]] = []
    total = 0
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True):
        cost = lengths[found[-1][0]] if found and padded else lengths[index]
        if found and total + cost <= max_tokens:
            found[-1].append(index)
            total += cost
        else:
            found.append([index])
            total = lengths[index]
    return found


def weighted_mean(weighted: Sequence[tuple[int, FloatArray]]) -> FloatArray:
    """The pooled vector of a text of several windows: their mean by tokens, normalised."""
    if len(weighted) == 1:
        return weighted[0][1]
    total = sum(weight for weight, _ in weighted)
    return normalize(np.sum([vector * (weight / total) for weight, vector in weighted], axis=0))


class Turns:
    """A lock that is given in the order it was asked for.

    torch runs one batch on all cores; two at once only fight over them. A plain lock could let the thread
    that encodes a large job take it again and again while a query waits.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._busy = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the others that asked before."""
        mine = threading.Lock()
        mine.acquire()
        with self._lock:
            if self._busy:
                self._waiting.append(mine)
            else:
                self._busy = True
                mine.release()
        try:
            mine.acquire()
        except BaseException:  # an interrupt while waiting: nobody may be left waiting for this one
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                else:
                    self._pass_on()
            raise
        try:
            yield
        finally:
            with self._lock:
                self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._busy = False
