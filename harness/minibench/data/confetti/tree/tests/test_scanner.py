import pytest

from confetti.errors import SyntaxProblem
from confetti.scanner import scan


def found(text):
    return [(entry.section, entry.key, entry.value) for entry in scan(text)]


def test_sections_and_keys():
    assert found("a = 1\n[x]\nb=2\n") == [("", "a", "1"), ("x", "b", "2")]


def test_comments_and_blank_lines():
    assert found("# one\n\n; two\na = 1 # stays\n") == [("", "a", "1 # stays")]


def test_flags_have_no_value():
    assert found("quick\nslow =\n") == [("", "quick", None), ("", "slow", "")]


def test_values_may_hold_equals_signs():
    assert found("a = b = c\n") == [("", "a", "b = c")]


def test_continued_values():
    assert found("a = 1\n  2\n") == [("", "a", "1\n2")]
    assert found("a =\n  1\n  2\n") == [("", "a", "1\n2")]


def test_problems_name_the_line():
    for text in ("[x\n", "[]\n", "= 1\n", "  1\n"):
        with pytest.raises(SyntaxProblem, match="line 1"):
            scan(text)
