"""The demo corpus, from the installed package."""

import json
from pathlib import Path

import pytest

from pincite.adapters.wordpiece import WordPieceTokenizer
from pincite.domain.errors import ConfigError
from pincite.evals import licences
from pincite.evals.licences import FAMILIES, LicenceCorpus, data_folder, export_licences, family_of
from pincite.ingest.chunk_forensic import chunk
from pincite.ingest.extract_text import PlainTextExtractor
from pincite.ingest.extractors import ExtractorSet
from pincite.ingest.read_source import load_document


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def corpus(home: Path) -> LicenceCorpus:
    return export_licences(home)


def test_bodies_are_the_packages_to_the_byte(corpus: LicenceCorpus, home: Path) -> None:
    assert corpus.folder == home / "demo" / "licences"
    assert sorted(p.name for p in corpus.folder.iterdir()) == sorted(corpus.licences)
    assert corpus.n_written == len(corpus.licences)
    for file_name, licence in corpus.licences.items():
        raw = (data_folder() / f"{licence.key}.LICENSE").read_bytes()
        body = (corpus.folder / file_name).read_bytes()
        assert body.strip()
        # Front matter, its closing line, and then nothing but the body.
        assert raw.endswith(b"\n---\n" + body)
        assert b"\n---\n" not in raw[: -len(body) - len(b"\n---\n")]
        assert f"\nkey: {licence.key}\n".encode() in raw


def test_a_known_licence(corpus: LicenceCorpus, home: Path) -> None:
    gpl = corpus.licences["gpl-3.0.txt"]
    assert (gpl.name, gpl.short_name, gpl.spdx_id, gpl.family, gpl.category) == (
        "GNU General Public License 3.0",
        "GPL 3.0",
        "GPL-3.0-only",
        "GPL",
        "Copyleft",
    )
    assert gpl.owner == "Free Software Foundation (FSF)"
    assert gpl.homepage == "http://www.gnu.org/licenses/gpl-3.0.html"
    assert corpus.titles["gpl-3.0.txt"] == gpl.name
    listing = json.loads((home / "demo" / "licences.json").read_text(encoding="utf-8"))
    assert listing["licences"]["gpl-3.0.txt"]["spdx_id"] == "GPL-3.0-only"
    assert listing["source_empty"] == list(corpus.empty)


def test_all_families_with_their_versions(corpus: LicenceCorpus) -> None:
    assert {licence.family for licence in corpus.licences.values()} == set(FAMILIES)
    versions = {
        "gpl": "1.0 2.0 3.0",
        "lgpl": "2.0 2.1 3.0",
        "agpl": "1.0 2.0 3.0",
        "apache": "1.0 1.1 2.0",
        "bsd": "new simplified original",
        "cc": "by-4.0 by-nc-sa-3.0-us",
        "mpl": "1.0 1.1 2.0",
        "epl": "1.0 2.0",
        "cddl": "1.0 1.1",
    }
    keys = [f"{family}-{version}" for family, all_of_it in versions.items() for version in all_of_it.split()]
    for key in (*keys, "mit", "cc0-1.0", "classpath-exception-2.0"):
        assert f"{key}.txt" in corpus.licences
    assert corpus.empty == ("agpl-generic-additional-terms", "gpl-generic-additional-terms")


@pytest.mark.parametrize(
    ("key", "short_name", "family"),
    [
        ("gpl-2.0-plus", "GPL 2.0 or later", "GPL"),
        ("lgpl-3.0", "LGPL 3.0", "LGPL"),
        ("clear-bsd", "Clear BSD License", "BSD"),
        ("llvm-exception", "LLVM Exception to Apache 2.0", "Apache"),
        ("kicad-libraries-exception", "KiCad Libraries Exception to CC-BY-SA-4.0", "CC"),
        ("cc0-1.0", "CC0-1.0", "CC"),
        ("sun-cc-pp-1.0", "Sun CC-PP Processing License 1.0", None),
        ("commit", "Commitment", None),
        ("eupl-1.1", "EUPL 1.1", None),
    ],
)
def test_family(key: str, short_name: str, family: str | None) -> None:
    assert family_of(key, short_name) == family


def test_a_second_run_writes_nothing_and_mends_what_changed(corpus: LicenceCorpus, home: Path) -> None:
    before = {p.name: p.stat().st_mtime_ns for p in corpus.folder.iterdir()}
    listing = (home / "demo" / "licences.json").stat().st_mtime_ns
    assert export_licences(home).n_written == 0
    assert {p.name: p.stat().st_mtime_ns for p in corpus.folder.iterdir()} == before
    assert (home / "demo" / "licences.json").stat().st_mtime_ns == listing
    original = (corpus.folder / "mit.txt").read_bytes()
    (corpus.folder / "mit.txt").write_bytes(b"changed")
    (corpus.folder / "not-a-licence.txt").write_bytes(b"stale")
    assert export_licences(home).n_written == 1
    assert (corpus.folder / "mit.txt").read_bytes() == original
    assert not (corpus.folder / "not-a-licence.txt").exists()


def test_enough_chunks_and_not_too_many(corpus: LicenceCorpus) -> None:
    tokenizer = WordPieceTokenizer.bundled()
    extractors = ExtractorSet([PlainTextExtractor()])
    n_chunks = 0
    for file_name in corpus.licences:
        raw = (corpus.folder / file_name).read_bytes()
        document = load_document(
            raw,
            file_name=file_name,
            uri="",
            extractors=extractors,
            collection="demo",
            title=corpus.titles[file_name],
        )
        assert document.text.encode() == raw
        for c in chunk(document, tokenizer, "r"):
            assert c.provenance.char_span.slice(document.text) == c.text
            assert c.title == corpus.licences[file_name].name
            n_chunks += 1
    assert 4000 <= n_chunks <= 6500


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(licences.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        export_licences(tmp_path)
    assert caught.value.code == "demo_data_missing"
    assert "pincite[demo]" in caught.value.mend


@pytest.mark.parametrize(
    "content",
    [b"no front matter", b"---\nkey: other\n---\nbody", b"---\nkey: [\n---\nbody", b"---\n- a\n---\n"],
)
def test_a_damaged_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    (tmp_path / "gpl-9.LICENSE").write_bytes(content)
    monkeypatch.setattr(licences, "data_folder", lambda: tmp_path)
    with pytest.raises(ConfigError) as caught:
        export_licences(tmp_path / "home")
    assert (caught.value.code, caught.value.subject) == ("demo_data_broken", "gpl-9.LICENSE")
