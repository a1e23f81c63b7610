# What the scripts beside this one share. They run in a container, by bash, as root, and print records "NAME VALUE", each ended by a NUL byte; a failure is a
# record "error KIND WHAT" and code 1. Standard error is nobody's.

for name in ${!GIT_@}; do unset "$name"; done
export HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent LC_ALL=C TZ=UTC
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/nonexistent GIT_NO_LAZY_FETCH=1 GIT_OPTIONAL_LOCKS=0
STORE=/.swe-memory # what is ours in the container
START=$STORE/start.git # knows the folder as the image has it
exit_code=0

say() { printf '%s %s\0' "$1" "$2"; }
fail() { say error "$1 $2"; exit_code=1; return 1; }
g() {
    git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.attributesFile=/dev/null -c core.excludesFile=/dev/null -c core.untrackedCache=false \
        -c core.commitGraph=false -c core.safecrlf=false -c gc.auto=0 -c maintenance.auto=false -c protocol.ext.allow=never "$@"
}

