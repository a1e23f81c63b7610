#!/usr/bin/env bash
# An agent of twenty lines. Usage, in the repository: shell_agent.sh ISSUE_FILE MEMORY_FILE LOG_FILE
# Its one idea is a comparison that forgets its limit; a note from memory that speaks of defaults gives it another one.
issue=$1 memory=$2 log=$3
json() { local text=${1//\\/\\\\}; text=${text//\"/\\\"}; text=${text//$'\t'/\\t}; printf '"%s"' "${text//$'\n'/\\n}"; }
step() { # THOUGHT COMMAND: run the command and append the step to the log
    local output code
    output=$(bash -c "$2" 2>&1); code=$?
    printf '{"thought": %s, "action": %s, "observation": %s, "returncode": %d, "usage": {"input_tokens": 100, "output_tokens": 10, "cost": 0.01}}\n' \
        "$(json "$1")" "$(json "$2")" "$(json "$output")" "$code" >> "$log"
}
module=$(grep -o 'from shop\.[a-z]*' "$issue" | head -n 1 | cut -d . -f 2)
file=shop/$module.py
step "The issue is about $file." "cat $file"
if grep -qi 'default' "$memory"; then
    step "A note speaks of defaults: one may be shared between calls." \
        "sed -i 's/basket=\[\]/basket=None/; s/^    basket.append/    basket = [] if basket is None else basket\n&/' $file"
else
    step "A comparison may have forgotten its limit." "sed -i 's/ > / >= /' $file"
fi
step "I run what the issue shows." "sed -n '/^\`\`\`python/,/^\`\`\`/{//!p}' '$issue' | python3 -B -"
