"""``make bench-encode``: encoding speed and accuracy, ours beside plain sentence-transformers, in one run.

Real text (PDPA, contracts) in chunks of about 200 tokens; two threads. Plain is
``SentenceTransformer.encode`` at its default batch size, for pooled vectors alone and for token vectors alone;
ours gives both in one pass. Rounds are interleaved, and the median of the rounds' ratios is reported: other
load on the machine then hits both. The last line is JSON.

``CHUNKS`` (default 512) and ``ROUNDS`` (3) change the size.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pincite.adapters.models_checkpoint import model_library
from pincite.adapters.models_sbert import MINILM_ID, SentenceTransformerEncoder, packaged_minilm
from pincite.domain.errors import ConfigError, PinciteError
from pincite.encode.pooling import pool_tokens
from pincite.evals.measures import ndcg10, rr10
from pincite.evals.refusal import data_file
from pincite.kernels.maxsim import maxsim_many
from pincite.wiring.console import fail, say

if TYPE_CHECKING:
    from pincite.domain.protocols import Encoded, FloatArray

_THREADS = 2
_CHUNK_TOKENS = 200
_TARGET_PER_S = 100_000 / (45 * 60)


def chunk_texts(tokenizer: Any, n_chunks: int) -> list[str]:
    """Slices of real text of 170 to 230 tokens, mean about 200, in a fixed order."""
    rng = np.random.default_rng(4)
    texts = [data_file("pdpa/raw_pdpa.txt").read_text(encoding="utf-8")]
    for name in sorted(
        (data_file("legalbench_rag/legalbench_rag_qa_public.jsonl").parent / "docs").rglob("*.txt")
    ):
        texts.append(name.read_text(encoding="utf-8", errors="replace"))
    found: list[str] = []
    for text in texts:
        spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = spans["offset_mapping"]
        at = 0
        while at + _CHUNK_TOKENS < len(offsets) and len(found) < n_chunks:
            size = int(rng.integers(170, 231))
            stop = min(at + size, len(offsets))
            found.append(text[offsets[at][0] : offsets[stop - 1][1]])
            at = stop
    if len(found) < n_chunks:
        say(f"only {len(found)} chunks of real text are there")
    return found


def pdpa_set() -> tuple[list[str], list[str], list[tuple[str, frozenset[str]]]]:
    """(ids, texts, questions with their gold ids) of PDPA's subsections."""
    chunks = [json.loads(x) for x in _lines("pdpa_corpus_subsections.jsonl")]
    questions = [
        (item["question_user"], frozenset(link["chunk_id"] for link in item["corpus_links"]))
        for item in map(json.loads, _lines("pdpa_qa_public.jsonl"))
        if item["corpus_links"]
    ]
    return [c["chunk_id"] for c in chunks], [c["text"] for c in chunks], questions


def _lines(name: str) -> list[str]:
    return data_file(f"pdpa/{name}").read_text(encoding="utf-8").splitlines()


def ranking_quality(scores: FloatArray, ids: Sequence[str], gold: frozenset[str]) -> tuple[float, float]:
    """(nDCG@10, reciprocal rank in the first 10), binary relevance."""
    order = np.argsort(-scores, kind="stable")[:10]
    found = [ids[i] for i in order]
    return ndcg10(found, gold), rr10(found, gold)


def quality(
    passages: Sequence[Encoded], queries: Sequence[Encoded], ids: Sequence[str], golds: Sequence[frozenset[str]]
) -> dict[str, tuple[float, float]]:
    """Mean (nDCG@10, MRR@10) of k-NN, of MaxSim, and of MaxSim over pooled tokens (factors 2 and 3)."""
    pooled = np.stack([p.pooled for p in passages])
    tokens = {
        "MaxSim": [p.tokens for p in passages],
        "MaxSim, tokens pooled x2": [pool_tokens(p.tokens, 2) for p in passages],
        "MaxSim, tokens pooled x3": [pool_tokens(p.tokens, 3) for p in passages],
    }
    found: dict[str, list[tuple[float, float]]] = {}
    for query, gold in zip(queries, golds, strict=True):
        found.setdefault("k-NN", []).append(ranking_quality(pooled @ query.pooled, ids, gold))
        for name, documents in tokens.items():
            scores = np.asarray(maxsim_many(query.tokens, documents), dtype=np.float32)
            found.setdefault(name, []).append(ranking_quality(scores, ids, gold))
    return {
        name: (float(np.mean([a for a, _ in v])), float(np.mean([b for _, b in v]))) for name, v in found.items()
    }


def accuracy(truth: Sequence[Encoded], found: Sequence[Encoded]) -> tuple[float, float, float]:
    """(worst, mean) cosine of pooled vectors and mean cosine of token vectors."""
    pooled = [float(a.pooled @ b.pooled) for a, b in zip(truth, found, strict=True)]
    tokens = np.concatenate([(a.tokens * b.tokens).sum(axis=1) for a, b in zip(truth, found, strict=True)])
    return min(pooled), float(np.mean(pooled)), float(tokens.mean())


def main() -> int:
    """Run it; the exit status."""
    os.environ.setdefault("OMP_NUM_THREADS", str(_THREADS))
    try:
        return _run(int(os.environ.get("CHUNKS", "512")), int(os.environ.get("ROUNDS", "3")))
    except PinciteError as exc:
        return fail(exc, as_json=False)


