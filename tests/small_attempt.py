"""One small attempt of our own making, for tests of what reads attempts: a cache that forgets the zone of its keys."""

from __future__ import annotations

from swe_memory.records import Action, Attempt, Issue, Step, Trajectory, Verdict

PATCH = """\
diff --git a/clockwork/cache.py b/clockwork/cache.py
index 1111111..2222222 100644
--- a/clockwork/cache.py
+++ b/clockwork/cache.py
@@ -10,7 +10,7 @@ class ZoneCache:
     def lookup(self, moment, zone):
-        return self._entries.get(moment.replace(tzinfo=None))
+        return self._entries.get((moment.replace(tzinfo=None), zone.key))
"""

ISSUE = Issue(
    "clockwork__clockwork-31",
    "clockwork/clockwork",
    "Cached offsets are shared between zones\n\nAfter asking for Lima, asking for Oslo at the same wall time gives the offset of Lima.",
)


def small_attempt(
    outcome: str = "resolved",
    *,
    thought: str = "The entries are looked up by wall time alone, so two zones share one entry.",
    output: str = "1 failed: Oslo has the offset of Lima",
    patch: str | None = PATCH,
    issue_text: str = ISSUE.text,
    reason: str = "",
    steps: tuple[Step, ...] = (),
) -> Attempt:
    issue = Issue(ISSUE.id, ISSUE.repo, issue_text)
    own = (
        Step(thought, (Action("grep -n lookup clockwork/cache.py", "12: def lookup(self, moment, zone):", 0),)),
        Step("Reproduce it first.", (Action("python -m pytest tests/test_cache.py", output, 1),)),
        Step("Ask for the zone as well.", (Action("sed -i 's/tzinfo=None))/tzinfo=None), zone.key))/' clockwork/cache.py", "", 0),)),
        *steps,
        Step("Done: the zone is part of what is looked up.", (Action("python -m pytest tests/test_cache.py", "3 passed", 0),)),
    )
    verdict = {
        "resolved": Verdict.from_tests(resolved=True, reason=reason),
        "unresolved": Verdict.from_tests(resolved=False, reason=reason),
        "unknown": Verdict.unknown(reason=reason),
    }[outcome]
    return Attempt(issue, Trajectory(own, "Submitted", patch, issue.id), verdict, "runs/here/attempt.traj.json")
