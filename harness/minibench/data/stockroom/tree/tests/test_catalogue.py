import pytest

from stockroom import Article, Catalogue, StockError, UnknownArticle, UnknownCategory


def catalogue():
    made = Catalogue()
    made.add_category("tools")
    made.add_category("hammers", "tools")
    made.add_category("paint")
    made.add(Article("H-1", "Claw hammer", "hammers"))
    made.add(Article("S-1", "Saw", "tools"))
    made.add(Article("P-1", "Red paint", "paint"))
    return made


def test_get():
    assert catalogue().get("S-1").name == "Saw"
    with pytest.raises(UnknownArticle):
        catalogue().get("X")


def test_articles_come_by_number():
    assert [article.number for article in catalogue()] == ["H-1", "P-1", "S-1"]
    assert len(catalogue()) == 3


def test_nothing_comes_twice():
    with pytest.raises(StockError):
        catalogue().add_category("tools")
    with pytest.raises(StockError):
        catalogue().add(Article("S-1", "Other saw", "tools"))


def test_unknown_categories():
    with pytest.raises(UnknownCategory):
        catalogue().add(Article("X", "x", "food"))
    with pytest.raises(UnknownCategory):
        catalogue().path("food")


def test_path():
    assert catalogue().path("hammers") == "tools / hammers"


def test_search():
    assert [article.number for article in catalogue().search("HAM")] == ["H-1"]
    assert [article.number for article in catalogue().search("p-1")] == ["P-1"]


def test_articles_are_checked():
    with pytest.raises(ValueError):
        Article("", "x", "tools")
    with pytest.raises(ValueError):
        Article("X", "x", "tools", cost=-1)
