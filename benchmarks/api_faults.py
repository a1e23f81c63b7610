"""How many attempts are lost when the API misbehaves: each kind of fault, a hundred attempts.

    python benchmarks/api_faults.py [--attempts 100] [--kind 529 ...] [--json]

Whole attempts of mini-SWE-agent's agent, over HTTP to a local server that speaks the Messages API and plays a script of four calls. Its commands are answered
from memory: what is looked at is the way to the model. Three lists of faults:

- *once*: before every reply the fault happens once; the SDK tries again, or the conversation goes on.
- *lasting*: at one call of each attempt the fault outlasts the SDK's retries, so that the attempt fails through the machine; it is made again, as a run does.
- *replies*: the model itself gives what cannot be carried out (no call, a refusal, half a call, ...) before two of its replies.

An attempt is lost where it does not end in ``Submitted`` with its patch; *counted* says whether the attempts' meters add up to what the server served, to
the token. Eight attempts go on side by side over one client; waits between tries are set to nothing. --json prints [{list, kind, attempts, faults, tries, lost,
counted, seconds}].
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import anthropic._base_client
from fake_anthropic import Cut, Error, FakeAnthropic, Hang, Message, Raw, Reply, tool_use
from scripted_model import ScriptedModel

from harness.agents import Assignment
from harness.agents.mini import MiniAgent
from harness.environments import Execution
from harness.metering import Limits, Meter
from swe_memory.claude import Claude
from swe_memory.errors import InfraError
from swe_memory.records import Issue, Usage

RETRIES = 2
WORKERS = 8
TIMEOUT = 0.5  # seconds that a call may take: what hangs is given up so soon
SCRIPT = ("look", ("read this", "read that"), "edit", "submit")
PATCH = "diff --git a/x b/x\n"

ONCE: dict[str, Reply] = {
    "429, retry-after 0": Error(429, headers={"retry-after": "0"}),
    "500": Error(500),
    "503": Error(503),
    "529": Error(529),
    "408": Error(408),
    "cut mid-body": Cut(),
    "cut before the body": Cut(share=0.0),
    "truncated JSON": Raw(b'{"type": "message", "content": [{"type": "tex'),
    "garbage": Raw(b"\x00\xff garbage"),
    "a gateway's page": Raw(b"<html>502</html>", content_type="text/html"),
    "a message without usage": Raw(b'{"type": "message", "content": []}'),
    "no answer": Hang(),
}
REPLIES: dict[str, Message] = {
    "no call": Message("I think that I am done."),
    "refusal": Message("", "refusal", extra={"stop_details": {"category": "cyber"}}),
    "max_tokens": tool_use("rm -rf /tm", stop_reason="max_tokens"),
    "unknown tool": tool_use("ls", name="python"),
    "malformed input": tool_use({"command": 7}),
    "pause_turn": Message("Wait.", "pause_turn"),
    "empty": Message(blocks=[]),
}


class Canned:
    """Commands that are answered from memory."""

    def execute(self, command: str, *, timeout: float | None = None, stop: threading.Event | None = None) -> Execution:  # noqa: ARG002
        if command == "submit":
            return Execution(f"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n{PATCH}", 0)
        return Execution("/testbed\n" if command == "pwd" else "ok\n", 0)

    def close(self) -> None: ...


def attempt(claude: Claude, number: int, scratch: Path) -> tuple[int, bool, Usage]:
    """(tries that it took, whether it was lost, what all tries used). What fails through the machine is tried a second time."""
    agent = MiniAgent(claude.model, claude=claude)
    used = Usage()
    for tries in (1, 2):
        meter = Meter(Limits(calls=20))
        work = Assignment(Issue(f"i-{number}", "a/b", f"Issue {number}."), "", meter.limits, meter, None, scratch)
        try:
            found = agent.run(work, Canned())
        except InfraError:
            continue
        finally:
            used = used + meter.spent
        return tries, found.exit_status != "Submitted" or found.patch != PATCH, used
    return 2, True, used


def measure(faults: dict[int, Sequence[Reply]], attempts: int) -> dict[str, Any]:
    """One kind of fault."""
    began = time.monotonic()
    script = ScriptedModel({"Issue ": SCRIPT}, faults=faults)
    with FakeAnthropic(script) as api, tempfile.TemporaryDirectory() as scratch:
        claude = Claude(api_key=api.key, base_url=api.url, max_retries=RETRIES, timeout=TIMEOUT if _hangs(faults) else 20.0)
        with ThreadPoolExecutor(WORKERS) as pool:
            done = list(pool.map(lambda number: attempt(claude, number, Path(scratch)), range(attempts)))
        used = sum((used for *_, used in done), Usage())
        counted = [used.calls, used.input_tokens, used.output_tokens] == list(api.served.values())
    return {
        "attempts": attempts,
        "faults": script.faults_played,
        "tries": sum(tries for tries, *_ in done),
        "lost": sum(lost for _, lost, _ in done),
        "counted": counted,
        "seconds": round(time.monotonic() - began, 1),
    }


def _hangs(faults: dict[int, Sequence[Reply]]) -> bool:
    return any(isinstance(fault, Hang) for several in faults.values() for fault in several)


def plans() -> list[tuple[str, str, dict[int, Sequence[Reply]]]]:
    """(list, kind, faults by place in the conversation)."""
    once = [("once", kind, {place: [fault] for place in range(len(SCRIPT))}) for kind, fault in ONCE.items()]
    lasting = [("lasting", kind, {2: [fault] * (RETRIES + 1)}) for kind, fault in ONCE.items()]
    replies = [("replies", kind, {place: [reply] for place in (0, 2)}) for kind, reply in REPLIES.items()]
    return [*once, *lasting, *replies]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="api_faults.py", description="Count the attempts that are lost when the API misbehaves.")
    parser.add_argument("--attempts", type=int, default=100, help="attempts for each kind (default: 100)")
    parser.add_argument("--kind", action="append", help="only this kind; may be given several times")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    options = parser.parse_args(arguments)
    anthropic._base_client.INITIAL_RETRY_DELAY = 0.0
    rows = []
    for group, kind, faults in plans():
        if options.kind and kind not in options.kind:
            continue
        rows.append({"list": group, "kind": kind, **measure(faults, options.attempts)})
        if not options.json:
            print(
                "{list:8} {kind:24} {attempts} attempts, {faults} faults, {tries} tries, lost: {lost}, counted: {counted} ({seconds} s)".format(
                    **rows[-1]
                ),
                flush=True,
            )
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print(f"lost: {sum(row['lost'] for row in rows)} of {sum(row['attempts'] for row in rows)}")
    return 1 if any(row["lost"] or not row["counted"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
