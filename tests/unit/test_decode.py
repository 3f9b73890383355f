"""Bytes to text: the file unchanged, or a named error."""

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pincite.domain.errors import SourceError
from pincite.text.decode import decode_text

# Any text that is text: code points without surrogates, NUL and the other C0 controls.
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters=[chr(c) for c in range(9)])).filter(
    lambda t: t.strip().strip("\ufeff").strip()
)


def code(raw: bytes) -> str:
    with pytest.raises(SourceError) as caught:
        decode_text(raw, file_name="a/b.txt")
    assert caught.value.subject == "a/b.txt"
    assert "a/b.txt" in caught.value.message
    assert caught.value.mend
    return caught.value.code


@settings(deadline=None)
@given(TEXTS)
def test_text_survives_every_supported_encoding(text: str) -> None:
    plain = text.encode("utf-8")
    # A text that itself begins with U+FEFF or looks like another format has to be marked to be read back.
    if not text.startswith("\ufeff"):
        assert decode_text(plain, file_name="t") == text
    assert decode_text(codecs.BOM_UTF8 + plain, file_name="t") == text
    assert decode_text(codecs.BOM_UTF16_LE + text.encode("utf-16-le"), file_name="t") == text
    assert decode_text(codecs.BOM_UTF16_BE + text.encode("utf-16-be"), file_name="t") == text


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_text_or_a_named_error(raw: bytes) -> None:
    try:
        text = decode_text(raw, file_name="t")
    except SourceError as error:
        assert error.code in {"source_empty", "source_binary", "source_encoding_unknown"}
    else:
        # Nothing was lost: the text encodes back to the very bytes.
        encodings = (("utf-8", b""), ("utf-8", codecs.BOM_UTF8))
        encodings += (("utf-16-le", codecs.BOM_UTF16_LE), ("utf-16-be", codecs.BOM_UTF16_BE))
        assert raw in [mark + text.encode(encoding) for encoding, mark in encodings]


def test_newlines_stay_and_exactly_one_mark_goes() -> None:
    text = "a\r\nb\rc\nd\u2028e\x0cf"
    assert decode_text(text.encode(), file_name="t") == text
    assert decode_text(codecs.BOM_UTF8 * 2 + b"x", file_name="t") == "\ufeffx"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" \r\n\t",
        codecs.BOM_UTF8,
        codecs.BOM_UTF8 * 2 + b"\n",
        codecs.BOM_UTF16_LE,
        codecs.BOM_UTF16_BE,
        "\u3000\u2028".encode(),
    ],
)
def test_nothing_to_read(raw: bytes) -> None:
    assert code(raw) == "source_empty"


@pytest.mark.parametrize(
    "raw",
    [
        b"%PDF-1.7\nhello",
        b"PK\x03\x04rest",
        b"\x89PNG\r\n\x1a\nrest",
        b"\xff\xd8\xff\xe0JFIF",
        b"\x7fELF\x02\x01",
        b"GIF89a rest",
        b"text with a \0 in it",
        b"\xff\xfe" + "a\0b".encode("utf-16-le"),
        b"\x00\x01\x02\x03\xff\xff" * 10,
        b"\x01\x02\x03 " * 40,
    ],
)
def test_binary_files_with_a_text_suffix(raw: bytes) -> None:
    assert code(raw) == "source_binary"


@pytest.mark.parametrize(
    "raw",
    [
        "Überschrift".encode("latin-1"),
        "第一章".encode("gb18030"),
        "第一章".encode("big5"),
        codecs.BOM_UTF32_LE + "hello".encode("utf-32-le"),
        codecs.BOM_UTF32_BE + "hello".encode("utf-32-be"),
        "plain words without a mark".encode("utf-16-le"),
        "plain words without a mark".encode("utf-16-be"),
        codecs.BOM_UTF16_LE + b"a\0b",
        codecs.BOM_UTF16_LE + b"a\0\x00\xd8b\0",
        codecs.BOM_UTF16_BE + b"\xdc\x00\0a",
        b"surrogate \xed\xa0\x80 in UTF-8",
        b"overlong \xc0\xaf",
    ],
)
def test_other_encodings_are_refused_not_guessed(raw: bytes) -> None:
    assert code(raw) == "source_encoding_unknown"


def test_the_first_bad_byte_is_named() -> None:
    with pytest.raises(SourceError) as caught:
        decode_text(codecs.BOM_UTF8 + b"abc\xffdef", file_name="t")
    assert caught.value.detail == {"byte_offset": 6}
    assert "byte 6" in caught.value.message
