"""Articles, where they lie, and what has to be ordered."""

from stockroom.articles import Article
from stockroom.cache import Cache
from stockroom.catalogue import Catalogue
from stockroom.errors import NotEnough, StockError, UnknownArticle, UnknownCategory
from stockroom.reports import reorder_list, valuation
from stockroom.warehouse import Warehouse

__all__ = [
    "Article",
    "Cache",
    "Catalogue",
    "NotEnough",
    "StockError",
    "UnknownArticle",
    "UnknownCategory",
    "Warehouse",
    "reorder_list",
    "valuation",
]
