"""The report of a run: one HTML file that needs nothing else, and Markdown and CSV beside it.

- ``command``: ``swe-memory report``, which files it writes.   ``material``: what a report is made from.   ``lessons``: the texts of items.
- ``page``: everything that the HTML page shows, as plain values for the template.   ``tables``: its tables.   ``attempts``: one row for each attempt.
- ``plots``: the figures, on ``svg``: axes, marks, labels.   ``style``: what tells arms apart, in colour and without.
- ``methods``: the methods paragraph, settings, prompts, references.   ``latex``: a table for a paper.   ``markdown``, ``csv_file``: the other two files.
- ``words``: numbers and text as they are shown.   ``templates``: HTML, CSS and JavaScript, all of it our own.

Titles of items, texts of items, names of issues and reasons are strangers' text: every one of them is escaped where it is shown.
"""
