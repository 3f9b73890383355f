"""Titles from file names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pincite.text.titles import title_from_file_name


@pytest.mark.parametrize(
    ("file_name", "title"),
    [
        ("a/CopAcc_NDA-and-ToP.txt", "CopAcc NDA and ToP"),
        ("contractnli_DBT_20Mutual_20NDA.txt", "contractnli DBT Mutual NDA"),
        ("My%20Lease%20%282019%29.pdf", "My Lease (2019)"),
        ("中文_法律.md", "中文 法律"),
        ("CybergyHoldings_20140520_10-Q.txt", "CybergyHoldings 20140520 10 Q"),
        ("version 2.0", "version 2.0"),
        ("gpl-2.0.txt", "gpl 2.0"),
        ("___.txt", "___.txt"),
        (".txt", "txt"),
        ("bad%FFescape.txt", "bad%FFescape"),
    ],
)
def test_title(file_name: str, title: str) -> None:
    assert title_from_file_name(file_name) == title


@settings(deadline=None)
@given(st.text(min_size=1))
def test_there_is_always_a_title_of_one_line(file_name: str) -> None:
    title = title_from_file_name(file_name + "x.txt")
    assert title.strip()
    assert len(title.splitlines()) == 1
