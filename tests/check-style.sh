#!/bin/bash
# What of the house style a program can tell. check-style.sh [TREE]
. "$(dirname "$0")/tap.sh"
cd "${1:-${HANDSFS_SRCDIR:-$(dirname "$0")/..}}" || exit 99
: "${CTAGS:=ctags}"

max_file=800
max_function=80

mapfile -t sources < <(find sandbox hand backends exec fs mount tests contrib \
    -name '*.[ch]' 2>/dev/null | sort)
mapfile -t texts < <(
    find sandbox hand backends exec fs mount tests contrib m4 -type f \
        \( -name '*.[ch]' -o -name '*.sh' -o -name '*.am' -o -name '*.m4' -o -name '*.md' \
        -o -name check -o -name try -o -name install-packages -o -name debian-packages \) \
        2>/dev/null | sort
    find . -maxdepth 1 -type f \( -name '*.ac' -o -name 'Makefile.am' -o -name bootstrap \
        -o -name '.editorconfig' -o -name '.clang-format' -o -name 'README*' -o -name HACKING \) | sort
)

# nothing: succeeds on empty input, else shows it.
nothing()
{
    local found
    found=$(cat)
    [ -z "$found" ] || { echo "$found"; return 1; }
}

# Each source line as "FILE:LINE:TEXT", comments and the insides of strings blanked.
code=$(
    perl -e '
        for my $file (@ARGV) {
            open my $in, "<", $file or die "$file: $!";
            local $/;
            my $text = <$in>;
            $text =~ s{("(?:\\.|[^"\\\n])*")|(\x27(?:\\.|[^\x27\\\n])*\x27)|(//[^\n]*|/\*.*?\*/)}{
                my $c = $3; defined $1 ? q("") : defined $2 ? q(0) : $c =~ s/[^\n]+/ /gr
            }gse;
            my $n = 0;
            print "$file:", ++$n, ":$_\n" for split /\n/, $text, -1;
        }' "${sources[@]}"
)

short_files()
{
    wc -l "${sources[@]}" /dev/null |
        awk -v max="$max_file" '$1 > max && $2 != "total" { print $2 ": " $1 " lines" }' | nothing
}

short_functions()
{
    "$CTAGS" --version 2>/dev/null | grep -q 'Universal Ctags' ||
        { echo 'universal-ctags is needed'; return 1; }
    {
        "$CTAGS" --options=NONE --quiet=yes --sort=no --languages=C --langmap=C:.c.h --kinds-C=f \
            --fields=+ne -f - "${sources[@]}" |
            awk -F '\t' -v max="$max_function" '{
                start = end = 0
                for (i = 4; i <= NF; i++) {
                    if ($i ~ /^line:/) start = substr($i, 6)
                    if ($i ~ /^end:/) end = substr($i, 5)
                }
                if (end - start + 1 > max)
                    print $2 ":" start ": " $1 " has " end - start + 1 " lines"
            }'
        awk -v max="$max_function" '
            /^START_TEST\(/ { start = FNR }
            /^END_TEST/ && FNR - start + 1 > max {
                print FILENAME ":" start ": a test of " FNR - start + 1 " lines"
            }' "${sources[@]}"
    } | nothing
}

# A declaration with a cleanup attribute has one variable and an initialiser.
born_initialised()
{
    perl -ne '
        next unless /^([^:]+:\d+):\s+(?:static\s+)?(?:cleanup_[a-z0-9_]+|json_auto_t|_cleanup_\w*)\s+[\w*]/;
        my ($at, $rest) = ($1, substr $_, length($1) + 1);
        1 while $rest =~ s/\([^()]*\)|\{[^{}]*\}|\[[^][]*\]//g;
        print "$at: $rest" if $rest !~ /=/ || $rest =~ /,\s*[\w*]+\s*[=;,]/;
    ' <<<"$code" | nothing
}

no_banned_function()
{
    grep -vE ':[[:space:]]*#' <<<"$code" |
        grep -E '(^|[^A-Za-z0-9_.>])(strcpy|strcat|sprintf|vsprintf|strtok|gets|alloca|system|popen|tmpnam|mktemp)[[:space:]]*\(' |
        nothing
}

no_typedefd_struct()
{
    grep -E ':[[:space:]]*typedef[[:space:]]+(struct|union)\b' <<<"$code" | nothing
}

include_guards()
{
    local file guard text
    for file in "${sources[@]}"; do
        case $file in *.h) ;; *) continue ;; esac
        guard=${file^^}
        guard=HANDSFS_${guard//[\/.-]/_}
        text=$(<"$file")
        case $text in
        *"#ifndef $guard"$'\n'"#define $guard"$'\n'*) ;;
        *) echo "$file: not guarded by $guard" ;;
        esac
    done | nothing
}

white_space()
{
    {
        grep -nE '[[:space:]]+$' "${texts[@]}" /dev/null
        printf '%s\n' "${texts[@]}" | grep -v '\.am$' | xargs grep -nP '\t' /dev/null
        perl -e 'for (@ARGV) {
            open my $in, "<", $_ or next;
            local $/;
            my $text = <$in>;
            print "$_: no newline at the end\n" if length $text && $text !~ /\n\z/;
        }' "${texts[@]}"
    } | nothing
}

nothing_left_to_do()
{
    # The words in two parts, so that this line is not found.
    grep -nwE 'TO''DO|FIX''ME|XX''X' "${texts[@]}" /dev/null | grep -vE '^(\./)?README' | nothing
}

it_holds "a .c or .h file has at most $max_file lines" short_files
it_holds "a function has at most $max_function lines" short_functions
it_holds 'a cleanup variable is initialised where it is declared, one a line' born_initialised
it_holds 'functions without a bound and such are not called' no_banned_function
it_holds 'a struct is called a struct' no_typedefd_struct
it_holds 'a header is guarded by a name made from its path' include_guards
it_holds 'there are no tabs outside make files, and no trailing white space' white_space
it_holds 'nothing is marked as left to do' nothing_left_to_do
tap_end
