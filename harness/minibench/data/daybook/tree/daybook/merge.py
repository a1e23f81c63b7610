"""Several spans at once: joining them, and finding what lies between."""

from daybook.spans import Span


def merged(spans):
    """The spans in order, with those that overlap or touch joined."""
    found = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if found and span.start <= found[-1].end:
            last = found.pop()
            found.append(Span(last.start, max(last.end, span.end)))
        else:
            found.append(span)
    return found


def gaps(spans, within):
    """What is left of ``within`` when all ``spans`` are taken out."""
    found = []
    cursor = within.start
    for span in merged(spans):
        if not span.overlaps(within):
            continue
        if span.start > cursor:
            found.append(Span(cursor, span.start))
        cursor = max(cursor, span.end)
    if cursor < within.end:
        found.append(Span(cursor, within.end))
    return found


def total_minutes(spans):
    """The minutes covered by at least one span."""
    return sum(span.minutes for span in merged(spans))
