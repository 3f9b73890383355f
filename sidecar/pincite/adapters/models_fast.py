"""A BERT forward pass without padding: the tokens of all texts in one matrix, attention text by text.

Linear layers, GELU and layer norms see one (n_tokens, hidden) matrix; only attention knows where a text
starts and ends, and it runs on runs of texts of equal length. So no arithmetic is spent on padding, and
weights are laid out once for oneDNN instead of at each call.

Engines (``ENGINES``) differ in arithmetic only; the weights, and so the vectors, are the same up to the
errors that ``models_calibrate`` bounds:

* ``fp32``: the reference, equal to transformers' own forward pass up to rounding.
* ``bf16``: weights and activations in bfloat16, sums in fp32 (AMX, AVX512-BF16); on other CPUs it is slow.
* ``int8``: linear layers with int8 weights (one scale an output) and uint8 activations (one scale a token),
  on channels evened out beforehand by what sample texts show (SmoothQuant, Xiao et al. 2023); the rest in
  fp32. For CPUs with VNNI and without bfloat16. Without VNNI sums can saturate: calibration sees that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, gelu, layer_norm, linear, relu, scaled_dot_product_attention

#: Engines by name, as a setting writes them; ``auto`` lets calibration choose.
ENGINES = ("fp32", "bf16", "int8")
#: Model types whose layers are BERT's. RoBERTa's positions start at ``pad_token_id + 1``.
MODEL_TYPES = ("bert", "roberta", "xlm-roberta")

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": gelu, "relu": relu}
_LAYER = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)


class Unsupported(ValueError):
    """This model or this machine can't be run by the engine; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BertWeights:
    """What the engines are built from.

    Attributes:
        tensors: float32 by name, as transformers' ``BertModel`` names them (``embeddings.…``, ``encoder.…``).
        n_layers: Layers.
        n_heads: Attention heads.
        hidden: Width.
        activation: ``gelu`` or ``relu``.
        epsilon: Of layer norms.
        first_position: 0 for BERT, ``pad_token_id + 1`` for RoBERTa.
        max_tokens: The most tokens in a text, special ones included.
    """

    tensors: Mapping[str, Tensor]
    n_layers: int
    n_heads: int
    hidden: int
    activation: str
    epsilon: float
    first_position: int
    max_tokens: int

    @classmethod
    def of(cls, model: Any) -> BertWeights:
        """The weights of a transformers model (``BertModel``, ``RobertaModel`` or ``XLMRobertaModel``).

        Raises:
            Unsupported: the model isn't of this family or has a variant that the engines lack.
        """
        config = model.config
        kind = getattr(config, "model_type", None)
        if kind not in MODEL_TYPES:
            raise Unsupported(f"model type {kind!r} is not one of {', '.join(MODEL_TYPES)}")
        if config.hidden_act not in _ACTIVATIONS:
            raise Unsupported(f"activation {config.hidden_act!r}")
        if (getattr(config, "position_embedding_type", None) or "absolute") != "absolute":
            raise Unsupported(f"position embeddings {config.position_embedding_type!r}")
        if getattr(config, "is_decoder", False):
            raise Unsupported("a decoder")
        prefix = "" if hasattr(model, "embeddings") else f"{model.base_model_prefix}."
        tensors = {
            name.removeprefix(prefix): tensor.detach().float().cpu()
            for name, tensor in model.state_dict().items()
            if name.startswith(prefix)
        }
        missing = [n for n in _names(config.num_hidden_layers) if n not in tensors]
        if missing:
            raise Unsupported(f"no tensor {missing[0]}")
        first = 0 if kind == "bert" else int(config.pad_token_id) + 1
        return cls(
            tensors=tensors,
            n_layers=int(config.num_hidden_layers),
            n_heads=int(config.num_attention_heads),
            hidden=int(config.hidden_size),
            activation=str(config.hidden_act),
            epsilon=float(config.layer_norm_eps),
            first_position=first,
            max_tokens=int(config.max_position_embeddings) - first,
        )


def _names(n_layers: int) -> list[str]:
    names = [f"embeddings.{e}_embeddings.weight" for e in ("word", "position", "token_type")]
    norms = ["embeddings.LayerNorm"]
    for i in range(n_layers):
        names += [f"encoder.layer.{i}.{part}.{kind}" for part in _LAYER for kind in ("weight", "bias")]
        norms += [f"encoder.layer.{i}.{part}.LayerNorm" for part in ("attention.output", "output")]
    return names + [f"{norm}.{kind}" for norm in norms for kind in ("weight", "bias")]


class _Linear(Protocol):
    """One linear layer, as an engine computes it."""

    def __call__(self, rows: Tensor) -> Tensor:
        """(n, in) to (n, out), in the engine's type."""


