"""Codecs that come with Pincite, one an encoder, so that the first chunk taken in is already coded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pincite.domain.codec import Codec
from pincite.encode import codec_artefact

_FOLDER = Path(__file__).resolve().parents[1] / "_codecs"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecFacts:
    """What an index's ``_meta`` names of a codec."""

    codec_id: str
    format: str


@lru_cache(maxsize=1)
def _manifests() -> dict[str, tuple[Path, CodecFacts]]:
    found = {}
    for path in sorted(_FOLDER.glob("*.safetensors")):
        with path.open("rb") as file:
            head = file.read(8)
            manifest = codec_artefact.read_manifest(head + file.read(int.from_bytes(head, "little")))
        found[manifest["encoder_id"]] = (
            path,
            CodecFacts(codec_id=manifest["codec_id"], format=manifest["format"]),
        )
    return found


def shipped_codec_facts(encoder_id: str) -> CodecFacts | None:
    """Id and format of the encoder's shipped codec, without reading its tensors; None: there is none."""
    entry = _manifests().get(encoder_id)
    return entry[1] if entry else None


@lru_cache(maxsize=4)
def shipped_codec(encoder_id: str) -> Codec | None:
    """The encoder's shipped codec; None: there is none."""
    entry = _manifests().get(encoder_id)
    return codec_artefact.from_bytes(entry[0].read_bytes()) if entry else None
