"""Query strings: what stands behind the question mark."""

from urllib.parse import quote_plus, unquote_plus


def split_target(target):
    """The path of a request's target, percent signs decoded, and its query as a dictionary of lists."""
    path, _, query = target.partition("?")
    return unquote_plus(path.replace("+", "%2B")), parse_query(query)


def parse_query(text):
    """Names and all their values, in order. A name without a value has the value ""."""
    found = {}
    for pair in text.split("&"):
        if not pair:
            continue
        name, _, value = pair.partition("=")
        found.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return found


def write_query(values):
    """The query string for a dictionary of values or lists of values; ``None`` leaves a name out."""
    pairs = []
    for name, value in values.items():
        several = value if isinstance(value, (list, tuple)) else [value]
        for one in several:
            if one is not None:
                pairs.append(f"{quote_plus(str(name))}={quote_plus(str(one))}")
    return "&".join(pairs)


def with_query(path, values):
    """A path with a query behind it, or the path alone where there is nothing to say."""
    query = write_query(values)
    return f"{path}?{query}" if query else path