class PackedBert:
    """A BERT encoder over packed texts. Not thread-safe by promise: callers hold a lock (torch uses all cores).

    Args:
        weights: Of the model.
        engine: One of ``ENGINES``.
        samples: Token ids of texts, special tokens included: ``int8`` learns from them how large each channel is.

    Raises:
        Unsupported: the engine does not run on this machine.
    """

    def __init__(self, weights: BertWeights, engine: str, samples: Sequence[Sequence[int]] | None = None) -> None:
        if engine not in ENGINES:
            raise Unsupported(f"no engine is called {engine!r}")
        self.engine = engine
        self._weights = weights
        self._dtype = torch.bfloat16 if engine == "bf16" else torch.float32
        self._peaks = _peaks(weights, samples) if engine == "int8" else {}
        t, dtype = weights.tensors, self._dtype
        self._words = t["embeddings.word_embeddings.weight"].to(dtype)
        # Positions and the first token type are added together once: there is one type but for pairs.
        positions = t["embeddings.position_embeddings.weight"][weights.first_position :]
        self._places = [(positions + kind).to(dtype) for kind in t["embeddings.token_type_embeddings.weight"]]
        self._norm = self._layer_norm("embeddings.LayerNorm")
        self._activation = _ACTIVATIONS[weights.activation]
        self._layers = [self._layer(i) for i in range(weights.n_layers)]
        # The layers hold their own copies, laid out anew: the originals need not stay.
        self._weights = dataclasses.replace(weights, tensors={})

    @property
    def max_tokens(self) -> int:
        """The most tokens in a text, special ones included."""
        return self._weights.max_tokens

    @property
    def hidden(self) -> int:
        """Width of a hidden state."""
        return self._weights.hidden

    def forward(
        self,
        rows: Sequence[Sequence[int]],
        *,
        types: Sequence[Sequence[int]] | None = None,
        keys: Sequence[int] | None = None,
        see: Callable[[str, Tensor], None] | None = None,
    ) -> tuple[Tensor, list[int]]:
        """Hidden states of the last layer.

        Args:
            rows: Token ids of each text, special tokens included, at least one. Texts of equal length should
                stand together: attention runs once for each run of them.
            types: Token types of each text (pairs); None: all 0.
            keys: How many leading tokens of each text can be attended to (ColBERT's query padding is not);
                None: all.
            see: Called with the name and the input of every linear layer.

        Returns:
            ((n_tokens, hidden) in the engine's type, offsets): text i is rows offsets[i] to offsets[i + 1].

        Raises:
            ValueError: a text is empty or longer than the model's positions.
        """
        lengths = [len(row) for row in rows]
        if not lengths or min(lengths) < 1 or max(lengths) > self.max_tokens:
            raise ValueError(f"texts of 1 to {self.max_tokens} tokens are needed, not of {lengths or 'none'}")
        offsets = [0, *np.cumsum(lengths).tolist()]
        with torch.inference_mode():
            ids = torch.from_numpy(np.concatenate([np.asarray(row, dtype=np.int64) for row in rows]))
            places = torch.from_numpy(np.concatenate([np.arange(n) for n in lengths]))
            x = embedding(ids, self._words) + embedding(places, self._places[0])
            if types is not None and any(any(row) for row in types):
                second = torch.from_numpy(np.concatenate([np.asarray(row, dtype=np.int64) for row in types]))
                steps = torch.stack([table[0] - self._places[0][0] for table in self._places])
                x = x + embedding(second, steps)
            x = self._norm(x)
            runs = _runs(lengths, keys)
            for layer in self._layers:
                x = layer(x, runs, see)
        return x, offsets

    def _layer_norm(self, name: str) -> Callable[[Tensor], Tensor]:
        t, shape, epsilon = self._weights.tensors, (self._weights.hidden,), self._weights.epsilon
        weight, bias = t[f"{name}.weight"].to(self._dtype), t[f"{name}.bias"].to(self._dtype)
        return lambda x: layer_norm(x, shape, weight, bias, epsilon)

    def _layer(self, i: int) -> Callable[..., Tensor]:
        t, heads = self._weights.tensors, self._weights.n_heads
        name = f"encoder.layer.{i}"
        parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        make = self._linear
        project = make(
            f"{name}.qkv",
            torch.cat([t[f"{p}.weight"] for p in parts]),
            torch.cat([t[f"{p}.bias"] for p in parts]),
        )
        out, up, down = (
            make(f"{name}.{part}", t[f"{name}.{part}.weight"], t[f"{name}.{part}.bias"])
            for part in ("attention.output.dense", "intermediate.dense", "output.dense")
        )
        norm_1, norm_2 = (self._layer_norm(f"{name}.{p}.LayerNorm") for p in ("attention.output", "output"))
        activation = self._activation

        def run(x: Tensor, runs: list[_Run], see: Callable[[str, Tensor], None] | None) -> Tensor:
            if see:
                see(f"{name}.qkv", x)
            mixed = _attention(project(x), runs, heads)
            if see:
                see(f"{name}.attention.output.dense", mixed)
            x = norm_1(out(mixed).add_(x))
            if see:
                see(f"{name}.intermediate.dense", x)
            wide = activation(up(x))
            if see:
                see(f"{name}.output.dense", wide)
            return norm_2(down(wide).add_(x))

        return run

    def _linear(self, name: str, weight: Tensor, bias: Tensor) -> _Linear:
        if self.engine == "int8":
            return _int8_linear(weight, bias, self._peaks[name])
        return _packed_linear(weight.to(self._dtype), bias.to(self._dtype))


