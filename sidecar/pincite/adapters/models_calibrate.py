"""Which engine is fastest on this machine and still accurate: timed once, remembered on disk.

Every engine but fp32 is compared with fp32 on built-in texts. One that misses the accuracy bar is not
used, however fast; one that this CPU only emulates is given up after a first short call.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pincite.adapters.models_fast import ENGINES, BertWeights, PackedBert, Unsupported
from pincite.domain.errors import ConfigError

#: An engine's vectors against fp32's: the cosine of pooled vectors (worst text), of token vectors (mean).
MIN_POOLED_COSINE = 0.99
MIN_TOKEN_COSINE = 0.98

#: What the built-in texts must show for the worst of many real ones to stay above the bar. Measured: int8
#: had .994 here and .981 as the worst of 512 real chunks; bf16 .9999 and .9997.
_CHOSEN_POOLED_COSINE = 0.997

#: Raise it when engines or texts change: what was remembered before is measured again.
_VERSION = 3
_SPEED_TEXTS, _SPEED_TOKENS = 8, 200
#: An engine that takes this many times as long as fp32 on one short text is emulated by the CPU.
_HOPELESS = 2.5
_TIMED_ROUNDS = 3

#: Text to measure accuracy on: prose, law, numbers, code, other scripts. Nobody's but ours.
TEXTS = (
    "The tenant shall pay the rent on the first day of each month, without deduction or set-off.",
    "An organisation must not collect personal data about an individual unless the individual gives consent "
    "or the collection is required under a written law. The consent may be withdrawn at any time by notice.",
    "Section 12(3)(b): a penalty of up to $1,000,000 or 10% of annual turnover, whichever is higher, from "
    "1 October 2022; see also ss 48J and 48K, paragraph 4 of the Ninth Schedule, and regulation 7.",
    "Permission is granted, free of charge, to any person obtaining a copy of this software, to deal in it "
    "without restriction, subject to the notice below being kept in all copies. NO WARRANTY OF ANY KIND.",
    "def total(rows): return sum(row.price * (1 - row.discount) for row in rows if row.valid)  # 3.14e-7",
    "第十二条 用人单位应当按照劳动合同约定和国家规定,向劳动者及时足额支付劳动报酬。",
    "Der Mieter haftet für Schäden, die durch unsachgemäße Nutzung entstehen; l'entretien est à sa charge.",
    "ok 👍",
    "Who may be fined, how much, and when does the appeal have to be lodged?",
    "The court held that the landlord had waived the breach by accepting rent with knowledge of it, that the "
    "notice served in March was therefore of no effect, and that possession should not be ordered. Two judges "
    "dissented: in their view the acceptance was without prejudice, as the letter said in plain words. The "
    "appeal was dismissed with costs, to be taxed if not agreed, and leave to appeal further was refused.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """What calibration found about one engine.

    Attributes:
        engine: Its name.
        tokens_per_s: Speed on a batch of 200-token texts; None when it was not timed.
        pooled_cosine_min: Worst cosine of mean-pooled vectors against fp32's.
        token_cosine_mean: Mean cosine of token vectors against fp32's.
        rejected: Why it is not used, or None.
    """

    engine: str
    tokens_per_s: float | None = None
    pooled_cosine_min: float | None = None
    token_cosine_mean: float | None = None
    rejected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The choice and what it rests on."""

    engine: str
    results: tuple[EngineResult, ...]
    cached: bool


def open_engine(
    weights: BertWeights,
    tokenize: Callable[[Sequence[str]], list[list[int]]],
    *,
    engine: str = "auto",
    weights_id: str,
    cache_dir: Path | None = None,
) -> tuple[PackedBert, Calibration | None]:
    """The engine that a setting names, or the fastest accurate one of this machine.

    Args:
        weights: Of the model.
        tokenize: Texts to token ids, special tokens included.
        engine: ``auto``, or one of ``ENGINES``: then nothing is measured.
        weights_id: Names the weights in the cache's key.
        cache_dir: Where choices are remembered; None: ``pincite/engines`` in the user's cache folder. A
            folder that can't be written costs a calibration (some seconds) at each start, nothing else.

    Raises:
        ConfigError: ``engine_unknown`` or ``engine_unsupported``, for an engine asked for by name.
    """
    if engine != "auto":
        return _named(weights, engine, sample_rows(weights, tokenize)), None
    path = (cache_dir or default_cache_dir()) / f"{_key(weights_id)}.json"
    found = _read(path)
    if found is not None:
        try:
            return PackedBert(weights, found.engine, sample_rows(weights, tokenize)), found
        except Unsupported:
            pass
    bert, calibration = calibrate(weights, tokenize)
    _write(path, calibration)
    return bert, calibration


