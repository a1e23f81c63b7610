# Replaces the .git of the repository at ROOT by one that holds what BASE reaches and nothing else. Runs as root in a container, after git.sh.
#
# Arguments: ROOT, BASE (a full commit hash), the committer addresses by which commits of image builders are known (words in one argument).
#
# Left in /.swe-memory, for taking the patch: objects/ (hard links to the new pack), start.git/ (a repository whose tree `start` is the folder as the image has
# it, with what git did not know and did not ignore) and `ignored` (the names of what it did ignore).

# folder -> its repository folder (dir) and the one that it shares with others (common); false where there is none
find_repository() {
    local link
    if [ -d "$1/.git" ]; then
        dir=$(realpath "$1/.git")
    elif [ -f "$1/.git" ]; then
        read -r _ link <"$1/.git"
        dir=$(cd "$1" && realpath -e "$link") || return 1
    else
        return 1
    fi
    common=$dir
    if [ -f "$dir/commondir" ]; then
        read -r link <"$dir/commondir"
        common=$(cd "$dir" && realpath -e "$link") || return 1
    fi
    GIT_DIR=$dir g rev-parse --git-dir >/dev/null
}

# Build a repository in $2 from the one at $dir: commit $1 with all that it reaches, and the tags on it or its ancestors that are not younger than it is.
# The work tree is $3, and $4 the commit by whose time tags are measured.
build_repository() {
    local start=$1 new=$2 tree=$3 base=$4 version=0 extensions='' age kind oid ref when key value line
    mkdir -p "$new/objects/info" "$new/objects/pack" "$new/refs/heads" "$new/refs/tags" "$new/info"
    if [ ${#start} = 64 ]; then version=1 extensions=$'[extensions]\n\tobjectFormat = sha256\n'; fi
    printf '[core]\n\trepositoryformatversion = %s\n\tbare = false\n\tlogallrefupdates = true\n[user]\n\tname = Agent\n\temail = agent@example.invalid\n[gc]\n\tauto = 0\n%s' \
        $version "$extensions" >"$new/config"
    for key in core.filemode core.symlinks core.ignorecase core.autocrlf core.eol; do
        value=$(g config --file "$common/config" --get $key) && g config --file "$new/config" $key "$value"
    done
    for key in exclude attributes; do
        [ -f "$common/info/$key" ] && [ "$(stat -c %s "$common/info/$key")" -lt 65536 ] && cp "$common/info/$key" "$new/info/$key"
    done
    age=$(GIT_DIR=$dir g show -s --format=%ct "$base")
    # An object's age is only known of annotated tags; what a tag of a tag names may be anything.
    GIT_DIR=$dir g for-each-ref --merged="$base" --format='%(objecttype) %(objectname) %(refname) %(taggerdate:unix) %(*objecttype)' refs/tags |
        while read -r kind oid ref when line; do
            if [ "$kind" = commit ] || { [ "$kind" = tag ] && [ "$line" = commit ] && [ "$when" -le "$age" ]; }; then echo "$oid $ref"; fi
        done | sort -k 2 >"$new/tags"
    { echo "$start"; cut -d ' ' -f 1 "$new/tags"; } |
        GIT_DIR=$dir g pack-objects --revs --delta-base-offset -q "$new/objects/pack/pack" >/dev/null 2>"$new/why" || return 1
    if [ -f "$common/shallow" ]; then
        GIT_DIR=$dir g rev-list "$start" | sort >"$new/held"
        sort "$common/shallow" | comm -12 - "$new/held" >"$new/shallow"
    fi
    echo 'ref: refs/heads/main' >"$new/HEAD"
    echo "$start" >"$new/refs/heads/main"
    if [ -s "$new/tags" ]; then { echo '# pack-refs with: sorted '; cat "$new/tags"; } >"$new/packed-refs"; fi
    rm -f "$new/tags" "$new/why" "$new/held"
    GIT_DIR=$new g read-tree "$start" || return 1
}

# Put the repository $2 in the place of what is at $1/.git.
put_in_place() {
    local open=
    [ -d "$1/.git" ] && [ $((0$(stat -L -c %a "$1/.git") & 2)) != 0 ] && open=yes
    rm -rf "$1/.git" && mv "$2" "$1/.git" || return 1
    GIT_DIR=$1/.git GIT_WORK_TREE=$1 g update-index -q --refresh >/dev/null
    chown -R --reference="$1" "$1/.git"
    [ -z "$open" ] || chmod -R a+rwX "$1/.git"
}

# The same for each submodule of commit $2 that is filled, at the commit that it is recorded with. $1 is the work tree, $3 where the new parent is built.
# One whose commit is not there loses its .git; its files stay.
hide_in_submodules() {
    local mode oid path name dir common number=0
    GIT_DIR=$dir_of_parent g ls-tree -r -z "$2" | while IFS=$'\t' read -rd '' mode path; do
        [ "${mode:0:6}" = 160000 ] && [ -e "$1/$path/.git" ] || continue
        oid=${mode##* }
        number=$((number + 1))
        if find_repository "$1/$path" && GIT_DIR=$dir g cat-file -e "$oid^{commit}" && build_repository "$oid" "$3.$number" "$1/$path" "$oid"; then
            dir_of_parent=$dir hide_in_submodules "$1/$path" "$oid" "$3.$number"
            put_in_place "$1/$path" "$3.$number"
            name=$(g config --file "$1/.gitmodules" --get-regexp '^submodule\..*\.path$' | while read -r key value; do
                [ "$value" = "$path" ] && key=${key#submodule.} && echo "${key%.path}"
            done | head -n 1)
            if [ -n "$name" ]; then
                g config --file "$3/config" "submodule.$name.url" "$(g config --file "$1/.gitmodules" --get "submodule.$name.url")"
                g config --file "$3/config" "submodule.$name.active" true
            fi
            say submodule "$path"
        else
            rm -rf "$3.$number" "$1/$path/.git"
            say emptied "$path"
        fi
    done
}

# Say what is in the repository that will not be there any more.
take_stock() {
    GIT_DIR=$dir g for-each-ref --format='%(refname)' | while read -r ref; do say ref "$ref"; done
    for path in "$dir"/*_HEAD; do [ -f "$path" ] && say pseudo "${path##*/}"; done
    say reflog "$(find "$common/logs" "$dir/logs" -type f -exec cat {} + | wc -l)"
    find "$common/worktrees" -name gitdir -type f -exec cat {} + | while read -r path; do [ "$path" = "$root/.git" ] || say worktree "${path%/.git}"; done
    say objects "$(GIT_DIR=$dir g cat-file --batch-all-objects --batch-check='%(objectname)' | wc -l)"
}

# Print the object folders that the repository at $common borrows from, and those that they borrow from.
borrowed() {
    local -A seen
    local -a pending=("$common/objects")
    local folder line
    while [ ${#pending[@]} != 0 ]; do
        folder=${pending[0]}
        pending=("${pending[@]:1}")
        [ -n "${seen[$folder]}" ] && continue
        seen[$folder]=yes
        [ "$folder" = "$common/objects" ] || printf '%s\0' "$folder"
        [ -f "$folder/info/alternates" ] || continue
        while read -r line; do
            [ -n "$line" ] && line=$(cd "$folder" && realpath -e "$line") && pending+=("$line")
        done <"$folder/info/alternates"
    done
}

# Other repositories of the same project anywhere in the container: those that hold the base commit, or most of a sample of its files. They go.
remove_copies() {
    local path folder known wanted
    GIT_DIR=$1/.git g ls-tree -r "$2" | sed -n 's/^[0-9]* blob \([0-9a-f]*\).*/\1/p' | sed -n 'p;n;n;n;n;n;n' | head -n 200 >"$STORE/sample"
    wanted=$(wc -l <"$STORE/sample")
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path "$STORE" -o -path "$1/.git" \) -prune -o \( -name .git -o -name HEAD -type f \) -print0 |
        while IFS= read -rd '' path; do
            folder=${path%/HEAD}
            [ -d "$folder" ] && [ -d "$folder/objects" ] && [ -f "$folder/HEAD" ] || continue
            [ "$folder" != "$path" ] && [ "${folder##*/}" = .git ] && continue
            known=$(GIT_DIR=$folder g cat-file --batch-check='%(objecttype)' <"$STORE/sample" | grep -c blob)
            if GIT_DIR=$folder g cat-file -e "$2^{commit}" || { [ "$wanted" -gt 0 ] && [ $((known * 2)) -gt "$wanted" ]; }; then
                rm -rf "$folder" && say copy "$folder"
            fi
        done
    rm -f "$STORE/sample"
}

# The folder as the image has it, as a tree of its own: what a patch is the difference to. Bytes stay bytes, whatever attributes say.
remember_start() {
    local start=$START
    mkdir -p "$start/objects/info" "$start/objects/pack" "$start/refs" "$start/info" "$STORE/objects/pack" "$STORE/objects/info"
    cp -l "$1/.git/objects/pack/"* "$STORE/objects/pack/" || cp "$1/.git/objects/pack/"* "$STORE/objects/pack/" || return 1
    echo "$STORE/objects" >"$start/objects/info/alternates"
    cp "$1/.git/config" "$1/.git/HEAD" "$start/"
    cp "$1/.git/info/exclude" "$start/info/"
    echo '* -text -ident -filter -working-tree-encoding !diff' >"$start/info/attributes"
    export GIT_DIR=$start GIT_WORK_TREE=$1
    cd "$1" || return 1
    g read-tree "$2" && g add --update --ignore-errors . || return 1
    g ls-files --others --exclude-standard -z | grep -zv '/$' >"$STORE/untracked"
    g update-index --add -z --stdin <"$STORE/untracked" || return 1
    say untracked "$(tr -dc '\0' <"$STORE/untracked" | wc -c)"
    rm -f "$STORE/untracked"
    g ls-files --others --ignored --exclude-standard -z | sort -z >"$STORE/ignored"
    say start "$(g write-tree)"
    unset GIT_DIR GIT_WORK_TREE
}

hide() {
    local root=$1 base=$2 builders=$3 dir common head start parents tree path new=$STORE/repository.git
    command -v git >/dev/null || fail nogit "$(command -v sh)" || return
    [ -d "$root" ] && [ ! -L "$root" ] && cd "$root" && find_repository "$root" || fail norepository "$root" || return
    GIT_DIR=$dir g cat-file -e "$base^{commit}" || fail nobase "$base" || return
    head=$(GIT_DIR=$dir g rev-parse --verify --quiet 'HEAD^{commit}') || fail nohead "$(cat "$dir/HEAD")" || return
    tree=$(GIT_DIR=$dir g rev-parse "$head^{tree}")
    start=$base
    if [ "$tree" != "$(GIT_DIR=$dir g rev-parse "$base^{tree}")" ]; then
        parents=$(GIT_DIR=$dir g show -s --format=%P "$head")
        [ "$parents" = "$base" ] && [[ " $builders " = *" $(GIT_DIR=$dir g show -s --format=%ce "$head") "* ]] || fail elsewhere "$head" || return
        # What the image's builder changed stays, in a commit that says nothing more.
        start=$(
            export GIT_DIR=$dir GIT_AUTHOR_NAME=Setup GIT_AUTHOR_EMAIL=setup@example.invalid GIT_COMMITTER_NAME=Setup GIT_COMMITTER_EMAIL=setup@example.invalid
            GIT_AUTHOR_DATE=$(g show -s --format=@%ct "$base")
            export GIT_AUTHOR_DATE GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
            g commit-tree -p "$base" -m 'Environment setup' "$tree"
        ) || fail broken "commit-tree" || return
        GIT_DIR=$dir g diff-tree -r -z --name-only --no-renames "$base" "$start" | while IFS= read -rd '' path; do say setup "$path"; done
    fi
    take_stock
    say head "$start"
    mkdir -p "$STORE" && rm -rf "$new" "$STORE/objects" "$STORE/start.git"
    build_repository "$start" "$new" "$root" "$base" || fail broken "$(tail -c 300 "$new/why")" || return
    dir_of_parent=$dir hide_in_submodules "$root" "$start" "$new"
    borrowed >"$STORE/borrowed"
    put_in_place "$root" "$new" || fail broken "the old .git cannot be replaced" || return
    for path in "$dir" "$common"; do
        case $path in "$root/.git" | "$root/.git/"*) ;; *) rm -rf "$path" && say copy "$path" ;; esac
    done
    while IFS= read -rd '' path; do
        [ "${path##*/}" = objects ] && [ -f "${path%/objects}/HEAD" ] && path=${path%/objects}
        rm -rf "$path" && say copy "$path"
    done <"$STORE/borrowed"
    rm -f "$STORE/borrowed"
    remove_copies "$root" "$base"
    remember_start "$root" "$start" || fail broken "the folder cannot be read" || return
    verify "$root" "$start"
}

# What must be true now, asked of the folder itself.
verify() {
    local root=$1 start=$2 packed
    export GIT_DIR=$root/.git
    [ "$(g rev-parse HEAD)" = "$start" ] || fail left "HEAD" || return
    g for-each-ref --format='%(refname)' | while read -r ref; do say kept "$ref"; done
    find "$root/.git" -type f ! -path "$root/.git/objects/pack/pack-*" ! -path "$root/.git/HEAD" ! -path "$root/.git/config" ! -path "$root/.git/index" \
        ! -path "$root/.git/packed-refs" ! -path "$root/.git/shallow" ! -path "$root/.git/refs/heads/main" ! -path "$root/.git/info/exclude" \
        ! -path "$root/.git/info/attributes" | while read -r path; do say left "$path"; done
    packed=$(g cat-file --batch-all-objects --batch-check='%(objectname)' | wc -l)
    say held "$packed"
    say reached "$(g rev-list --objects --all | wc -l)"
    say loose "$(find "$root/.git/objects" -type f ! -path '*/pack/pack-*' | wc -l)"
    unset GIT_DIR
}

hide "$@"
return $exit_code
