from stockroom import Article, Catalogue, Warehouse, reorder_list, valuation
from stockroom.reports import idle, order_text


def shop():
    catalogue = Catalogue()
    catalogue.add_category("tools")
    catalogue.add(Article("H-1", "Hammer", "tools", cost=900, minimum=5, supplier="Forge"))
    catalogue.add(Article("S-1", "Saw", "tools", cost=1500, minimum=2, supplier="Blades"))
    warehouse = Warehouse()
    warehouse.receive("H-1", 3, "shelf 1")
    warehouse.receive("S-1", 1, "shelf 2")
    return catalogue, warehouse


def test_reorder_list():
    orders = reorder_list(*shop())
    assert [(order.article.number, order.count) for order in orders] == [("S-1", 3), ("H-1", 7)]


def test_enough_is_not_ordered():
    catalogue, warehouse = shop()
    warehouse.receive("H-1", 2, "shelf 1")
    assert [order.article.number for order in reorder_list(catalogue, warehouse)] == ["S-1"]


def test_order_text():
    assert order_text(reorder_list(*shop())) == "Blades:\n     3 x S-1 Saw\nForge:\n     7 x H-1 Hammer"


def test_valuation():
    assert valuation(*shop()) == 3 * 900 + 1500


def test_idle():
    catalogue, warehouse = shop()
    warehouse.pick("S-1", 1)
    assert [article.number for article in idle(catalogue, warehouse)] == ["H-1"]
