# What a patch of the folder ROOT would hold, and the patch. Runs as root in a container where hide_future.sh has run, after git.sh.
#
# The agent's own .git is not read: the difference is computed with a repository of ours, whose index is what the image had.

open_start() {
    [ -d "$1" ] && [ ! -L "$1" ] && cd "$1" || fail replaced "$1" || return
    command -v git >/dev/null && [ -f "$START/HEAD" ] && [ -f "$START/index" ] && [ -f "$STORE/ignored" ] ||
        fail unreadable 'git, or what it compares with, is gone' || return
    export GIT_DIR=$START GIT_WORK_TREE=$1 GIT_INDEX_FILE=$STORE/patch.index
}

# Repositories that an agent made are left out, with a slash at their end; so is what the image has and its repository ignored, even where nothing ignores it any
# more: the grader's image has it too.
new_files() { g ls-files --others --exclude-standard -z | grep -zv '/$' | sort -z | comm -z -23 - "$STORE/ignored"; }

# Arguments: ROOT, the tree that it began as, most files of interest, most bytes of a file that says what git ignores. Records: "new SIZE NAME" for files that
# git does not know, "was MODE TYPE NAME-OF-OBJECT SIZE<tab>NAME" and "is SIZE NAME" for those that it does.
survey() {
    local root=$1 start=$2 most=$3 longest=$4 size
    kill -KILL -1 # what an agent left running would go on changing files
    open_start "$root" || return
    rm -rf "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock" "$START"/*.lock
    cp "$START/index" "$GIT_INDEX_FILE"
    # git would wait for these, or stumble over them.
    find . -xdev -path ./.git -prune -o \( -type p -o -type s -o -type b -o -type c \) -exec rm -f {} +
    size=$(find . -xdev -path ./.git -prune -o \( -name .gitignore -o -name .gitattributes \) -type f -exec stat -c %s {} + | sort -n | tail -n 1)
    [ "${size:-0}" -le "$longest" ] || fail large "a .gitignore or .gitattributes of $size bytes" || return
    new_files | head -zn $((most + 1)) | xargs -0 -r stat --printf 'new %s %n\0' --
    g ls-tree -r -l -z "$start" | sed -z 's/^/was /'
    g ls-files -z | xargs -0 -r stat --printf 'is %s %n\0' --
}

# Arguments: ROOT, the tree that it began as, most bytes, then numbers of the changed files to show, as binary hunks (none: all of them, as text where they are).
# Prints the patch.
patch() {
    local root=$1 start=$2 most=$3 number names options size
    shift 3
    open_start "$root" || return
    options=(--cached --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv --ignore-submodules)
    if [ $# = 0 ]; then
        g add --update --ignore-errors . || fail unreadable 'git cannot take the files in' || return
        new_files >"$STORE/new"
        g update-index --add --replace -z --stdin <"$STORE/new" || fail unreadable 'git cannot take the new files in' || return
        g diff "${options[@]}" "$start" >"$STORE/patch"
    else
        mapfile -d '' names < <(g diff "${options[@]}" --name-only -z "$start")
        for number in "$@"; do set -- "$@" ":(literal)${names[$number]}"; shift; done
        sed -i 's/!diff/-diff/' "$START/info/attributes"
        g diff "${options[@]}" "$start" -- "$@" >"$STORE/patch"
        size=$?
        sed -i 's/-diff/!diff/' "$START/info/attributes"
        [ $size = 0 ]
    fi || fail unreadable 'git cannot compare the files' || return
    size=$(stat -c %s "$STORE/patch")
    [ "$size" -le "$most" ] || fail large "$size bytes" || return
    cat "$STORE/patch"
}

"$@"
return $exit_code
