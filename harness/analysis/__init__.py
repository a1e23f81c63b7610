"""What the data of a run say: plain rows in, plain values out, put together by :mod:`harness.compare` into the result of ``compare --json``.

- ``tables``: the arms of a run as issue -> values per stream, costs of memory's own calls included.   ``words``: numbers in sentences.
- ``effects``: the resolve rate of two arms, with the estimand of the protocol.   ``steps``: calls, actions, tokens, cost and time.
- ``noise_floor``: reruns.   ``claims``: the secondary comparisons together, and what may be claimed.   ``bounds`` of missing attempts are in ``effects``.
- ``reading``: trajectories and items from disk, within a budget.   ``uptake``: whether an agent took up what it was given.
- ``attempts``: every attempt as plain values.   ``flips``: issues that turned, both ways, and what each item did.
- ``curves``: gain as the bank grows; pass@k and best of n.
- ``threats``: what in these data speaks against believing them.   ``named_files``: issues that name the file to be changed.
- ``summary``: an arm, and a comparison, put together.   ``sentences``: what a reader has to know beside the numbers.
- ``submissions``: folders of others.   ``folders``: two folders side by side.

The shape of a result
=====================

Values are null where they cannot be computed, with a sentence (``why``) beside them; never NaN. Rates and differences of rates are fractions; a difference
is the first arm (``arm``) minus the second (``baseline``). Intervals are at 95 %. USAGE is {calls, input_tokens, output_tokens, cost}. MEASURE is ``calls``,
``actions``, ``tokens``, ``cost`` (US dollars) or ``seconds``; tokens and cost include memory's own calls, and the machine's lost tries do not count.

ESTIMATE    {value, low, high, level, estimand, unit, units, method, why}
TEST        {p, null, method, why}

RESULT
  kind            "run" (one run folder) or "folders" (two of them, or of others)
  run             its name; "A and B" for two
  sources         [{name, kind: "run"|"submission", arms: [text], issues, notes: [text]}]
  differences     [text]: what is not the same in the two folders; [] for one
  dataset         {name, hash};  agent, protocol, builds, orders, reruns, call_limit (null where it is not known), issues_planned, endpoint
  settings        {baseline_reruns, wave, recall, before, extractor, model, embedder, seed, test_seconds, dataset_revision, dataset_split,
                   limits: {calls, command_seconds, seconds, tokens, cost}, versions: {NAME: text}, prompts: {NAME: n}, bank: {...},
                   repositories: {REPO: issues}, dates: {first, last, unknown}}; {} for two folders
  verdict         {source, label};  complete (true|false);  seconds (of work)
  headline        {sentence, caveats: [text], arm, baseline, earned (true|false)}; arm and baseline null where there is no pair
  claims          [{arm, earned, sentence, over_none: WORD, over_derangement: WORD}]
                  WORD: "above"|"below"|"above on this path"|"below on this path" (one online stream)|"not shown"|"nothing to test"|"not compared"
  threats         [{id, weight: "serious"|"caution"|"note"|"not checked", sentence, about: [text]}]; the serious ones first
  noise           {floor: ESTIMATE (two runs of the baseline differ), known, sentence}
  uptake          {looked (attempts whose thoughts were read), with_item, taken_up, share: ESTIMATE, by_chance: ESTIMATE, rule, why,
                   arms: {ARM: {with_item, looked, taken_up}}}
                  by_chance: the same words looked for in the baseline's attempts at the same issues, which never saw the item
  arms            [ARM];  comparisons: [COMPARISON], the primary one first;  issues: [ISSUE];  items: [ITEM], most used first
  environment     [{checked, resolved, failing: [{issue, outcome}]}];  infra: [{arm, stream, issue, tries, reason}]
  usage           {ROLE: USAGE, all: USAGE};  sentences: [text];  problems: [text]

ARM
  arm, kind, streams: [text], planned, graded, resolved, given, missing, calls_unknown, mean_calls, mean_actions
  infra           [{stream, issue}];  limit_hits: {STATUS: n};  exit_statuses: {STATUS: n};  flags: {FLAG: attempts}
  judge           {right, wrong, unknown, "not judged"}
  rate, low, high, interval (method);  estimate: ESTIMATE, the same with its estimand
  noise           ESTIMATE: two runs of an issue by this arm differ (memory: with the same bank)
  measures        {MEASURE: {mean, known, unknown, at_limit, memory, why}}: mean of an attempt; ``memory`` is the share of the mean that are
                  memory's own calls; ``at_limit`` is null without a limit
  per_resolved    {MEASURE: ESTIMATE}: ratio of sums; calls, tokens and cost, where they are known
  curve           [{at (calls), value, low, high}]: resolved within so many calls
  memory_usage    {judge: USAGE, extract: USAGE, passes (how often the issues were passed with it), why}: what learning took for this arm
  pass_at_k       [{k, estimate: ESTIMATE, issues, short (issues with fewer attempts)}]; [] with one run
  best_of_n       [{n, selector, selected: ESTIMATE, at_random: ESTIMATE, perfect: ESTIMATE, short}]; [] where there is no selector or one run

COMPARISON
  id, arm, baseline, role ("primary"|"secondary"), issues, unit, units, estimand, null, level
  both, only_arm, only_baseline, neither     of one run each; null with several runs
  rates           {arm, baseline}: over the shared issues
  discordant      {only_arm, only_baseline, expected (true: a mean over pairs of runs)}; null without a shared issue
  difference, low, high, interval (method), p, test, p_exact, p_adjusted (Holm; null for the primary one), why, notes: [text], sentence
  estimates       [{name, estimate: ESTIMATE, test: TEST}]: all that the protocol supports, the one of the endpoint first
                  name: "given the banks"|"over builds"|"over streams"|"along this path"|"between the runs"
  check           ESTIMATE by another method
  no_effect       TEST of "memory changes the chance of no issue"
  streams         [{stream, difference}];  between (standard deviation over streams or builds);  baseline_error
  sensitivity     {left_out: [{repository, issues, difference, low, high}], low, high, note}: one repository left out at a time
  noise           {arm: ESTIMATE, baseline: ESTIMATE, across: ESTIMATE, excess: ESTIMATE, floor_of: "both"|"arm"|"baseline"|"",
                   standard_error (two single runs), own_error (of this difference, with the runs it has), sentence}
  calls_difference
  steps           {MEASURE: {arm, baseline, difference: ESTIMATE, test: TEST, p_adjusted (calls only), limit, at_limit: {arm, baseline}, unknown, sentence}}
  by_outcome      {label, rows: [{outcome, issues, arm, baseline, difference: ESTIMATE}]}: calls
  per_resolved    {MEASURE: ESTIMATE}: arm over baseline
  curve           [{at, value, low, high}]: the difference in what is resolved within so many calls
  bounds          {low, high, interval_low, interval_high, missing: {arm, baseline}, planned, unequal: TEST, why}
  flips           {for, against, list: [FLIP]};  FLIP: {issue, repository, direction: "for"|"against", arm: SIDE, baseline: SIDE, recalled, item, score,
                   learned_from, same_repository, taken_up}
                  SIDE: {resolved, runs, stream, trajectory}: how many of its runs, and one that shows it (a path below the run folder)
  recall_gain     [{where: "same repository"|"another repository"|"nothing", attempts, issues, estimate: ESTIMATE}]; [] for a control
  learning        {size: CURVE, position: CURVE, why};  CURVE: {axis, bins: [{start, end, attempts, estimate: ESTIMATE}], slope: ESTIMATE}; null but for online

ISSUE
  issue, repository, arms: {ARM: [{stream, state, resolved, calls, actions, tokens, cost, seconds, exit_status, outcome, flags, verdict, patch_sha256,
                                   recalled, control, given (any text), item, score, learned_from, learned_outcome, verdict_source, same_repository,
                                   taken_up, words: [text], trajectory}]}; ``trajectory`` is a path below the run folder; of two folders it begins
                                   with the name of its source. An attempt that was not started has stream, state, resolved and calls only.

ITEM
  id, title, learned_from, uses, resolved, repository (where it was learned; null where it is not known), same_repository (uses),
  learned_outcome, verdict_source, flips_for, flips_against, flips_expected, effect: ESTIMATE, looked, taken_up,
  attempts: [{arm, stream, issue, resolved, baseline_resolved, score, taken_up, trajectory}]
"""
