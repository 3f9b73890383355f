"""The packed engines against transformers' own forward pass, and the choice among them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pincite.adapters.models_sbert import MINILM_ID, SentenceTransformerEncoder, packaged_minilm
from pincite.adapters.windows import Turns, batches, cut_windows
from pincite.domain.errors import ConfigError
from pincite.domain.protocols import Encoded

pytest.importorskip("sentence_transformers")

import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, XLMRobertaConfig, XLMRobertaModel

from pincite.adapters.models_calibrate import (
    MIN_POOLED_COSINE,
    MIN_TOKEN_COSINE,
    calibrate,
    open_engine,
)
from pincite.adapters.models_fast import ENGINES, BertWeights, PackedBert, Unsupported

TEXTS = [
    "The tenant shall pay the rent on the first day of each month, without deduction or set-off.",
    "",
    "Fees: 👍🏽 e\u0301 第十二条 用人单位应当 [SEP] [CLS] [MASK] \u200b",
    "An organisation must not collect personal data without consent. " * 70,
    "ok",
]
SMALL = {
    "vocab_size": 90,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 40,
}


@pytest.fixture(scope="module")
def plain() -> SentenceTransformerEncoder:
    return SentenceTransformerEncoder(packaged_minilm(), encoder_id=MINILM_ID, engine="sentence-transformers")


def _small(kind: str = "bert") -> Any:
    torch.manual_seed(1)
    if kind == "bert":
        return BertModel(BertConfig(**SMALL), add_pooling_layer=False).eval()
    return XLMRobertaModel(XLMRobertaConfig(**SMALL, pad_token_id=1), add_pooling_layer=False).eval()


def _tokenize(texts: list[str]) -> list[list[int]]:
    return [[2, *(3 + ord(c) % 80 for c in text[:30]), 3] for text in texts]


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_packed_states_equal_the_librarys(kind: str) -> None:
    model = _small(kind)
    bert = PackedBert(BertWeights.of(model), "fp32")
    rows = [[2, 5, 9, 3], [2, 3], list(range(2, 30)), [2, 7, 8, 3], [2, 4, 6, 3]]
    states, offsets = bert.forward(rows)
    assert offsets == [0, 4, 6, 34, 38, 42]
    for i, row in enumerate(rows):
        with torch.inference_mode():
            expected = model(torch.tensor([row])).last_hidden_state[0]
        torch.testing.assert_close(states[offsets[i] : offsets[i + 1]], expected, atol=1e-5, rtol=1e-5)


def test_pairs_and_keys_that_cannot_be_attended_to() -> None:
    model = _small()
    bert = PackedBert(BertWeights.of(model), "fp32")
    row, types = [2, 5, 9, 3, 8, 8, 3], [0, 0, 0, 0, 1, 1, 1]
    states, _ = bert.forward([row, row], types=[types, types], keys=[4, 7])
    for i, n in enumerate([4, 7]):
        mask = torch.tensor([[1] * n + [0] * (7 - n)])
        with torch.inference_mode():
            expected = model(torch.tensor([row]), token_type_ids=torch.tensor([types]), attention_mask=mask)
        torch.testing.assert_close(states[7 * i : 7 * i + 7], expected.last_hidden_state[0], atol=1e-5, rtol=1e-5)


def test_what_the_engines_refuse() -> None:
    weights = BertWeights.of(_small())
    bert = PackedBert(weights, "fp32")
    with pytest.raises(Unsupported, match="fp7"):
        PackedBert(weights, "fp7")
    with pytest.raises(Unsupported, match="sample texts"):
        PackedBert(weights, "int8")
    for rows in ([], [[]], [[2] * 41]):
        with pytest.raises(ValueError, match="1 to 40 tokens"):
            bert.forward(rows)
    gpt = GPT2Model(GPT2Config(vocab_size=50, n_embd=32, n_layer=1, n_head=2))
    with pytest.raises(Unsupported, match="gpt2"):
        BertWeights.of(gpt)
    with pytest.raises(ConfigError) as failure:
        open_engine(weights, _tokenize, engine="fp7", weights_id="w")
    assert failure.value.code == "engine_unknown"


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_meets_the_bar_on_hard_texts(plain: SentenceTransformerEncoder, engine: str) -> None:
    fast = SentenceTransformerEncoder(packaged_minilm(), encoder_id=MINILM_ID, engine=engine)
    assert (fast.engine, fast.encoder_id, fast.dim, fast.token_dim) == (engine, MINILM_ID, 384, 384)
    for contexts in (None, ["A title of a lease " * 30] * len(TEXTS)):
        truth = plain.encode_passages(TEXTS, contexts=contexts)
        found = fast.encode_passages(TEXTS, contexts=contexts)
        _meets_the_bar(truth, found)
    _meets_the_bar([plain.encode_query(TEXTS[0])], [fast.encode_query(TEXTS[0])])


def _meets_the_bar(truth: list[Encoded], found: list[Encoded]) -> None:
    cosines = []
    for a, b in zip(truth, found, strict=True):
        assert a.tokens.shape == b.tokens.shape
        assert b.pooled.dtype == b.tokens.dtype == np.float32
        assert np.linalg.norm(b.pooled) == pytest.approx(1.0, abs=1e-5)
        np.testing.assert_allclose(np.linalg.norm(b.tokens, axis=1), 1.0, atol=1e-5)
        assert a.pooled @ b.pooled >= MIN_POOLED_COSINE
        cosines.append((a.tokens * b.tokens).sum(axis=1))
    assert np.concatenate(cosines).mean() >= MIN_TOKEN_COSINE


def test_results_are_those_of_a_text_alone_whatever_the_batch() -> None:
    encoder = SentenceTransformerEncoder(packaged_minilm(), engine="fp32")
    together = encoder.encode_passages(TEXTS)
    for text, one in zip(TEXTS, together, strict=True):
        alone = encoder.encode_passages([text])[0]
        np.testing.assert_allclose(alone.pooled, one.pooled, atol=1e-5)
        np.testing.assert_allclose(alone.tokens, one.tokens, atol=1e-5)
    assert encoder.encode_passages([]) == []


def test_several_threads_get_what_one_gets() -> None:
    encoder = SentenceTransformerEncoder(packaged_minilm(), engine="fp32")
    expected = [encoder.encode_query(text).pooled for text in TEXTS]
    wrong: list[str] = []

    def ask(i: int) -> None:
        for _ in range(3):
            found = encoder.encode_query(TEXTS[i]).pooled
            if np.abs(found - expected[i]).max() > 1e-5:
                wrong.append(TEXTS[i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(TEXTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_turns_are_given_in_order_and_after_an_error() -> None:
    turns, order = Turns(), []
    threads = []

    def work(i: int) -> None:
        with turns.turn():
            order.append(i)

    with turns.turn():
        for i in range(5):
            threads.append(threading.Thread(target=work, args=(i,)))
            threads[-1].start()
            while len(turns._waiting) <= i:
                pass
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError), turns.turn():
        raise KeyError
    with turns.turn():
        pass


class _Spoilt(PackedBert):
    """As fast as can be, and wrong."""

    def forward(self, rows: Any, **kwargs: Any) -> Any:
        lengths = [len(row) for row in rows]
        if self.engine == "fp32":
            return super().forward(rows, **kwargs)
        return torch.ones(sum(lengths), self.hidden), [0, *np.cumsum(lengths).tolist()]


def test_an_inaccurate_engine_is_rejected_however_fast() -> None:
    bert, calibration = calibrate(BertWeights.of(_small()), _tokenize, build=_Spoilt)
    assert bert.engine == calibration.engine == "fp32"
    others = [result for result in calibration.results if result.engine != "fp32"]
    assert len(others) == len(ENGINES) - 1
    assert all("pooled cosine" in (result.rejected or "") for result in others)


def test_an_engine_that_this_cpu_lacks_is_left_out() -> None:
    def build(weights: BertWeights, engine: str, samples: Any) -> PackedBert:
        if engine != "fp32":
            raise Unsupported("not on this CPU")
        return PackedBert(weights, engine)

    bert, calibration = calibrate(BertWeights.of(_small()), _tokenize, build=build)
    assert bert.engine == "fp32"
    assert {r.rejected for r in calibration.results if r.engine != "fp32"} == {"not on this CPU"}


def test_the_choice_is_remembered_and_a_spoilt_memory_is_measured_again(tmp_path: Path) -> None:
    weights = BertWeights.of(_small())

    def opened(weights_id: str = "w") -> Any:
        return open_engine(weights, _tokenize, weights_id=weights_id, cache_dir=tmp_path)

    bert, first = opened()
    assert not first.cached and bert.engine == first.engine
    bert, second = opened()
    assert second.cached and bert.engine == first.engine and second.results == first.results
    assert not opened("other weights")[1].cached
    for file in tmp_path.iterdir():
        file.write_text("{", encoding="utf-8")
    assert not opened()[1].cached and not opened("other weights")[1].cached
    # What is remembered decides: no timing happens.
    for file in tmp_path.iterdir():
        body = json.loads(file.read_text(encoding="utf-8"))
        body["results"] = [{"engine": e, "rejected": None} for e in ENGINES]
        file.write_text(json.dumps(body | {"engine": ENGINES[-1]}), encoding="utf-8")
    bert, third = opened()
    assert third.cached and bert.engine == ENGINES[-1]


def test_a_cache_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    bert, calibration = open_engine(
        BertWeights.of(_small()), _tokenize, weights_id="w", cache_dir=blocked / "engines"
    )
    assert calibration is not None and not calibration.cached and bert.engine == calibration.engine


def test_windows_hold_every_token_once_and_batches_every_item_once() -> None:
    windows = cut_windows([list(range(10)), []], [[90, 91], []], 6)
    assert [(w.owner, w.before, w.piece, w.start) for w in windows] == [
        (0, [90, 91], [0, 1, 2, 3], 0),
        (0, [90, 91], [4, 5, 6, 7], 4),
        (0, [90, 91], [8, 9], 8),
        (1, [], [], 0),
    ]
    lengths = [5, 100, 7, 7, 30, 1]
    for padded in (True, False):
        found = batches(lengths, 32, padded=padded)
        assert sorted(i for batch in found for i in batch) == list(range(6))
        for batch in found:
            cost = len(batch) * max(lengths[i] for i in batch) if padded else sum(lengths[i] for i in batch)
            assert len(batch) == 1 or cost <= 32
    assert batches([10, 10, 10, 2], 32, padded=False) == [[0, 1, 2, 3]]


def test_cls_pooling_and_prompts_come_from_the_checkpoint(tmp_path: Path) -> None:
    """A BGE-like checkpoint: CLS pooling, an instruction before queries, nothing before passages."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    source = SentenceTransformer(str(packaged_minilm()), device="cpu")
    body, _, norm = list(source)
    model = SentenceTransformer(
        modules=[body, Pooling(384, "cls"), norm], prompts={"query": "Find passages: "}, device="cpu"
    )
    model.save(str(tmp_path / "bge"), create_model_card=False)
    encoder = SentenceTransformerEncoder(tmp_path / "bge", engine="fp32")
    question, passage = "who pays the rent?", "The tenant pays."
    found = encoder.encode_query(question)
    np.testing.assert_allclose(found.pooled, model.encode_query(question), atol=1e-5)
    assert len(found.tokens) == len(model.tokenizer.tokenize(question))
    np.testing.assert_allclose(
        encoder.encode_passages([passage])[0].pooled, model.encode_document(passage), atol=1e-5
    )
