"""The child process that holds swebench: imported once, asked many times over standard input and output, one JSON object a line.

swebench's package loads datasets, docker and modal (over a second) and reads a ``.env`` file it finds; here that happens once a run and away from the
caller. Requests: ``{"op": "script", "row": ...}`` -> ``{"script": ...}``; ``{"op": "report", "row": ..., "patch": ..., "log": PATH}`` -> ``{"report": ...}``. A
request that fails is answered with ``{"error": ...}``. The process ends when its input does.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request with swebench's own functions."""
    from swebench.harness.grading import get_eval_report
    from swebench.harness.utils import make_test_spec

    spec = make_test_spec(request["row"])
    if request["op"] == "script":
        return {"script": spec.eval_script}
    prediction = {"instance_id": spec.instance_id, "model_name_or_path": "swe-memory", "model_patch": request["patch"]}
    return {"report": get_eval_report(spec, prediction, request["log"], include_tests_status=True)}


def main() -> None:
    """Serve until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not get between the replies
    with contextlib.suppress(ImportError):  # said again, with its reason, in the answer to the first request
        import swebench.harness.grading
        import swebench.harness.utils  # noqa: F401
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # the protocol's boundary: the caller turns it into an infra failure with this text
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
