# What the scripts beside this one share. They run in a container, by bash, as root, and print records "NAME VALUE", each ended by a NUL byte; a failure is a
# record "error KIND WHAT" and code 1. Standard error is nobody's.
#
# A program that is not there, or fails, must never read as "nothing found". So every program is tried before it is relied on, and what one program prints goes
# into a file, its code looked at, before another reads it.

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

# Arguments: a program, what is asked of it beyond the ordinary, what must come out (with / for NUL bytes), the command. A program that does otherwise goes
# into `lacks`.
try() {
    local program=$1 asked=$2 expected=$3 got
    shift 3
    "$@" >out && mapfile -d '' got <out && [ "$(IFS=/ && echo "${got[*]}")" = "$expected" ] || lacks+=("$program${asked:+ (with $asked)}")
}

# Print which of the programs that the scripts use are not there, or do not do what is asked of them here; "nothing" where all is well.
lacking() (
    folder=$STORE/try lacks=()
    for program in cat chmod chown comm cp cut find git head mkdir mv realpath rm sed sort stat wc xargs; do
        command -v "$program" >/dev/null || lacks+=("$program")
    done
    if [ ${#lacks[@]} = 0 ]; then
        rm -rf "$folder"
        [ ! -e "$folder" ] || lacks+=(rm)
        mkdir -p "$folder/kept/x" && cd "$folder" && printf x >kept/x/file && printf 'a\0b\0' >both && printf 'b\0a\0' >turned && printf 'a\0' >one || lacks+=(mkdir)
    fi
    if [ ${#lacks[@]} = 0 ]; then
        try find '-xdev, -printf, -print0' kept/x/file/1 find kept -xdev -path kept/y -prune -o -type f -size -2c -name 'f[a-i]le' -print0 -printf '%s\0'
        try sort '-z, -u' a/b sort -zu turned both
        try comm '-z' b comm -z -13 one both
        try sed '-z, -E' 'is a/is b' sed -z -E 's/^(a|b)$/is \1/' both
        try head '-z' a head -z -n 1 both
        try xargs '-0, -r' 1/1 xargs -0 -r stat --printf '%s\0' -- < <(printf 'kept/x/file\0kept/x/file\0')
        try stat '-c, --printf' '1 kept/x/file' stat --printf '%s %n' kept/x/file
        try realpath '-e' "$folder/kept" realpath -e kept/x/..
        try git '' name git check-ref-format --branch name
        try cut '' a cut -d ' ' -f 1 - <<<'a b'
        try wc '' 1 wc -l <<<a
        try cat '' a/b cat both
        try cp '-a' x eval 'cp -a kept copy && cat copy/x/file'
        try mv '' x eval 'mv copy moved && [ ! -e copy ] && cat moved/x/file'
        try chmod '-R' 700 eval 'chmod -R 700 moved && stat -c %a moved/x/file'
        try chown '-R, --reference' '' chown -R --reference=kept moved
        try rm '' '' eval 'rm -rf moved && [ ! -e moved ]'
    fi
    rm -rf "$folder"
    [ ${#lacks[@]} != 0 ] || lacks=(nothing)
    printf -v names '%s, ' "${lacks[@]}"
    echo "${names%, }"
)
