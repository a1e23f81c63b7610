"""The statistics of an experiment: pure functions on plain values that say what memory changed, how sure that is, and what a design could see.

An arm's data are mappings from issue id to one value per run (:data:`~harness.statistics.estimates.Outcomes`,
:data:`~harness.statistics.estimates.Counts`); None stands for a run that is missing. Differences are always the first argument minus the second: memory
minus baseline. What cannot be computed is None, with a sentence that says why; never NaN, and never an exception because of what the data are.

- ``rates``: the resolve rate of one arm.
- ``paired``: two arms, one run each: discordant pairs, McNemar's tests, Tango's interval.
- ``repeated``: several reruns or builds, clustered by issue; one repository left out at a time.
- ``streams``: the effect over streams, and the test of "no effect on any issue".
- ``steps``: calls and costs.   ``curves``: resolved within so many calls; gain against the size of the bank.
- ``noise``: what reruns of the same arm differ by.   ``passk``: pass@k, best of n.
- ``items``: what one memory item did.   ``multiple``: Holm, and which claims are earned.   ``bounds``: the worst that missing attempts could hide.
- ``power``: the power of one frozen bank, exactly.   ``design``: that of designs with several runs, by simulation.

What each interval really covers was measured: docs/statistics.md, made by benchmarks/coverage.py.
"""
