# Replaces the .git of the repository at ROOT by one that holds what BASE reaches and nothing else. Runs as root in a container, after git.sh.
#
# Arguments: ROOT, BASE (a full commit hash), the committer addresses by which commits of image builders are known (words in one argument), the user whom commands
# run as (as an image names one; "" for root).
#
# Left in /.swe-memory, for taking the patch: objects/ (hard links to the new pack), start.git/ (a repository whose tree `start` is the folder as the image has
# it, with what git did not know and did not ignore) and `ignored` (the names of what it did ignore).

# folder -> its repository folder (dir) and the one that it shares with others (common); false where there is none
find_repository() {
    local link
    if [ -d "$1/.git" ]; then
        dir=$(realpath "$1/.git") || return 1
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
        [ "$folder" = "$common/objects" ] || printf '%s\n' "$folder"
        [ -f "$folder/info/alternates" ] || continue
        while read -r line; do
            [ -n "$line" ] && line=$(cd "$folder" && realpath -e "$line") && pending+=("$line")
        done <"$folder/info/alternates"
    done
}

# Build a repository in $2 from the one at $dir: commit $1 with all that it reaches, and the tags on it or its ancestors that are not younger than it is.
# $3 is the commit by whose time tags are measured.
build_repository() {
    local start=$1 new=$2 base=$3 version=0 extensions='' age kind oid ref when key value line
    mkdir -p "$new/objects/info" "$new/objects/pack" "$new/refs/heads" "$new/refs/tags" "$new/info"
    if [ ${#start} = 64 ]; then version=1 extensions=$'[extensions]\n\tobjectFormat = sha256\n'; fi
    printf '[core]\n\trepositoryformatversion = %s\n\tbare = false\n\tlogallrefupdates = true\n[user]\n\tname = Agent\n\temail = agent@example.invalid\n[gc]\n\tauto = 0\n%s' \
        $version "$extensions" >"$new/config" || return 1
    for key in core.filemode core.symlinks core.ignorecase core.autocrlf core.eol; do
        value=$(g config --file "$common/config" --get $key) && g config --file "$new/config" $key "$value"
    done
    for key in exclude attributes; do
        [ -f "$common/info/$key" ] && [ "$(stat -c %s "$common/info/$key")" -lt 65536 ] && cp "$common/info/$key" "$new/info/$key"
    done
    age=$(GIT_DIR=$dir g show -s --format=%ct "$base") || return 1
    # An object's age is only known of annotated tags; what a tag of a tag names may be anything.
    GIT_DIR=$dir g for-each-ref --merged="$base" --format='%(objecttype) %(objectname) %(refname) %(taggerdate:unix) %(*objecttype)' refs/tags \
        >"$new/every-tag" || return 1
    while read -r kind oid ref when line; do
        if [ "$kind" = commit ] || { [ "$kind" = tag ] && [ "$line" = commit ] && [ "$when" -le "$age" ]; }; then echo "$oid $ref"; fi
    done <"$new/every-tag" >"$new/some-tags"
    sort -k 2 "$new/some-tags" >"$new/tags" || return 1
    cut -d ' ' -f 1 "$new/tags" >"$new/wanted" && echo "$start" >>"$new/wanted" || return 1
    # The new one borrows for a moment, so that git packs beside it: the old one may lie on another file system.
    { echo "$common/objects" && borrowed; } >"$new/objects/info/alternates" || return 1
    GIT_DIR=$dir GIT_OBJECT_DIRECTORY=$new/objects g pack-objects --revs --delta-base-offset -q "$new/objects/pack/pack" \
        <"$new/wanted" >/dev/null 2>"$new/why" || return 1
    rm "$new/objects/info/alternates" || return 1
    if [ -f "$common/shallow" ]; then
        GIT_DIR=$dir g rev-list "$start" >"$new/reached" && sort "$new/reached" >"$new/held" && sort "$common/shallow" >"$new/ends" &&
            comm -12 "$new/ends" "$new/held" >"$new/shallow" || return 1
    fi
    echo 'ref: refs/heads/main' >"$new/HEAD"
    echo "$start" >"$new/refs/heads/main"
    if [ -s "$new/tags" ]; then { echo '# pack-refs with: sorted ' && cat "$new/tags"; } >"$new/packed-refs" || return 1; fi
    GIT_DIR=$new g read-tree "$start" 2>"$new/why" || return 1
    rm -f "$new/every-tag" "$new/some-tags" "$new/tags" "$new/wanted" "$new/why" "$new/reached" "$new/held" "$new/ends"
}

# Remove a file or folder, whatever is in it; true where nothing of it is left. A place where something is mounted stays, as an empty folder.
cleared() {
    local first
    rm -rf -- "$1"
    [ -e "$1" ] || [ -L "$1" ] || return 0
    [ -d "$1" ] && [ ! -L "$1" ] && first=$(find "$1" -mindepth 1 -print -quit) && [ -z "$first" ]
}

# What the repository at $dir says of the work tree $1 that hides nothing later, into files beside $2: its sparse settings and filters, the flags of its index,
# and what is staged on top of tree $3 (not looked at if empty). An index that cannot be read says nothing.
remember_index() {
    local meta path mode oid status
    : >"$2.settings" && : >"$2.assumed" && : >"$2.skipped" && : >"$2.staged" && : >"$2.removed" || return 1
    GIT_DIR=$dir g config -z --get-regexp '^(core\.sparsecheckout(cone)?|filter\..*)$' >"$2.settings"
    [ ! -f "$dir/info/sparse-checkout" ] || cp "$dir/info/sparse-checkout" "$2/info/" || return 1
    [ -f "$dir/index" ] && GIT_DIR=$dir GIT_WORK_TREE=$1 g ls-files -v -z >"$2.list" || return 0
    sed -z -n 's/^[a-z] //p' "$2.list" >"$2.names" && sort -zu "$2.names" >"$2.assumed" && sed -z -n 's/^[Ss] //p' "$2.list" >"$2.names" &&
        sort -zu "$2.names" >"$2.skipped" || return 1
    [ -n "$3" ] && GIT_DIR=$dir GIT_WORK_TREE=$1 g diff-index --cached --raw -z --no-renames --no-abbrev --ignore-submodules "$3" >"$2.list" || return 0
    while IFS= read -rd '' meta && IFS= read -rd '' path; do
        read -r _ mode _ oid status <<<"$meta"
        case $status:$mode in
            D:*) printf '%s\0' "$path" >>"$2.removed" ;;
            [AMT]:10* | [AMT]:120000)
                if [ -f "$1/$path" ] || [ -L "$1/$path" ]; then printf '%s %s 0\t%s\0' "$mode" "$oid" "$path" >>"$2.staged" || return 1; fi
                ;;
        esac
    done <"$2.list"
}

