#!/bin/bash
# What the shells complete: verbs, options, their values, sessions.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"

needs local 'the local backend does not work here' handsfs doctor
story_begin
completions=$HANDSFS_SRCDIR/contrib/completions
mkdir "$T/bin" "$T/dir"
ln -s "$HANDSFS" "$T/bin/handsfs"
export PATH=$T/bin:$PATH
handsfs provision "$S" >/dev/null

# shellcheck source=contrib/completions/bash/handsfs
. "$completions/bash/handsfs"

# bash_offers LINE: what the completion of bash has for the line's last word ("" where it ends in a blank).
bash_offers()
{
    local COMP_WORDS COMP_CWORD COMPREPLY
    read -r -a COMP_WORDS <<<"$1"
    [[ $1 != *' ' ]] || COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _handsfs handsfs "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}"
}

fish_offers() { HOME=$T fish --no-config -c "source '$completions/fish/handsfs.fish'; complete -C '$1'" | cut -f1; }

# offers LINE WORD...: these words are among the offers of the shell $shell.
offers()
{
    local line=$1 word got
    shift
    got=$("${shell}_offers" "$line")
    for word; do
        grep -qxF -e "$word" <<<"$got" || { printf 'no %s in: %s\n' "$word" "${got//$'\n'/ }"; return 1; }
    done
}

# offers_only LINE WORDS: these, and nothing else.
offers_only()
{
    local got
    got=$("${shell}_offers" "$1" | sort | tr '\n' ' ')
    [ "${got% }" = "$2" ] || { printf 'wanted: %s\ngot:    %s\n' "$2" "$got"; return 1; }
}

# Each verb, and for each one all of its options, as the program's help has them.
offers_all()
{
    local verb option
    for verb in $(handsfs --help | sed -n '/^Verbs/,/^$/s/^  \([a-z-]*\) .*/\1/p'); do
        offers 'handsfs ' "$verb" || return 1
        for option in $(handsfs "$verb" --help | grep -oE '^  (-., |    )--[a-z-]+' | grep -oE -- '--.*'); do
            offers "handsfs $verb -" "$option" || return 1
        done
    done
}

for shell in bash fish; do
    if [ $shell != bash ] && ! command -v $shell >/dev/null; then
        it_is_skipped "$shell completes" "$shell is not installed"
        continue
    fi
    it_holds "$shell completes every verb, and every option of it" offers_all
    it_holds "$shell completes a verb that has begun" offers_only 'handsfs provis' provision
    it_holds "$shell completes sessions" offers_only 'handsfs exec sto' "$S"
    it_holds "$shell completes sessions of the backend that is said" \
        offers_only 'handsfs destroy --backend local ' "$S"
    it_holds "$shell completes backends" offers_only 'handsfs mount --backend ' 'docker k8s local'
    it_holds "$shell completes the values of an option" offers_only 'handsfs mount s1 --network ' 'full none'
done
shell=bash
it_holds 'bash completes a value behind =, which it cuts into words' \
    offers_only 'handsfs mount s1 --network = f' full
it_holds 'bash completes directories to mount on' offers "handsfs mount s1 $T/" "$T/dir" "$T/m"
it_holds 'bash leaves a command of the sandbox alone' offers_only 'handsfs exec s1 -- l' ''
it_holds 'bash completes nothing where nothing is to be said' offers_only 'handsfs ls ' ''
it_holds 'bash completes behind options and their values' \
    offers_only "handsfs exec --timeout 5s --cwd src sto" "$S"

if [ -c /dev/fuse ] && mkdir "$M.jobs" && handsfs mount "$S" "$M.jobs" >/dev/null; then
    job=$(handsfs exec --detach "$S" -- true)
    for shell in bash fish; do
        if [ $shell = bash ] || command -v $shell >/dev/null; then
            it_holds "$shell completes jobs to wait for" offers_only "handsfs wait $S " "$job"
        fi
    done
    handsfs umount "$M.jobs"
fi
shell=bash

if command -v zsh >/dev/null; then
    it_holds 'zsh can read its completion' zsh -n "$completions/zsh/_handsfs"
    it_holds 'zsh makes of each option one that its _arguments takes' zsh -fc "
        compdef() { :; }; _call_program() { shift; eval \"\$@\"; }; functions[_handsfs_file]=\$(<'$completions/zsh/_handsfs')
        _arguments() { :; }; _handsfs_file >/dev/null 2>&1
        [[ \$(_handsfs_options mount) == *'--network=[what commands inside can reach (default\\: none)]:value:(none full)'* ]] &&
        [[ \$(_handsfs_options mount) == *'--foreground[stay in the foreground'* ]]"
else
    it_is_skipped 'zsh completes' 'zsh is not installed'
fi
tap_end
