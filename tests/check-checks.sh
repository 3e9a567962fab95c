#!/bin/bash
# The checks see what they are there for: each is given a small tree with one thing wrong.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tap.sh"

wrong=
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# sees SCRIPT SENTENCE FILE: with FILE's text from stdin in the tree, SCRIPT fails at SENTENCE alone.
sees()
{
    local script=$1 sentence=$2 file=$3 failed
    rm -rf "${tree:?}"/*
    mkdir -p "$tree"/{sandbox,hand,backends,exec,fs,mount,tests,contrib}
    local header
    for header in sandbox/error.h hand/wire.h hand/files.h hand/child.h exec/gateway.h fs/node.h \
        backends/link.h backends/local.h backends/docker.h; do
        printf '#ifndef %s\n#define %s\n#endif\n' \
            "HANDSFS_$(tr 'a-z/.' 'A-Z__' <<<"$header")"{,} >"$tree/$header"
    done
    printf '%b' "$wrong" >"$tree/$file"
    failed=$(bash "$here/$script" "$tree" | sed -n 's/^not ok [0-9]* - //p')
    [ "$failed" = "$sentence" ] || { echo "seen: ${failed:-nothing}"; return 1; }
}

# layers SENTENCE FILE LINE: the include in the file is found wrong.
layers()
{
    wrong="$3\n" it_holds "seen in $2: $3" sees check-layers.sh "$1" "$2"
}

style()
{
    wrong=$3 it_holds "seen: not true that $1" sees check-style.sh "$1" "$2"
}

fine()
{
    wrong=$3 it_holds "not taken for wrong: $1" sees "$2" '' fs/a.c
}

sandbox='sandbox/ includes sandbox/'
hand='hand/ includes hand/ and sandbox/'
backends='backends/ includes backends/, sandbox/ and what the hand shares'
exec='exec/ includes exec/, backends/, sandbox/ and the wire'
fs='fs/ includes fs/, backends/, sandbox/ and what the hand shares'
layers "$sandbox" sandbox/a.c '#include "hand/wire.h"'
layers "$hand" hand/a.c '#include "backends/link.h"'
layers "$hand" hand/a.c '#include "config.h"'
layers "$backends" backends/a.c '#include "hand/child.h"'
layers "$backends" backends/a.c '# include "fs/node.h" /* why */'
layers "$exec" exec/a.c '#include "fs/node.h"'
layers "$exec" exec/a.c '#include "hand/files.h"'
layers "$fs" fs/a.c '#include "exec/gateway.h"'
layers 'no backend includes another, and only the registry includes them all' \
    backends/local_files.c '#include "backends/docker.h"'
layers 'no backend includes another, and only the registry includes them all' \
    backends/link.c '#include "backends/local.h"'
layers 'no backend is included by name above backends/, except by mount/' \
    fs/a.c '#include "backends/docker.h"'
layers 'sandbox/ needs the C library alone' sandbox/a.c '#include <uv.h>'
layers 'hand/ needs the C library alone' hand/a.c '#include <jansson.h>'
layers 'backends/ knows no FUSE' backends/a.c '#include <fuse_lowlevel.h>'
layers 'exec/ knows neither FUSE nor HTTP' exec/a.c '#include <curl/curl.h>'
layers 'fs/ knows no HTTP' fs/a.c '#include <curl/curl.h>'
layers 'includes of our own files are written from the top' mount/a.c '#include <fs/node.h>'
layers 'every file of ours that is included exists' mount/a.c '#include "fs/gone.h"'
fine 'the includes of fs/' check-layers.sh \
    '#include "config.h"\n#include "hand/files.h"\n#include "backends/link.h"\n#include <uv.h>\n'

lines() { printf 'x();\\n%.0s' $(seq "$1"); }
style 'a .c or .h file has at most 800 lines' fs/a.c "$(printf '\\n%.0s' $(seq 801))"
style 'a function has at most 80 lines' fs/a.c "int f(void)\n{\n$(lines 78)}\n"
style 'a cleanup variable is initialised where it is declared, one a line' fs/a.c \
    'int f(void)\n{\n    cleanup_free char *p;\n}\n'
style 'a cleanup variable is initialised where it is declared, one a line' fs/a.c \
    'int f(void)\n{\n    cleanup_free char *p = g(1, 2), *q;\n}\n'
style 'functions without a bound and such are not called' fs/a.c 'int f(void)\n{\n    strcpy(a, b);\n}\n'
style 'functions without a bound and such are not called' fs/a.c 'int f(void)\n{\n    return !system (a);\n}\n'
style 'a struct is called a struct' fs/a.c 'typedef struct node node_t;\n'
style 'a header is guarded by a name made from its path' fs/a.h 'int f(void);\n'
style 'there are no tabs outside make files, and no trailing white space' fs/a.c 'int f(void); \n'
style 'there are no tabs outside make files, and no trailing white space' fs/a.c '\tint f(void);\n'
style 'there are no tabs outside make files, and no trailing white space' fs/a.c 'int f(void);'
style 'nothing is marked as left to do' fs/a.c '/* TO''DO: think */\n'
fine 'words in comments and strings' check-style.sh \
    'int f(void)\n{\n    g("strcpy(a)"); /* never\n    system(x) */\n    cleanup_free char *p = g(1, 2);\n}\n'
fine 'a function of 80 lines' check-style.sh "int f(void)\n{\n$(lines 77)}\n"
tap_end