# The names of $1 that git knows, at standard output.
known_of() { g ls-files -z >"$2.list" && sort -zu "$2.list" >"$2.names" && comm -z -12 "$2.names" "$1"; }

# Tell the new repository at $1/.git what remember_index found, which lies beside $2. What was staged is so again where the work tree holds that very content: no
# object of the old repository is taken over.
restore_index() {
    local key value oids
    while IFS=$'\n' read -rd '' key value; do g config --file "$1/.git/config" --add "$key" "$value"; done <"$2.settings"
    (
        export GIT_DIR=$1/.git GIT_WORK_TREE=$1
        cd "$1" || exit 1
        if [ -s "$2.staged" ]; then
            sed -z 's/^[^\t]*\t//' "$2.staged" >"$2.names" && mkdir "$2.scratch" &&
                GIT_INDEX_FILE=$2.index GIT_OBJECT_DIRECTORY=$2.scratch g update-index --add --replace -z --stdin <"$2.names" &&
                GIT_INDEX_FILE=$2.index g ls-files -s -z >"$2.list" && sort -z "$2.list" >"$2.names" && sort -z "$2.staged" >"$2.list" &&
                comm -z -12 "$2.list" "$2.names" >"$2.staged" && sed -z 's/^[^\t]*\t//' "$2.staged" >"$2.names" &&
                g update-index --add --replace -z --stdin <"$2.names" && sed -z -E 's/^[0-9]+ ([0-9a-f]+) .*/\1/' "$2.staged" >"$2.list" || exit 1
            mapfile -d '' oids <"$2.list"
            if [ ${#oids[@]} != 0 ]; then
                printf '%s\n' "${oids[@]}" >"$2.list" && g pack-objects -q "$1/.git/objects/pack/pack" <"$2.list" >/dev/null && g prune-packed -q || exit 1
            fi
        fi
        if [ -s "$2.removed" ]; then g update-index --force-remove -z --stdin <"$2.removed" || exit 1; fi
        if [ -s "$2.assumed" ]; then known_of "$2.assumed" "$2" >"$2.known" && g update-index --assume-unchanged -z --stdin <"$2.known" || exit 1; fi
        if [ -s "$2.skipped" ]; then known_of "$2.skipped" "$2" >"$2.known" && g update-index --skip-worktree -z --stdin <"$2.known" || exit 1; fi
    ) || return 1
    rm -rf "$2".{settings,assumed,skipped,staged,removed,list,names,known,index,scratch}
}

# Put the repository $2 in the place of what is at $1/.git.
put_in_place() {
    local open=
    [ -d "$1/.git" ] && [ $((0$(stat -L -c %a "$1/.git") & 2)) != 0 ] && open=yes
    cleared "$1/.git" || return 1
    if [ -d "$1/.git" ]; then mv "$2"/* "$1/.git/"; else mv "$2" "$1/.git"; fi || return 1
    GIT_DIR=$1/.git GIT_WORK_TREE=$1 g update-index -q --refresh >/dev/null # false where files differ from the commit
    restore_index "$1" "$2" || return 1
    chown -R --reference="$1" "$1/.git" || return 1
    [ -z "$open" ] || chmod -R a+rwX "$1/.git"
}

# The same for each submodule of commit $2 that is filled, at the commit that it is recorded with. $1 is the work tree, $3 where the new parent is built.
# One whose commit is not there loses its .git; its files stay.
hide_in_submodules() {
    local mode oid path name key value dir common number=0
    GIT_DIR=$dir_of_parent g ls-tree -r -z "$2" >"$3.tree" || return 1
    while IFS=$'\t' read -rd '' mode path; do
        [ "${mode:0:6}" = 160000 ] && [ -e "$1/$path/.git" ] || continue
        oid=${mode##* }
        number=$((number + 1))
        if find_repository "$1/$path" && GIT_DIR=$dir g cat-file -e "$oid^{commit}" && build_repository "$oid" "$3.$number" "$oid" &&
            remember_index "$1/$path" "$3.$number" ''; then
            dir_of_parent=$dir hide_in_submodules "$1/$path" "$oid" "$3.$number" || return 1
            put_in_place "$1/$path" "$3.$number" || return 1
            name=
            while IFS=$'\n' read -rd '' key value; do
                [ "$value" = "$path" ] && [ -z "$name" ] && key=${key#submodule.} && name=${key%.path}
            done < <(g config --file "$1/.gitmodules" -z --get-regexp '^submodule\..*\.path$')
            if [ -n "$name" ]; then
                g config --file "$3/config" "submodule.$name.url" "$(g config --file "$1/.gitmodules" --get "submodule.$name.url")"
                g config --file "$3/config" "submodule.$name.active" true
            fi
            say submodule "$path"
        else
            cleared "$3.$number" && cleared "$1/$path/.git" || return 1
            say emptied "$path"
        fi
    done <"$3.tree"
    rm -f "$3.tree"
}

# Say what is in the repository that will not be there any more.
take_stock() {
    local ref path number logs=()
    GIT_DIR=$dir g for-each-ref --format='%(refname)' >"$STORE/list" || return 1
    while read -r ref; do say ref "$ref"; done <"$STORE/list"
    for path in "$dir"/*_HEAD; do [ -f "$path" ] && say pseudo "${path##*/}"; done
    for path in "$common/logs" "$dir/logs"; do [ -d "$path" ] && [[ " ${logs[*]} " != *" $path "* ]] && logs+=("$path"); done
    : >"$STORE/list"
    [ ${#logs[@]} = 0 ] || find "${logs[@]}" -type f -exec cat {} + >"$STORE/list" || return 1
    number=$(wc -l <"$STORE/list") && say reflog "$number" || return 1
    for path in "$common"/worktrees/*/gitdir; do
        [ -f "$path" ] && read -r path <"$path" && [ "$path" != "$root/.git" ] && say worktree "${path%/.git}"
    done
    GIT_DIR=$dir g cat-file --batch-all-objects --batch-check='%(objectname)' >"$STORE/list" && number=$(wc -l <"$STORE/list") && say objects "$number"
}

# A path as a pattern that find matches with that path alone.
literally() {
    local path=$1 letter
    for letter in '\' '*' '?' '['; do path=${path//"$letter"/"\\$letter"}; done
    printf %s "$path"
}

# What may hold objects of git, or names of them, on every file system of the container but the kernel's own: into $STORE/stores (folders of objects), packs
# (paths of packs and their indexes without the ending, in other folders) and bundles.
search() {
    local place kind path two hex='[0-9a-f]' loose longer kept=() places=()
    local -A seen
    while read -r _ place kind _; do
        case $kind in
            proc | sysfs | devpts | mqueue | cgroup | cgroup2 | devtmpfs | securityfs | debugfs | tracefs | bpf | pstore | configfs | fusectl | hugetlbfs) continue ;;
            binfmt_misc | nsfs | autofs | efivarfs | selinuxfs | rpc_pipefs) continue ;;
        esac
        printf -v place %b "$place"
        case $kind:$place/ in tmpfs:/dev/ | *:/proc/* | *:/sys/*) continue ;; esac
        places+=("$place")
    done </proc/mounts
    [[ " ${places[*]} " = *' / '* ]] || return 1
    for path in "$STORE" "$root/.git" "$dir" "$common"; do kept+=(-path "$(literally "$path")" -o); done
    printf -v loose "$hex%.0s" {1..38}
    printf -v longer "$hex%.0s" {1..62}
    find "${places[@]}" -xdev \( "${kept[@]}" -false \) -prune -o ! -type d \( -name '*.pack' -o -name '*.idx' -o -name '*.bundle' -o -name "$loose" \
        -o -name "$longer" -o -name alternates -path '*/objects/info/*' -o -name objects -type l \) -print0 >"$STORE/list" 2>"$STORE/why" || return 1
    sort -zu "$STORE/list" >"$STORE/found" || return 1
    for kind in links stores packs bundles; do : >"$STORE/$kind" || return 1; done
    while IFS= read -rd '' path; do
        case $path in
            */objects/info/alternates) kind=stores path=${path%/info/alternates} ;;
            */objects/pack/*) kind=stores path=${path%/pack/*} ;;
            */objects) kind=links ;; # looked at before what they lead to is gone
            *.bundle) kind=bundles ;;
            *.pack | *.idx) kind=packs path=${path%.*} ;;
            *)
                kind=stores two=${path%/*} path=${path%/*/*}
                [[ ${two##*/} = [0-9a-f][0-9a-f] ]] || continue
                ;;
        esac
        [ -n "${seen[$kind:$path]}" ] || printf '%s\0' "$path" >>"$STORE/$kind"
        seen[$kind:$path]=yes
    done <"$STORE/found"
    cat "$STORE/links" "$STORE/stores" >"$STORE/list" && mv "$STORE/list" "$STORE/stores" && rm -f "$STORE/links" "$STORE/found"
}

# By what history is known, into $STORE/known: the commits of the repository that goes, and its trees that are too large to be the same elsewhere by chance.
recognise() {
    GIT_DIR=$dir g cat-file --batch-all-objects --batch-check='%(objecttype) %(objectsize) %(objectname)' >"$STORE/list" &&
        sed -n -E 's/^(commit [0-9]+|tree (1[6-9][0-9]|[2-9][0-9][0-9]|[0-9]{4,})) //p' "$STORE/list" >"$STORE/names" &&
        sort -u "$STORE/names" >"$STORE/known" && [ -s "$STORE/known" ] &&
        GIT_DIR=$dir g ls-tree -r "$base" >"$STORE/list" && sed -n -E 's/^[0-9]+ blob ([0-9a-f]+)\t.*/\1/p' "$STORE/list" >"$STORE/names" &&
        sed -n 'p;n;n;n;n;n;n' "$STORE/names" >"$STORE/list" && head -n 200 "$STORE/list" >"$STORE/sample"
}

# An empty repository at $look, to look into what lies elsewhere whatever is written around it there.
look=$STORE/look.git
open_look() {
    rm -rf "$look"
    mkdir -p "$look/objects/info" "$look/objects/pack" "$look/refs" && echo 'ref: refs/heads/main' >"$look/HEAD" && : >"$STORE/indexed" && : >"$STORE/why" || return 1
    if [ ${#base} = 64 ]; then printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n' >"$look/config"; fi
}

# Let $look hold the pack at $1.pack and $1.idx, one of which may be missing. Without the pack, the names alone go into $STORE/indexed.
look_at_pack() {
    local number=$2 start
    if [ -f "$1.pack" ]; then
        IFS= read -rN 4 start <"$1.pack"
        [ "$start" = PACK ] || return 0 # of another program
        ln -s "$1.pack" "$look/objects/pack/pack-$number.pack" || return 1
        if [ -f "$1.idx" ]; then
            ln -s "$1.idx" "$look/objects/pack/pack-$number.idx"
        else
            g index-pack -o "$look/objects/pack/pack-$number.idx" "$1.pack" >/dev/null 2>>"$STORE/why"
            [ -f "$look/objects/pack/pack-$number.idx" ] || echo 'a pack that cannot be read' >>"$STORE/why"
        fi
    elif [ -f "$1.idx" ]; then
        IFS= read -rN 4 start <"$1.idx"
        [ "$start" = $'\377tOc' ] || return 0
        g show-index <"$1.idx" >"$STORE/list" 2>>"$STORE/why" || echo 'an index that cannot be read' >>"$STORE/why"
        cut -d ' ' -f 2 "$STORE/list" >>"$STORE/indexed"
    fi
}

# Into `found` whether what $look can see is of this history: "yes"; "no"; "undecided" where something cannot be read and the rest is not. True if that could
# be told at all.
decide() {
    local number wanted
    found=yes
    # git's own complaints about broken files there are no failure of ours: they go into $STORE/why.
    GIT_DIR=$look g cat-file --batch-all-objects --batch-check='%(objectname)' >"$STORE/list" 2>>"$STORE/why" || echo 'no list' >>"$STORE/why"
    cat "$STORE/list" "$STORE/indexed" >"$STORE/names" && sort -u "$STORE/names" >"$STORE/list" && comm -12 "$STORE/known" "$STORE/list" >"$STORE/names" || return 1
    [ ! -s "$STORE/names" ] || return 0
    # What builds on it: a commit that has one of its commits as a parent.
    GIT_DIR=$look g cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' >"$STORE/list" 2>>"$STORE/why"
    sed -n 's/^commit //p' "$STORE/list" >"$STORE/names" || return 1
    GIT_DIR=$look g cat-file --batch <"$STORE/names" >"$STORE/list" 2>>"$STORE/why"
    sed -n -E 's/^parent ([0-9a-f]+)$/\1/p' "$STORE/list" >"$STORE/names" && sort -u "$STORE/names" >"$STORE/list" &&
        comm -12 "$STORE/known" "$STORE/list" >"$STORE/names" || return 1
    [ ! -s "$STORE/names" ] || return 0
    # Another history of the same files.
    GIT_DIR=$look g cat-file --batch-check='%(objecttype)' <"$STORE/sample" >"$STORE/list" 2>>"$STORE/why"
    sed -n '/^blob$/p' "$STORE/list" >"$STORE/names" && number=$(wc -l <"$STORE/names") && wanted=$(wc -l <"$STORE/sample") || return 1
    [ "$wanted" -gt 0 ] && [ $((number * 2)) -gt "$wanted" ] && return 0
    found=no
    [ ! -s "$STORE/why" ] || found=undecided
}

# Whether $1 (a file or folder) is of the base commit itself, unchanged: a test's data, say. It holds nothing that is later.
of_base() {
    case $1 in "$root"/*) ;; *) return 1 ;; esac
    local path=":(literal)${1#"$root"/}"
    (
        export GIT_DIR=$root/.git GIT_WORK_TREE=$root GIT_INDEX_FILE=$STORE/base.index
        cd "$root" && g read-tree "$base" && g ls-files -z -- "$path" >"$STORE/list" && [ -s "$STORE/list" ] &&
            g ls-files --others -z -- "$path" >"$STORE/list" && [ ! -s "$STORE/list" ] &&
            g diff --name-only -z --no-ext-diff --no-textconv "$base" -- "$path" >"$STORE/list" && [ ! -s "$STORE/list" ]
    )
}

# Say what was found of a path ($1), and remove the paths that hold it (the others) where it is of this history.
act_on() {
    local path said=$1
    shift
    if [ "$found" = undecided ]; then say undecided "$said"; fi
    [ "$found" = yes ] || return 0
    for path in "$@"; do cleared "$path" || fail left "$path" || return; done
    say copy "$said"
}

# Whatever else in the container holds objects of the same history goes. Decided by the objects, not by what the repository around them says of itself.
remove_copies() {
    local path folder found number line parts
    while IFS= read -rd '' path; do
        [ -d "$path" ] && ! of_base "$path" || continue
        open_look && folder=$(realpath -e "$path") && echo "$folder" >"$look/objects/info/alternates" || return 1
        number=0
        for line in "$path"/pack/*.pack "$path"/pack/*.idx; do
            line=${line%.*} number=$((number + 1))
            [ -e "$line.pack" ] && [ -e "$line.idx" ] || look_at_pack "$line" $number || return 1
        done
        decide || return 1
        folder=${path%/objects}
        if [ "$folder" = "$path" ]; then # objects in a folder of another name, which may hold anything beside them
            parts=()
            for line in "$path"/[0-9a-f][0-9a-f]; do [ -d "$line" ] && parts+=("$line"); done
            act_on "$path" "${parts[@]}" || return
        elif case "$root/" in "$folder/"*) true ;; *) false ;; esac; then # beside the folder itself
            act_on "$path" "$path" || return
        elif [ "${folder##*/}" = .git ] || [ -e "$folder/HEAD" ] || [ -L "$folder/HEAD" ] || [ -d "$folder/refs" ] || [ -f "$folder/packed-refs" ]; then
            act_on "$folder" "$folder" || return
        else
            act_on "$path" "$path" || return
        fi
    done <"$STORE/stores"
    while IFS= read -rd '' path; do
        parts=()
        for line in "$path".*; do case ${line#"$path."} in pack | idx | rev | bitmap | mtimes | keep | promisor) parts+=("$line") ;; esac; done
        number=0
        for line in "${parts[@]}"; do of_base "$line" && number=$((number + 1)); done
        [ $number != ${#parts[@]} ] || continue
        open_look && look_at_pack "$path" 1 && decide || return 1
        [ -e "$path.pack" ] && line=$path.pack || line=$path.idx
        act_on "$line" "${parts[@]}" || return
    done <"$STORE/packs"
    while IFS= read -rd '' path; do
        [ -f "$path" ] && read -r line <"$path" && [[ $line = '# v'[0-9]' git bundle' ]] && ! of_base "$path" || continue
        open_look || return 1
        while read -r line && [ -n "$line" ]; do
            line=${line#-}
            case $line in [0-9a-f]*) echo "${line%% *}" >>"$STORE/indexed" ;; esac
        done <"$path"
        GIT_DIR=$look g bundle unbundle "$path" >/dev/null 2>>"$STORE/why" || echo 'a bundle that cannot be read' >>"$STORE/why"
        decide || return 1
        act_on "$path" "$path" || return
    done <"$STORE/bundles"
}

# The folder as the image has it, as a tree of its own: what a patch is the difference to. Bytes stay bytes, whatever attributes say.
remember_start() {
    local start=$START tree names
    mkdir -p "$start/objects/info" "$start/objects/pack" "$start/refs" "$start/info" "$STORE/objects/pack" "$STORE/objects/info"
    cp -l "$1/.git/objects/pack/"* "$STORE/objects/pack/" || cp "$1/.git/objects/pack/"* "$STORE/objects/pack/" || return 1
    echo "$STORE/objects" >"$start/objects/info/alternates"
    cp "$STORE/config" "$start/config" && cp "$1/.git/HEAD" "$start/" || return 1
    if [ -f "$1/.git/info/exclude" ]; then cp "$1/.git/info/exclude" "$start/info/" || return 1; fi
    echo '* -text -ident -filter -working-tree-encoding !diff' >"$start/info/attributes"
    export GIT_DIR=$start GIT_WORK_TREE=$1
    cd "$1" || return 1
    g read-tree "$2" && g add --update --ignore-errors . || return 1
    g ls-files --others --exclude-standard -z >"$STORE/list" && sed -z '/\/$/d' "$STORE/list" >"$STORE/untracked" || return 1
    g update-index --add -z --stdin <"$STORE/untracked" || return 1
    mapfile -d '' names <"$STORE/untracked"
    say untracked ${#names[@]}
    g ls-files --others --ignored --exclude-standard -z >"$STORE/list" && sort -z "$STORE/list" >"$STORE/ignored" || return 1
    tree=$(g write-tree) || return 1
    say start "$tree"
    rm -f "$STORE/list" "$STORE/untracked"
    unset GIT_DIR GIT_WORK_TREE
}

# Let git work in $1 for user $2 also where the folder is another's. Variables say so as well, which versions of git before 2.38 do not listen to.
trust() {
    local name=${2%%:*} user=0 login number owner
    case $name in
        '' | root) ;;
        *[!0-9]*) while IFS=: read -r login _ number _; do [ "$login" = "$name" ] && user=$number; done </etc/passwd ;;
        *) user=$name ;;
    esac
    owner=$(stat -c %u "$1")
    if [ "$owner" != "$user" ]; then
        (unset GIT_CONFIG_NOSYSTEM GIT_CONFIG_SYSTEM && git config --system --add safe.directory "$1")
    fi
}

hide() {
    local root=$1 base=$2 builders=$3 user=$4 dir common head start parents tree old path lacks new=$STORE/repository.git
    rm -rf "$STORE"
    mkdir -p "$STORE"
    lacks=$(lacking)
    [ "$lacks" = nothing ] || fail lacks "$lacks" || return
    [ -d "$root" ] && [ ! -L "$root" ] && cd "$root" && find_repository "$root" || fail norepository "$root" || return
    GIT_DIR=$dir g cat-file -e "$base^{commit}" || fail nobase "$base" || return
    head=$(GIT_DIR=$dir g rev-parse --verify --quiet 'HEAD^{commit}') || fail nohead "$(cat "$dir/HEAD")" || return
    tree=$(GIT_DIR=$dir g rev-parse "$head^{tree}") && old=$(GIT_DIR=$dir g rev-parse "$base^{tree}") || fail broken "a commit without a tree" || return
    start=$base
    if [ "$tree" != "$old" ]; then
        parents=$(GIT_DIR=$dir g show -s --format=%P "$head")
        [ "$parents" = "$base" ] && [[ " $builders " = *" $(GIT_DIR=$dir g show -s --format=%ce "$head") "* ]] || fail elsewhere "$head" || return
        # What the image's builder changed stays, in a commit that says nothing more.
        start=$(
            export GIT_DIR=$dir GIT_AUTHOR_NAME=Setup GIT_AUTHOR_EMAIL=setup@example.invalid GIT_COMMITTER_NAME=Setup GIT_COMMITTER_EMAIL=setup@example.invalid
            GIT_AUTHOR_DATE=$(g show -s --format=@%ct "$base")
            export GIT_AUTHOR_DATE GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
            g commit-tree -p "$base" -m 'Environment setup' "$tree"
        ) || fail broken "commit-tree" || return
        GIT_DIR=$dir g diff-tree -r -z --name-only --no-renames "$base" "$start" >"$STORE/list" || fail broken "diff-tree" || return
        while IFS= read -rd '' path; do say setup "$path"; done <"$STORE/list"
    fi
    take_stock || fail broken "the repository cannot be read" || return
    say head "$start"
    build_repository "$start" "$new" "$base" || fail broken "$(<"$new/why")" || return
    cp "$new/config" "$STORE/config" && borrowed >"$STORE/borrowed" || fail broken "what it borrows cannot be listed" || return
    remember_index "$root" "$new" "$tree" || fail broken "the index cannot be read" || return
    search || fail broken "not every folder of the container could be searched for copies: $(<"$STORE/why")" || return
    if [ -s "$STORE/stores" ] || [ -s "$STORE/packs" ] || [ -s "$STORE/bundles" ]; then
        recognise || fail broken "the objects of the repository cannot be listed" || return
    fi
    dir_of_parent=$dir hide_in_submodules "$root" "$start" "$new" || fail broken "its submodules cannot be replaced" || return
    put_in_place "$root" "$new" || fail broken "the old .git cannot be replaced" || return
    for path in "$dir" "$common"; do
        case $path in "$root/.git" | "$root/.git/"*) continue ;; esac
        cleared "$path" || fail left "$path" || return
        say copy "$path"
    done
    while IFS= read -r path; do
        [ "${path##*/}" = objects ] && [ -f "${path%/objects}/HEAD" ] && path=${path%/objects}
        cleared "$path" || fail left "$path" || return
        say copy "$path"
    done <"$STORE/borrowed"
    remove_copies || fail broken "copies of the history cannot be told from other repositories" || return
    rm -rf "$look" "$STORE"/{borrowed,stores,packs,bundles,known,sample,names,indexed,why,list,base.index}
    remember_start "$root" "$start" || fail broken "the folder cannot be read" || return
    trust "$root" "$user" || fail broken "git cannot be told to work in a folder of another user's" || return
    verify "$root" "$start"
}

# What must be true now, asked of the folder itself.
verify() {
    local root=$1 start=$2 name number
    export GIT_DIR=$root/.git
    name=$(g rev-parse HEAD) && [ "$name" = "$start" ] || fail left "HEAD" || return
    g for-each-ref --format='%(refname)' >"$STORE/list" || fail broken "the new references cannot be listed" || return
    while read -r ref; do say kept "$ref"; done <"$STORE/list"
    find "$root/.git" -type f -printf '%P\0' >"$STORE/list" || fail broken "the new .git cannot be read" || return
    while IFS= read -rd '' name; do
        case $name in
            objects/pack/pack-* | HEAD | config | index | packed-refs | shallow | refs/heads/main | info/exclude | info/attributes | info/sparse-checkout) ;;
            objects/*) say loose "$name" ;;
            *) say left "$name" ;;
        esac
    done <"$STORE/list"
    g cat-file --batch-all-objects --batch-check='%(objectname)' >"$STORE/list" && number=$(wc -l <"$STORE/list") || fail broken "the new objects cannot be listed" || return
    say held "$number"
    g rev-list --objects --all --indexed-objects >"$STORE/list" && number=$(wc -l <"$STORE/list") || fail broken "the new commits cannot be listed" || return
    say reached "$number"
    rm -f "$STORE/list"
    unset GIT_DIR
}

hide "$@"
return $exit_code
