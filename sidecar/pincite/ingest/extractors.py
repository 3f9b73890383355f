"""Which extractor takes which file. The composition root passes the extractors in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from pincite.domain.errors import SourceError
from pincite.domain.protocols import Extractor


class ExtractorSet:
    """Extractors by file suffix.

    Raises:
        ValueError: two extractors take the same suffix, or a suffix is not lower-case with a dot.
    """

    def __init__(self, extractors: Iterable[Extractor]) -> None:
        self._by_suffix: dict[str, Extractor] = {}
        for extractor in extractors:
            for suffix in extractor.suffixes:
                if not suffix.startswith(".") or suffix != suffix.lower():
                    raise ValueError(f"{suffix!r} is not a lower-case suffix with a dot")
                if suffix in self._by_suffix:
                    raise ValueError(f"two extractors take {suffix}")
                self._by_suffix[suffix] = extractor

    @property
    def suffixes(self) -> frozenset[str]:
        """All suffixes that some extractor takes."""
        return frozenset(self._by_suffix)

    def takes(self, file_name: str) -> bool:
        """Whether some extractor takes files of this name."""
        return _suffix(file_name) in self._by_suffix

    def for_file(self, file_name: str) -> Extractor:
        """The extractor for a file.

        Raises:
            SourceError: ``source_type_unknown``.
        """
        extractor = self._by_suffix.get(_suffix(file_name))
        if extractor is None:
            raise type_unknown(file_name, self.suffixes)
        return extractor


def type_unknown(file_name: str, suffixes: Iterable[str]) -> SourceError:
    """The error for a file that no extractor takes."""
    known = ", ".join(sorted(suffixes))
    suffix = _suffix(file_name)
    return SourceError(
        "source_type_unknown",
        f"No extractor takes {file_name}: "
        + (f"the suffix {suffix} is not known." if suffix else "it has no suffix."),
        mend=f"Pincite reads {known}; convert the file to one of these.",
        subject=file_name,
        detail={"suffixes": sorted(suffixes)},
    )


def _suffix(file_name: str) -> str:
    return PurePosixPath(file_name).suffix.lower()
