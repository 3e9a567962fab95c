#!/bin/bash
# Includes go down only: who may include whom, and how it is written. check-layers.sh [TREE]
. "$(dirname "$0")/tap.sh"
cd "${1:-${HANDSFS_SRCDIR:-$(dirname "$0")/..}}" || exit 99

folders='sandbox hand backends exec fs mount'
kinds='local docker k8s' # a backend's files are named after it
libraries='uv fuse curl jansson check wslay yaml openssl pcre2'

# Each include of the tree as "FILE:LINE INCLUDED", with its quotes or brackets.
# shellcheck disable=SC2086 # a list of folders
all_includes=$(
    find $folders tests -name '*.[ch]' 2>/dev/null | sort | xargs -r awk '
        match($0, /^[ \t]*#[ \t]*include[ \t]*/) {
            what = substr($0, RLENGTH + 1)
            sub(/[ \t]*(\/[*\/].*)?$/, "", what)
            print FILENAME ":" FNR " " what
        }' /dev/null
)

# includes FOLDER...: those of the files in these folders.
includes()
{
    local IFS='|'
    grep -E "^($*)/" <<<"$all_includes"
}

# nothing: succeeds on empty input, else shows it.
nothing()
{
    local found
    found=$(cat)
    [ -z "$found" ] || { echo "$found"; return 1; }
}

# only FOLDER PATTERN...: own files that FOLDER includes match one of the patterns.
only()
{
    local folder=$1 pattern
    shift
    pattern=$(printf '|%s' "$@")
    includes "$folder" | grep ' "' | grep -vE " \"(${pattern#|})\"$" | nothing
}

# libraries_of FOLDER NAME...: of the libraries, FOLDER includes only those named.
libraries_of()
{
    local folder=$1 name others=
    shift
    for name in $libraries; do
        case " $* " in *" $name "*) ;; *) others+="|$name" ;; esac
    done
    includes "$folder" | grep -E " <(${others#|})[a-z0-9_]*[./]" | nothing
}

from_the_top()
{
    # shellcheck disable=SC2086 # a list of folders
    {
        includes $folders tests | grep ' "' |
            grep -vE " \"((${folders// /|}|tests)/[^\"]*|config\.h)\"$"
        includes $folders tests | grep -E " <(${folders// /|}|tests)/"
    } | nothing
}

they_exist()
{
    local at what
    # shellcheck disable=SC2086
    includes $folders tests | while read -r at what; do
        case $what in
        '"config.h"' | '<'*) ;;
        *) [ -f "$(tr -d '"' <<<"$what")" ] || echo "$at $what" ;;
        esac
    done | nothing
}

kind_of()
{
    local kind
    for kind in $kinds; do
        case $1 in backends/"$kind"*) echo "$kind" ;; esac
    done
}

no_other_backend()
{
    local at what theirs
    includes backends | tr -d '"' | while read -r at what; do
        theirs=$(kind_of "$what")
        case $at in backends/registry*) continue ;; esac
        [ -z "$theirs" ] || [ "$theirs" = "$(kind_of "$at")" ] || echo "$at $what"
    done | nothing
}

no_backend_by_name()
{
    includes hand exec fs | grep -E " \"backends/(${kinds// /|})" | nothing
}

it_holds 'sandbox/ includes sandbox/' only sandbox 'sandbox/[^"]*'
it_holds 'hand/ includes hand/ and sandbox/' only hand '(hand|sandbox)/[^"]*'
it_holds 'backends/ includes backends/, sandbox/ and what the hand shares' \
    only backends '(backends|sandbox)/[^"]*' 'hand/(wire|files)\.h' 'config\.h'
it_holds 'exec/ includes exec/, backends/, sandbox/ and the wire' \
    only exec '(exec|backends|sandbox)/[^"]*' 'hand/wire\.h' 'config\.h'
it_holds 'fs/ includes fs/, backends/, sandbox/ and what the hand shares' \
    only fs '(fs|backends|sandbox)/[^"]*' 'hand/(wire|files)\.h' 'config\.h'
it_holds 'no backend includes another, and only the registry includes them all' no_other_backend
it_holds 'no backend is included by name above backends/, except by mount/' no_backend_by_name
it_holds 'sandbox/ needs the C library alone' libraries_of sandbox
it_holds 'hand/ needs the C library alone' libraries_of hand
it_holds 'backends/ knows no FUSE' libraries_of backends uv curl jansson wslay yaml openssl
it_holds 'exec/ knows neither FUSE nor HTTP' libraries_of exec uv jansson pcre2
it_holds 'fs/ knows no HTTP' libraries_of fs uv fuse jansson
it_holds 'includes of our own files are written from the top' from_the_top
it_holds 'every file of ours that is included exists' they_exist
tap_end