def _packed_linear(weight: Tensor, bias: Tensor) -> _Linear:
    """A linear layer whose weights lie as oneDNN wants them, where torch has that; else the plain one."""
    try:
        pack, multiply = torch.ops.mkldnn._reorder_linear_weight, torch.ops.mkldnn._linear_pointwise
        packed = pack(weight, 1024)
        if multiply(weight.new_zeros(1, weight.shape[1]), packed, bias, "none", [], "").shape[1] != len(weight):
            raise Unsupported("oneDNN's linear layer has another shape")
    except (AttributeError, RuntimeError, Unsupported):
        return lambda rows: linear(rows, weight, bias)
    # The operators are private to torch: they are tried above, and checked against fp32 by calibration.
    return lambda rows: multiply(rows, packed, bias, "none", [], "")


def _peaks(weights: BertWeights, samples: Sequence[Sequence[int]] | None) -> dict[str, Tensor]:
    """Of each linear layer's input the largest magnitude of each channel, over the samples."""
    if not samples:
        raise Unsupported("int8 needs sample texts")
    peaks: dict[str, Tensor] = {}

    def see(name: str, rows: Tensor) -> None:
        peaks[name] = rows.abs().amax(dim=0)

    PackedBert(weights, "fp32").forward(samples, see=see)
    return peaks


def _int8_linear(weight: Tensor, bias: Tensor, peaks: Tensor) -> _Linear:
    """A linear layer in int8: weights quantised once, an output at a time; activations at each call."""
    # Large channels hand a share of their size (the square root of the ratio) to the weights, where each
    # output has its own scale anyway.
    share = (peaks.clamp(min=1e-3) / weight.abs().amax(dim=0).clamp(min=1e-5)).sqrt()
    shared = weight * share
    scales = shared.abs().amax(dim=1).clamp(min=1e-12) / 127
    quantised = (shared / scales[:, None]).round().clamp(-127, 127).to(torch.int8)
    zeros = torch.zeros(len(weight), dtype=torch.int32)
    shrink = 1 / share
    try:
        multiply = torch.ops.onednn.qlinear_pointwise
        packed = torch.ops.onednn.qlinear_prepack(quantised, None)
    except (AttributeError, RuntimeError) as exc:
        raise Unsupported("this torch has no int8 linear layer of oneDNN's") from exc

    def run(rows: Tensor) -> Tensor:
        even = rows * shrink
        peak = torch.maximum(even.amax(dim=1, keepdim=True), even.amin(dim=1, keepdim=True).neg_())
        step = peak.clamp_(min=1e-9) / 127
        # Codes are around 128. Truncation of x + ½ rounds, since none is negative.
        codes = even.mul_(1 / step).add_(128.5).clamp_(0.0, 255.0).to(torch.uint8)
        sums = multiply(codes, 1.0, 128, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], "")
        return torch.addcmul(bias, sums, step)

    try:
        run(torch.zeros(1, weight.shape[1]))
    except RuntimeError as exc:
        raise Unsupported(f"oneDNN has no int8 linear layer here: {exc}") from exc
    return run


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive texts of one length: the first row, how many texts, their length, keys of each."""

    start: int
    count: int
    length: int
    keys: int


#: Scores of one attention call stay in the cache: more texts in a run are split.
_RUN_TOKENS = 4096


def _runs(lengths: Sequence[int], keys: Sequence[int] | None) -> list[_Run]:
    runs: list[_Run] = []
    start = 0
    for i, length in enumerate(lengths):
        visible = length if keys is None else keys[i]
        last = runs[-1] if runs else None
        if last and (last.length, last.keys) == (length, visible) and (last.count + 1) * length <= _RUN_TOKENS:
            runs[-1] = _Run(last.start, last.count + 1, length, visible)
        else:
            runs.append(_Run(start, 1, length, visible))
        start += length
    return runs


def _attention(projected: Tensor, runs: list[_Run], n_heads: int) -> Tensor:
    """Softmax(q·kᵀ/√d)·v, each text by itself. ``projected``: (n_tokens, 3 × hidden), q, k, v side by side."""
    hidden = projected.shape[1] // 3
    out = projected.new_empty(projected.shape[0], hidden)
    for run in runs:
        stop = run.start + run.count * run.length
        block = projected[run.start : stop].view(run.count, run.length, 3, n_heads, hidden // n_heads)
        q, k, v = block.permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k[:, :, : run.keys], v[:, :, : run.keys])
        out[run.start : stop].view(run.count, run.length, n_heads, -1).copy_(mixed.transpose(1, 2))
    return out
