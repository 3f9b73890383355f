"""Which files are found under which names."""

import os
from pathlib import Path

import pytest

from pincite.adapters.pdfium import PdfiumExtractor
from pincite.domain.errors import SourceError, UserError
from pincite.ingest.extract_text import MarkdownExtractor, PlainTextExtractor
from pincite.ingest.extractors import ExtractorSet
from pincite.ingest.walk import Walked, read_bytes, walk

ALL = ExtractorSet([PlainTextExtractor(), MarkdownExtractor(), PdfiumExtractor()])


def fill(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def names(walked: Walked) -> list[str]:
    return [f.file_name for f in walked.files]


def error(*paths: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        walk(paths, ALL)
    assert caught.value.mend
    return caught.value


def test_names_are_relative_posix_and_sorted(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt", "a/z.md", "a/b/c.pdf", "A.TXT", "a.txt")
    walked = walk([tmp_path], ALL)
    assert names(walked) == ["A.TXT", "a.txt", "a/b/c.pdf", "a/z.md", "b.txt"]
    assert all(f.path.read_text() == f.file_name for f in walked.files)
    assert names(walk([tmp_path / "a" / "z.md"], ALL)) == ["z.md"]


def test_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fill(tmp_path, "a/b.txt"))
    assert names(walk([Path()], ALL)) == ["a/b.txt"]
    monkeypatch.chdir(tmp_path / "a")
    assert names(walk([Path("..")], ALL)) == ["a/b.txt"]


def test_hidden_and_unknown_files_are_passed_over(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", ".b.txt", ".git/c.txt", "d.docx", "sub/e")
    walked = walk([tmp_path], ALL)
    assert names(walked) == ["a.txt"]
    assert [(s.file_name, s.reason) for s in walked.skipped] == [
        ("d.docx", "type_unknown"),
        ("sub/e", "type_unknown"),
    ]
    assert walked.errors == ()


def test_links_stay_inside_and_loops_end(tmp_path: Path) -> None:
    root = fill(tmp_path / "root", "a/b.txt")
    fill(tmp_path / "other", "secret.txt")
    (root / "a" / "up").symlink_to(root)
    (root / "again").symlink_to(root / "a")
    (root / "self").symlink_to(root / "self")
    (root / "out").symlink_to(tmp_path / "other")
    (root / "out.txt").symlink_to(tmp_path / "other" / "secret.txt")
    (root / "gone.txt").symlink_to(tmp_path / "nothing")
    (root / "link.txt").symlink_to(root / "a" / "b.txt")
    walked = walk([root], ALL)
    assert names(walked) == ["a/b.txt", "link.txt"]
    assert [(s.file_name, s.reason) for s in walked.skipped] == [
        ("gone.txt", "link_broken"),
        ("out", "link_outside"),
        ("out.txt", "link_outside"),
        ("self", "link_broken"),
    ]


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    walked = walk([tmp_path], ALL)
    assert names(walked) == ["a.txt"]
    assert [(s.file_name, s.reason) for s in walked.skipped] == [("pipe.txt", "not_a_file")]
    assert error(tmp_path / "pipe.txt").code == "source_unreadable"
    with pytest.raises(SourceError, match="regular file"):
        read_bytes(tmp_path / "pipe.txt", file_name="pipe.txt")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt")
    bad = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")
    Path(bad).write_text("x")
    walked = walk([tmp_path], ALL)
    assert names(walked) == ["a.txt"]
    assert [(e.code, e.subject) for e in walked.errors] == [("file_name_not_utf8", "caf\\xe9.txt")]
    assert error(Path(bad)).code == "file_name_not_utf8"
    # The error itself can be printed.
    assert error(Path(bad)).message.encode("utf-8")
    assert error(Path(os.fsdecode(b"/no/caf\xe9"))).message.encode("utf-8")


def test_paths_that_hold_nothing(tmp_path: Path) -> None:
    assert error().code == "no_paths"
    missing = error(tmp_path / "none")
    assert (missing.code, missing.subject) == ("path_missing", str(tmp_path / "none"))
    assert error(fill(tmp_path, "f.txt") / "f.txt" / "x").code == "path_missing"
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    assert error(tmp_path / "empty").code == "no_sources"
    nothing = error(tmp_path, fill(tmp_path / "others", "a.docx"))
    assert (nothing.code, nothing.detail) == ("no_sources", {"n_skipped": 1})
    assert error(Path("nul\0name")).code == "source_unreadable"
    assert error(Path("x" * 5000)).code == "source_unreadable"


def test_a_named_file_must_be_of_a_known_type(tmp_path: Path) -> None:
    caught = error(fill(tmp_path, "a.docx") / "a.docx")
    assert (caught.code, caught.subject) == ("source_type_unknown", "a.docx")


def test_two_files_of_one_name(tmp_path: Path) -> None:
    fill(tmp_path, "one/a/x.txt", "two/a/x.txt", "two/y.txt")
    clash = error(tmp_path / "one", tmp_path / "two")
    assert (clash.code, clash.subject) == ("file_name_clash", "a/x.txt")
    assert str(tmp_path / "one" / "a" / "x.txt") in clash.message
    assert str(tmp_path / "two" / "a" / "x.txt") in clash.message
    # The same file twice is no clash.
    assert names(walk([tmp_path / "two", tmp_path / "two"], ALL)) == ["a/x.txt", "y.txt"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        read_bytes(tmp_path / "gone.txt", file_name="gone.txt")
    assert (caught.value.code, caught.value.subject) == ("source_unreadable", "gone.txt")
    # A regular file whose first page no process may read, root's included.
    with pytest.raises(SourceError) as caught:
        read_bytes(Path("/proc/self/mem"), file_name="mem.txt")
    assert caught.value.code == "source_unreadable"


def test_a_file_without_the_right_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "a.txt", "b.txt")
    (tmp_path / "b.txt").chmod(0)
    if os.access(tmp_path / "b.txt", os.R_OK):  # root may read everything, so the system's answer is set
        monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("b.txt"))
    walked = walk([tmp_path], ALL)
    assert names(walked) == ["a.txt"]
    assert [(e.code, e.subject) for e in walked.errors] == [("source_unreadable", "b.txt")]
    assert error(tmp_path / "b.txt").code == "source_unreadable"