def calibrate(
    weights: BertWeights,
    tokenize: Callable[[Sequence[str]], list[list[int]]],
    *,
    engines: Sequence[str] = ENGINES,
    build: Callable[[BertWeights, str, Sequence[Sequence[int]]], PackedBert] = PackedBert,
) -> tuple[PackedBert, Calibration]:
    """Time every engine and check its vectors; the fastest that passes wins. Takes two to four seconds.

    Args:
        weights: Of the model.
        tokenize: Texts to token ids, special tokens included.
        engines: Those to try beside fp32, which is always tried.
        build: Makes an engine (tests pass a spoilt one).
    """
    rows = sample_rows(weights, tokenize)
    # Real tokens in the order of the texts, repeated: a row is of the size of a chunk.
    flat = [token for row in rows for token in row]
    size = min(_SPEED_TOKENS, weights.max_tokens)
    speed = [(flat * (2 + size // len(flat)))[i : i + size] for i in range(_SPEED_TEXTS)]
    reference = build(weights, "fp32", rows)
    truth = _states(reference, rows)
    patience = _HOPELESS * _seconds(lambda: reference.forward(rows[:1]), rounds=3)
    base = _speed(reference, speed)
    results = [EngineResult(engine="fp32", tokens_per_s=base, pooled_cosine_min=1.0, token_cosine_mean=1.0)]
    best, best_speed = reference, base
    for name in engines:
        if name == "fp32":
            continue
        try:
            bert = build(weights, name, rows)
        except Unsupported as exc:
            results.append(EngineResult(engine=name, rejected=str(exc)))
            continue
        result = _judge(bert, rows, truth, speed=speed, patience_s=patience)
        results.append(result)
        if result.rejected is None and result.tokens_per_s and result.tokens_per_s > best_speed:
            best, best_speed = bert, result.tokens_per_s
    return best, Calibration(engine=best.engine, results=tuple(results), cached=False)


def sample_rows(weights: BertWeights, tokenize: Callable[[Sequence[str]], list[list[int]]]) -> list[list[int]]:
    """The built-in texts as token ids, shortest first."""
    return sorted((row[: weights.max_tokens] for row in tokenize(TEXTS)), key=len)


def default_cache_dir() -> Path:
    """``pincite/engines`` in the user's cache folder (XDG)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pincite" / "engines"


def accuracy(truth: Sequence[torch.Tensor], states: Sequence[torch.Tensor]) -> tuple[float, float]:
    """(worst cosine of mean-pooled vectors, mean cosine of token vectors) of two engines' hidden states."""
    pooled = min(
        float(torch.cosine_similarity(a.mean(0), b.mean(0), dim=0)) for a, b in zip(truth, states, strict=True)
    )
    tokens = torch.cosine_similarity(torch.cat(list(truth)), torch.cat(list(states)), dim=1)
    return pooled, float(tokens.mean())


def _named(weights: BertWeights, engine: str, samples: list[list[int]]) -> PackedBert:
    if engine not in ENGINES:
        raise ConfigError(
            "engine_unknown",
            f"No engine is called {engine!r}.",
            mend=f"Choose auto, {', '.join(ENGINES)}.",
            subject=engine,
        )
    try:
        return PackedBert(weights, engine, samples)
    except Unsupported as exc:
        raise ConfigError(
            "engine_unsupported",
            f"The engine {engine} can't be used here: {exc}.",
            mend="Choose auto: it takes the fastest engine that this machine runs.",
            subject=engine,
        ) from exc


def _judge(
    bert: PackedBert,
    rows: list[list[int]],
    truth: list[torch.Tensor],
    *,
    speed: list[list[int]],
    patience_s: float,
) -> EngineResult:
    name = bert.engine
    bert.forward(rows[:1])  # the first call sets kernels up
    if _seconds(lambda: bert.forward(rows[:1]), rounds=3) > patience_s:
        return EngineResult(engine=name, rejected="slower than fp32 on a short text: not native to this CPU")
    pooled, tokens = accuracy(truth, _states(bert, rows))
    rejected = None
    if not (pooled >= _CHOSEN_POOLED_COSINE and tokens >= MIN_TOKEN_COSINE):
        rejected = (
            f"pooled cosine {pooled:.4f} (bar {_CHOSEN_POOLED_COSINE}), token {tokens:.4f} ({MIN_TOKEN_COSINE})"
        )
    return EngineResult(
        engine=name,
        tokens_per_s=_speed(bert, speed),
        pooled_cosine_min=pooled,
        token_cosine_mean=tokens,
        rejected=rejected,
    )


def _states(bert: PackedBert, rows: list[list[int]]) -> list[torch.Tensor]:
    states, offsets = bert.forward(rows)
    return [part.float() for part in states.split(np.diff(offsets).tolist())]


def _speed(bert: PackedBert, rows: list[list[int]]) -> float:
    bert.forward(rows)
    return sum(map(len, rows)) / _seconds(lambda: bert.forward(rows), rounds=_TIMED_ROUNDS)


def _seconds(run: Callable[[], Any], *, rounds: int) -> float:
    """The best of some runs: other processes only ever add to a time."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def _key(weights_id: str) -> str:
    facts = [_VERSION, weights_id, _cpu(), os.cpu_count(), torch.get_num_threads(), torch.__version__, ENGINES]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _cpu() -> str:
    """The CPU's name and abilities: a name alone ("Intel Xeon Processor") says little on a virtual machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "cpu family", "model\t", "flags", "Features")
    return "|".join(sorted({line for line in lines if line.startswith(wanted)}))


def _read(path: Path) -> Calibration | None:
    try:
        raw: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        results = tuple(EngineResult(**result) for result in raw["results"])
        engine = str(raw["engine"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    chosen = [r for r in results if r.engine == engine and r.rejected is None]
    return Calibration(engine=engine, results=results, cached=True) if chosen else None


def _write(path: Path, calibration: Calibration) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"engine": calibration.engine, "results": [asdict(result) for result in calibration.results]}
        draft.write_text(json.dumps(body, indent=1), encoding="utf-8")
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
