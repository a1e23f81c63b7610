"""Reports over a catalogue and a warehouse."""

from dataclasses import dataclass

from stockroom.articles import Article


@dataclass(frozen=True)
class Order:
    """So many pieces of an article should be ordered."""

    article: Article
    count: int


def reorder_list(catalogue, warehouse):
    """What has to be ordered: each article whose stock is below its minimum, up to twice that minimum.

    Ordered by supplier, those without one last, then by number.
    """
    orders = []
    for article in catalogue:
        stock = warehouse.stock(article.number)
        if article.minimum is None or stock >= article.minimum:
            continue
        orders.append(Order(article, 2 * article.minimum - stock))
    orders.sort(key=lambda order: (order.article.supplier is None, order.article.supplier or "", order.article.number))
    return orders


def order_text(orders):
    """An order list as text, with a heading for each supplier."""
    lines = []
    heading = None
    for order in orders:
        supplier = order.article.supplier or "by hand"
        if supplier != heading:
            lines.append(f"{supplier}:")
            heading = supplier
        lines.append(f"  {order.count:4} x {order.article.label()}")
    return "\n".join(lines)


def valuation(catalogue, warehouse, category=None):
    """What the stock is worth in cents, at cost: all of it, or that of one category and those inside it."""
    articles = list(catalogue) if category is None else catalogue.in_category(category)
    return sum(article.cost * warehouse.stock(article.number) for article in articles)


def idle(catalogue, warehouse):
    """The articles that lie in the warehouse and have never been picked."""
    picked = {movement.number for movement in warehouse.ledger if movement.kind == "pick"}
    return [article for article in catalogue if warehouse.stock(article.number) and article.number not in picked]
