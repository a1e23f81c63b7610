# What a patch of the folder ROOT would hold, and the patch. Runs as root in a container where hide_future.sh has run, after git.sh.
#
# The agent's own .git is not read: the difference is computed with a repository of ours, whose index is what the image had. An agent may have removed or
# replaced any program that is used here: where one does not do its work, there is no patch, rather than one which lacks a part.

open_start() {
    [ -d "$1" ] && [ ! -L "$1" ] && cd "$1" || fail replaced "$1" || return
    [ -f "$START/HEAD" ] && [ -f "$START/index" ] && [ -f "$STORE/ignored" ] || fail unreadable 'what it compares with is gone' || return
    export GIT_DIR=$START GIT_WORK_TREE=$1 GIT_INDEX_FILE=$STORE/patch.index
}

# The names of new files, into $STORE/new. Repositories that an agent made are left out, with a slash at their end; so is what the image has and its repository
# ignored, even where nothing ignores it any more: the grader's image has it too.
list_new_files() {
    g ls-files --others --exclude-standard -z >"$STORE/others" && sed -z '/\/$/d' "$STORE/others" >"$STORE/files" && sort -z "$STORE/files" >"$STORE/others" &&
        comm -z -23 "$STORE/others" "$STORE/ignored" >"$STORE/new"
}

# Arguments: ROOT, the tree that it began as, most files of interest, most bytes of a file that says what git ignores. Records: "new SIZE NAME" for files that
# git does not know, "was MODE TYPE NAME-OF-OBJECT SIZE<tab>NAME" and "is SIZE NAME" for those that it does.
survey() {
    local root=$1 start=$2 most=$3 longest=$4 lacks
    kill -KILL -1 # what an agent left running would go on changing files
    mkdir -p "$STORE"
    lacks=$(lacking)
    [ "$lacks" = nothing ] || fail unreadable "programs are gone or do not work: $lacks" || return
    open_start "$root" || return
    rm -rf "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock" "$START"/*.lock && cp "$START/index" "$GIT_INDEX_FILE" || fail unreadable 'no index can be written' || return
    # git would wait for these, or stumble over them.
    find . -xdev -path ./.git -prune -o \( -type p -o -type s -o -type b -o -type c \) -exec rm -f {} + &&
        find . -xdev -path ./.git -prune -o \( -name .gitignore -o -name .gitattributes \) -type f -size "+${longest}c" -printf '%s ' >"$STORE/large" ||
        fail unreadable 'not every folder can be searched' || return
    [ ! -s "$STORE/large" ] || fail large "a .gitignore or .gitattributes of $(<"$STORE/large")bytes" || return
    list_new_files && head -zn $((most + 1)) "$STORE/new" >"$STORE/files" &&
        xargs -0 -r stat --printf 'new %s %n\0' -- <"$STORE/files" >"$STORE/sizes" || fail unreadable 'the new files cannot be listed' || return
    g ls-files -z >"$STORE/files" && sort -zu "$STORE/files" >"$STORE/known" && g ls-files --deleted -z >"$STORE/files" && sort -zu "$STORE/files" >"$STORE/deleted" &&
        comm -z -23 "$STORE/known" "$STORE/deleted" >"$STORE/files" && xargs -0 -r stat --printf 'is %s %n\0' -- <"$STORE/files" >>"$STORE/sizes" &&
        g ls-tree -r -l -z "$start" >"$STORE/files" && sed -z 's/^/was /' "$STORE/files" >>"$STORE/sizes" || fail unreadable 'the files cannot be listed' || return
    cat "$STORE/sizes"
}

say_attributes() { echo "* -text -ident -filter -working-tree-encoding $1" >"$START/info/attributes"; }

# Arguments: ROOT, the tree that it began as, most bytes, then numbers of the changed files to show, as binary hunks (none: all of them, as text where they are).
# Prints the patch. Only after survey, which ends the agent's processes and tries the programs.
patch() {
    local root=$1 start=$2 most=$3 number names options size
    shift 3
    open_start "$root" || return
    options=(--cached --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv --ignore-submodules)
    if [ $# = 0 ]; then
        g add --update --ignore-errors . || fail unreadable 'git cannot take the files in' || return
        list_new_files && g update-index --add --replace -z --stdin <"$STORE/new" || fail unreadable 'git cannot take the new files in' || return
        g diff "${options[@]}" "$start" >"$STORE/patch"
    else
        g diff "${options[@]}" --name-only -z "$start" >"$STORE/files" || fail unreadable 'git cannot compare the files' || return
        mapfile -d '' names <"$STORE/files"
        for number in "$@"; do set -- "$@" ":(literal)${names[$number]}"; shift; done
        say_attributes -diff
        g diff "${options[@]}" "$start" -- "$@" >"$STORE/patch"
        size=$?
        say_attributes '!diff'
        [ $size = 0 ]
    fi || fail unreadable 'git cannot compare the files' || return
    size=$(stat -c %s "$STORE/patch") || fail unreadable 'the patch cannot be read' || return
    [ "$size" -le "$most" ] || fail large "$size bytes" || return
    cat "$STORE/patch" || fail unreadable 'the patch cannot be read'
}

"$@"
return $exit_code
