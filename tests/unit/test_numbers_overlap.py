"""Numbers must stand in the cited text; overlap is a share of content tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pincite.text.numbers import missing_numbers, read_numbers
from pincite.text.overlap import content_tokens, lexical_overlap


@pytest.mark.parametrize(
    ("sentence", "cited"),
    [
        ("It is 3.", "3"),
        ("It costs $1,200.", "a rent of $1200"),
        ("It costs 1200 dollars.", "a rent of $1,200.00"),
        ("It is worth $5 million.", "the sum of $5,000,000"),
        ("It grew by 10%.", "ten percent, that is 10 percent"),
        ("It is １２ days.", "12 days"),
        ("It is ١٢ days.", "12 days"),
        ("Within 60 days.", "sixty (60) days"),
        ("Within 30 days.", "within thirty days"),
        ("Section 2.1(b) applies.", "2.1 Scope … (b) for tenants"),
        ("On 12 March 2015.", "on March 12, 2015"),
        ("On 12 March 2015.", "dated 2015-03-12"),
        ("In March 2015.", "on March 12, 2015"),
        ("In 2015.", "on March 12, 2015"),
        ("2015年3月12日签订。", "2015-03-12"),
        ("第30条适用。", "第三十条"),
        ("第一百二十三条适用。", "第123条"),
        ("The rights under section 3 may end.", "Section 3. These rights can end."),
        ("1. Rent is due.", "Rent is due."),
        ("No numbers here.", ""),
        ("It costs 100 dollars.", "one hundred dollars"),
        ("It costs one hundred dollars.", "$100"),
        ("It costs $250,000.", "two hundred fifty thousand dollars"),
        ("It is worth five million dollars.", "$5,000,000"),
        ("Thirty days.", "thirty (30) days"),
        ("Within sixty (60) days.", "within sixty days"),
        ("It is 25.", "twenty-five"),
        ("It is 1,250.", "one thousand two hundred and fifty"),
        ("Between 100 and 200.", "between one hundred and two hundred"),
        ("1000 or 2000.", "one thousand or two thousand"),
        ("Twenty-five days.", "Within twenty-five days."),
        ("One of the parties pays.", "A party pays."),
        ("其中一个当事人。", "当事人"),
        ("提前30日。", "提前三十日"),
        ("提前三十（30）日。", "提前30日"),
        ("35000元。", "三万五千元"),
        ("30%。", "百分之三十"),
        ("3.5%。", "百分之三点五"),
        ("2020年6月30日。", "二〇二〇年六月三十日"),
        ("3月12日签订。", "2015年3月12日"),
        ("1.2亿元。", "一亿二千万元"),
    ],
)
def test_numbers_that_stand(sentence: str, cited: str) -> None:
    assert missing_numbers(sentence, [cited]) == []


@pytest.mark.parametrize(
    ("sentence", "cited"),
    [
        ("It is 3.", "13"),
        ("It is 3.", "1.3"),
        ("It is 3.", "3.1"),
        ("It is 3.", "33"),
        ("It is 1.3.", "1 and 3"),
        ("It is 1.10.", "1.1"),
        ("It costs $1,200.", "€1,200"),
        ("It grew by 10%.", "10 days"),
        ("It is worth $5 million.", "$5,000"),
        ("On 12 March 2015.", "on March 13, 2015"),
        ("On 12 March 2015.", "on April 12, 2015"),
        ("On 12 March 2015.", "on March 12, 2016"),
        ("Section 2(b) applies.", "Section 2(c) applies."),
        ("第31条适用。", "第三十条"),
        ("Within 30 days.", "within sixty days"),
        ("Within 30 days.", ""),
        ("Within ninety (90) days.", "within sixty (60) days"),
        ("The tenant must give ninety days.", "The tenant must give thirty (30) days"),
        ("It was renewed for 6 years.", "Effective June 30, 2020 for two years"),
        ("租期为6年。", "2020年6月30日起两年"),
        ("提前六十日。", "提前三十日"),
        ("期限为三个月。", "期限为六个月"),
        ("支付三万元。", "支付三千元"),
        ("百分之三十。", "百分之六十"),
        ("二倍。", "三倍"),
        ("It costs one hundred dollars.", "one thousand dollars"),
        ("It grew by one percent.", "two percent"),
        ("two days.", "Within twenty two days."),
        ("30 days.", "It is 1,30 days."),
        ("Twenty-five days.", "twenty days and five"),
    ],
)
def test_numbers_that_do_not_stand(sentence: str, cited: str) -> None:
    assert missing_numbers(sentence, [cited])


@given(st.text(max_size=200))
def test_a_text_supports_its_own_numbers(text: str) -> None:
    assert missing_numbers(text, [text]) == []
    read_numbers(text)


def test_overlap_counts_content_tokens() -> None:
    assert lexical_overlap("The rent is due monthly.", ["rent is due"]) == pytest.approx(2 / 3)
    assert lexical_overlap("The rent", ["the heating"]) == 0.0
    assert lexical_overlap("", ["anything"]) == 0.0
    assert lexical_overlap("…!?", ["anything"]) == 0.0
    assert lexical_overlap("租金到期", ["租金已到期"]) == pytest.approx(2 / 3)
    assert content_tokens("The ＲＥＮＴ is due") == ["rent", "due"]


@given(st.text(max_size=100), st.text(max_size=100))
def test_overlap_is_a_share(sentence: str, cited: str) -> None:
    assert 0.0 <= lexical_overlap(sentence, [cited]) <= 1.0
    if content_tokens(sentence):
        assert lexical_overlap(sentence, [sentence]) == 1.0
