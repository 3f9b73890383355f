"""Raw bytes of a text file to text, without loss or not at all.

Offsets are only worth something when the text they count in is the file's own text. So nothing is guessed:
UTF-8 with or without a byte order mark, and UTF-16 with one, are decoded strictly; everything else is a
named error. The result is the decoded file unchanged, less one leading byte order mark: CR, CRLF, U+2028
and every other character stay.
"""

from __future__ import annotations

import codecs

from pincite.domain.errors import SourceError

# First bytes of formats that people rename to .txt. Only marks that no prose begins with are listed.
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an Office document)"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"\x7fELF", "an executable"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"BZh9", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a legacy Office document"),
)
_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_ENCODING_MEND = "Save the file as UTF-8 (or as UTF-16 with a byte order mark) and ingest it again."
_BINARY_MEND = "Give the file the suffix of its real format, or export its text as UTF-8."

# Control characters that text does not use. Form feed, vertical tab and escape do occur in old text files.
_CONTROLS = frozenset(chr(c) for c in range(32)) - frozenset("\t\n\v\f\r\x1b")
_MIN_CONTROLS = 32
_MAX_CONTROL_SHARE = 0.1


def decode_text(raw: bytes, *, file_name: str) -> str:
    """Decode a text file.

    Args:
        raw: The file's bytes.
        file_name: The name for error messages.

    Returns:
        The file's text, less one leading byte order mark.

    Raises:
        SourceError: ``source_empty`` for nothing but white space; ``source_binary`` for bytes that are
            no text; ``source_encoding_unknown`` for text in another encoding, with ``detail.byte_offset``
            of the first bad byte when it is known.
    """
    if not raw:
        raise _empty(file_name)
    for magic, what in _MAGIC:
        if raw.startswith(magic):
            raise _binary(file_name, f"it is {what}")
    text = _decode(raw, file_name)
    if not text.strip().strip("\ufeff").strip():
        raise _empty(file_name)
    nul = text.find("\0")
    if nul >= 0:
        if _looks_like_utf16(raw):
            raise _unknown(file_name, "it looks like UTF-16 without a byte order mark", None)
        raise _binary(file_name, f"it holds a NUL at character {nul}")
    n_controls = sum(text.count(c) for c in _CONTROLS)
    if n_controls >= _MIN_CONTROLS and n_controls > _MAX_CONTROL_SHARE * len(text):
        raise _binary(file_name, f"{n_controls} of its {len(text)} characters are control characters")
    return text


def _decode(raw: bytes, file_name: str) -> str:
    # UTF-32's little-endian mark begins with UTF-16's, so it is looked for first.
    if raw.startswith(_UTF32_MARKS):
        raise _unknown(file_name, "it is UTF-32", 0)
    if raw.startswith(codecs.BOM_UTF8):
        encoding, mark = "utf-8", codecs.BOM_UTF8
    elif raw.startswith(codecs.BOM_UTF16_LE):
        encoding, mark = "utf-16-le", codecs.BOM_UTF16_LE
    elif raw.startswith(codecs.BOM_UTF16_BE):
        encoding, mark = "utf-16-be", codecs.BOM_UTF16_BE
    else:
        encoding, mark = "utf-8", b""
    try:
        return raw[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        offset = len(mark) + error.start
        if not mark and b"\0" in raw:
            if _looks_like_utf16(raw):
                raise _unknown(file_name, "it looks like UTF-16 without a byte order mark", offset) from error
            raise _binary(file_name, f"it holds a NUL at byte {raw.index(0)}") from error
        raise _unknown(file_name, f"it is not {encoding.upper()} at byte {offset}", offset) from error


def _looks_like_utf16(raw: bytes) -> bool:
    """Latin text in UTF-16 has a NUL in nearly every second byte, all on the same side."""
    even, odd = raw[0::2].count(0), raw[1::2].count(0)
    return len(raw) % 2 == 0 and max(even, odd) > 0.7 * len(raw) / 2 and min(even, odd) == 0


def _empty(file_name: str) -> SourceError:
    return SourceError(
        "source_empty",
        f"{file_name} has no text: it is empty or holds white space alone.",
        mend="Nothing to ingest; remove the file or fill it.",
        subject=file_name,
    )


def _binary(file_name: str, why: str) -> SourceError:
    return SourceError(
        "source_binary", f"{file_name} is not a text file: {why}.", mend=_BINARY_MEND, subject=file_name
    )


def _unknown(file_name: str, why: str, offset: int | None) -> SourceError:
    return SourceError(
        "source_encoding_unknown",
        f"The encoding of {file_name} is not one that can be read without loss: {why}.",
        mend=_ENCODING_MEND,
        subject=file_name,
        detail={} if offset is None else {"byte_offset": offset},
    )