def _run(n_chunks: int, n_rounds: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        plain = SentenceTransformerEncoder(packaged_minilm(), encoder_id=MINILM_ID, engine="sentence-transformers")
        library = model_library(packaged_minilm(), "PINCITE_ENCODER").SentenceTransformer(
            str(packaged_minilm()), device="cpu"
        )
        texts = chunk_texts(library.tokenizer, n_chunks)
        start = time.perf_counter()
        chosen = _open("auto", Path(folder))
        calibrated_s = time.perf_counter() - start
    if chosen is None or chosen.calibration is None:
        raise ConfigError("engine_unsupported", "No engine runs the packaged encoder.", mend="Run make setup.")
    say("calibration:")
    for result in chosen.calibration.results:
        say(f"  {result}")
    engines = {
        name: encoder
        for name in (r.engine for r in chosen.calibration.results)
        for encoder in [_open(name, None)]
        if encoder is not None
    }
    runs: dict[str, Callable[[], object]] = {
        "plain pooled": lambda: library.encode(texts, show_progress_bar=False),
        "plain tokens": lambda: library.encode(texts, output_value="token_embeddings", show_progress_bar=False),
    }
    runs |= {f"ours {name}": partial(encoder.encode_passages, texts) for name, encoder in engines.items()}
    seconds = _interleaved(runs, n_rounds)
    _table(seconds, len(texts))
    lengths = [len(row) for row in library.tokenizer(texts, add_special_tokens=False)["input_ids"]]
    say(f"{len(texts)} chunks, mean {np.mean(lengths):.0f} tokens; calibration and load {calibrated_s:.1f} s")
    fast = f"ours {chosen.engine}"
    ratio, ratio_tokens = (_ratio(seconds, name, fast) for name in ("plain pooled", "plain tokens"))
    truth = plain.encode_passages(texts)
    facts = {name: accuracy(truth, encoder.encode_passages(texts)) for name, encoder in engines.items()}
    say(f"{'engine':<10}{'pooled min':>12}{'pooled mean':>13}{'token mean':>12}{'query p50 ms':>14}")
    for name, (low, mean, token) in facts.items():
        say(f"{name:<10}{low:>12.5f}{mean:>13.5f}{token:>12.5f}{_query_ms(engines[name]):>14.2f}")
    say(f"{'plain':<10}{'':>37}{_query_ms(plain):>14.2f}")
    change = _quality_change(plain, engines[chosen.engine])
    say(
        json.dumps(
            {
                "engine": chosen.engine,
                "ratio": round(ratio, 2),
                "ratio_tokens": round(ratio_tokens, 2),
                "chunks_per_s": round(len(texts) / statistics.median(seconds[fast]), 1),
                "plain_chunks_per_s": round(len(texts) / statistics.median(seconds["plain pooled"]), 1),
                "minutes_for_100k": round(100_000 * statistics.median(seconds[fast]) / len(texts) / 60, 1),
                "pooled_cosine_min": round(facts[chosen.engine][0], 5),
                "token_cosine_mean": round(facts[chosen.engine][2], 5),
                "ndcg_change": round(change, 5),
            }
        )
    )
    return 0


def _open(engine: str, cache_dir: Path | None) -> SentenceTransformerEncoder | None:
    try:
        return SentenceTransformerEncoder(
            packaged_minilm(), encoder_id=MINILM_ID, engine=engine, cache_dir=cache_dir
        )
    except ConfigError as exc:
        say(f"{engine}: {exc}")
        return None


def _interleaved(runs: dict[str, Callable[[], object]], n_rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(n_rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def _ratio(seconds: dict[str, list[float]], slow: str, fast: str) -> float:
    return statistics.median(a / b for a, b in zip(seconds[slow], seconds[fast], strict=True))


def _table(seconds: dict[str, list[float]], n_chunks: int) -> None:
    say(f"{'':<16}{'chunks/s':>10}{'x plain':>9}{'100k, min':>11}   (target {_TARGET_PER_S:.0f} chunks/s)")
    for name, times in seconds.items():
        speed = n_chunks / statistics.median(times)
        say(f"{name:<16}{speed:>10.1f}{_ratio(seconds, 'plain pooled', name):>9.2f}{100_000 / speed / 60:>11.1f}")


def _query_ms(encoder: SentenceTransformerEncoder, n: int = 60) -> float:
    times = []
    for i in range(n):
        start = time.perf_counter()
        encoder.encode_query(f"who has to pay the penalty of section {i} and when?")
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def _quality_change(plain: SentenceTransformerEncoder, fast: SentenceTransformerEncoder) -> float:
    """The largest relative loss (or gain, if nothing lost) of nDCG@10 on PDPA, k-NN and MaxSim."""
    ids, texts, questions = pdpa_set()
    golds = [gold for _, gold in questions]
    passages = {encoder: encoder.encode_passages(texts) for encoder in (plain, fast)}
    queries = {encoder: [encoder.encode_query(q) for q, _ in questions] for encoder in (plain, fast)}
    rows = {
        "fp32": quality(passages[plain], queries[plain], ids, golds),
        fast.engine: quality(passages[fast], queries[fast], ids, golds),
        f"{fast.engine} passages, fp32 queries": quality(passages[fast], queries[plain], ids, golds),
    }
    say(f"PDPA, {len(questions)} questions, {len(ids)} passages:")
    for who, row in rows.items():
        for stage, (ndcg, mrr) in row.items():
            say(f"  {who:<30}{stage:<26} nDCG@10 {ndcg:.4f}  MRR@10 {mrr:.4f}")
    return min(rows[fast.engine][s][0] / rows["fp32"][s][0] - 1 for s in ("k-NN", "MaxSim"))


if __name__ == "__main__":
    sys.exit(main())
