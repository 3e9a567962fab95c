/* What bash runs around a command of a persistent shell.
 *
 * shell_boot is all that stands in the argument of `bash -c`. It reads shell_prelude from descriptor 250
 * (COMMAND_TEXT_FD), which reads the command's text and what the last call has left, runs the text by one
 * eval, on line 1 and outside of any function, as `bash -c TEXT` would, and writes what is left to
 * descriptor 251 (COMMAND_STATE_FD). While the text runs both descriptors are closed: bash keeps a copy of
 * 251 (the first free one from 10 up) that no child inherits.
 *
 * The text may shadow anything by functions and aliases and set any option and any trap. Hence:
 *  - Whatever is executed after it was parsed before it, so no alias applies. The one exception is the
 *    trap's string; its word is quoted. Keywords ([[, case, while) are no commands: no function shadows them.
 *  - Functions are passed over by `builtin`. A function of that name is never carried, and saving begins in
 *    POSIX mode, which an assignment turns on: there `unset`, `trap`, `set` and `exit` come before functions.
 *    A read-only function `builtin` cannot be removed; then nothing is saved.
 *  - No variable of ours exists while the text runs: scratch values are positional parameters. REPLY is
 *    removed before the exported variables, the last thing to be restored, come back.
 *  - Nothing is opened by a path and nothing is executed but bash itself: no file system, no coreutils and
 *    no PATH is needed. Standard error is closed meanwhile, so that neither xtrace nor traps say much.
 *  - What is saved is chunks that end in a NUL, so that one which does not parse costs nothing else: set
 *    options, shopt options, directory and newline, umask, aliases, one chunk a function, and in the last
 *    one the exported variables with a function named `declare`, which would shadow them; it also ends
 *    the loop that reads them, so that REPLY stays. "end" closes it.
 *
 * An EXIT trap of the text's own that comes to run, `exec`, and a signal leave nothing saved. */
#include "hand/shell.h"

const char shell_boot[] =
    "builtin read -r -d \"\" -u 250; builtin eval \"$REPLY\"; "
    "{ builtin set --; builtin eval \"$BASH_EXECUTION_STRING\"; } 251>&- 250<&-; "
    "{ __handsfs_save \"$?\" \"$SHELLOPTS:\" \"$BASHOPTS:\"; } >&251 2>&-";

const char shell_prelude[] =
    /* Saves: $1 is the exit status, $2 and $3 the options as they are. */
    "__handsfs_save() {\n"
    "    case :$2 in *:posix:*) ;; *) POSIXLY_CORRECT=y ;; esac\n"
    "    trap - DEBUG ERR RETURN EXIT\n"
    "    set +aefkuvxET\n"
    "    if unset -f builtin && builtin unset -v BASH_EXECUTION_STRING; then\n"
    "        case :$2 in *:posix:*) ;; *) set +o posix ;; esac\n"
    "        builtin printf '\\0handsfs 1\\0%s\\0%s\\0' \"$2\" \"$3\" &&\n"
    "            builtin pwd && builtin printf '\\0' &&\n"
    "            builtin umask -p && builtin printf '\\0' &&\n"
    "            builtin alias -p && builtin printf '\\0' &&\n"
    "            __handsfs_save_functions \"$(builtin declare -F)\"$'\\n' &&\n"
    "            builtin printf 'builtin unset -v REPLY\\n' &&\n"
    "            builtin declare -xp &&\n"
    "            { builtin declare -f -- declare; builtin printf 'builtin break\\n\\0end\\0'; }\n"
    "        builtin exit \"$1\"\n"
    "    fi\n"
    "    exit \"$1\"\n"
    "}\n"
    /* $1 is a list as of declare -F. */
    "__handsfs_save_functions() {\n"
    "    while [[ $1 == *' '* ]]; do\n"
    "        builtin set -- \"${1#*$'\\n'}\" \"${1%%$'\\n'*}\"\n"
    "        builtin set -- \"$1\" \"${2##* }\" \"${2#declare }\"\n"
    "        case $2 in\n"
    "        __handsfs_* | declare) ;;\n"
    "        *)\n"
    "            builtin declare -f -- \"$2\" || builtin return 1\n"
    "            case $3 in\n"
    "            '-f '*) ;;\n"
    "            *) builtin printf 'builtin declare %s -- %q\\n' \"${3%% *}\" \"$2\" ;;\n"
    "            esac\n"
    "            builtin printf '\\0' || builtin return 1\n"
    "            ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    /* The trap: where `exit` was called in a function, descriptor 251 is not back yet. */
    "__handsfs_exit() {\n"
    "    if [[ -p /dev/fd/251 ]]; then\n"
    "        __handsfs_save \"$1\" \"$SHELLOPTS:\" \"$BASHOPTS:\" >&251\n"
    "    else\n"
    "        __handsfs_save \"$1\" \"$SHELLOPTS:\" \"$BASHOPTS:\" >&10\n"
    "    fi\n"
    "}\n"
    /* Sets by `$3 $4` what is in the list $1 and not in $2. */
    "__handsfs_options() {\n"
    "    while [[ $1 ]]; do\n"
    "        case :$2 in\n"
    "        *\":${1%%:*}:\"*) ;;\n"
    "        *)\n"
    "            case ${1%%:*} in\n"
    "            xtrace | verbose | noexec | onecmd | privileged) ;;\n"
    "            *) builtin \"$3\" \"$4\" \"${1%%:*}\" ;;\n"
    "            esac\n"
    "            ;;\n"
    "        esac\n"
    "        builtin set -- \"${1#*:}\" \"$2\" \"$3\" \"$4\"\n"
    "    done\n"
    "}\n"
    "builtin readonly -f __handsfs_save __handsfs_save_functions __handsfs_exit\n"
    "builtin read -r -d \"\" -u 250\n"
    "builtin set -- \"$REPLY\"\n"
    "BASH_EXECUTION_STRING=$1\n"
    "{\n"
    "    {\n"
    "        if builtin read -r -d \"\" -u 250; then\n"
    "            builtin set -- \"$1\" \"$REPLY\"\n"
    "            builtin read -r -d \"\" -u 250\n"
    "            builtin set -- \"$1\" \"$2\" \"$REPLY\"\n"
    "            builtin read -r -d \"\" -u 250\n"
    "            builtin set -- \"$1\" \"$2\" \"$3\" \"${REPLY%$'\\n'}\"\n"
    "            if builtin cd -- \"$4\"; then\n"
    "                builtin set -- \"$1\" \"$2\" \"$3\"\n"
    "            fi\n"
    "            case :$3 in *:extglob:*) builtin shopt -s extglob ;; esac\n"
    "            while builtin read -r -d \"\" -u 250; do\n"
    "                builtin eval \"$REPLY\"\n"
    "            done\n"
    "            BASH_EXECUTION_STRING=$1\n"
    "            if __handsfs_options \"$2\" \"$SHELLOPTS:\" set -o &&\n"
    "                __handsfs_options \"$SHELLOPTS:\" \"$2\" set +o &&\n"
    "                __handsfs_options \"$3\" \"$BASHOPTS:\" shopt -s; then\n"
    "                __handsfs_options \"$BASHOPTS:\" \"$3\" shopt -u || [[ y ]]\n"
    "            fi\n"
    "            if [[ ${4-} ]]; then\n"
    "                builtin cd -P .\n"
    "            fi\n"
    "        fi\n"
    "    } >&- 2>&-\n"
    "    if [[ ${4-} ]]; then\n"
    "        builtin printf 'handsfs: %s is no directory any more: the command was not run;"
    " the shell is in %s now\\n' \"$4\" \"$PWD\" >&2\n"
    "        BASH_EXECUTION_STRING='[[ \"\" ]]'\n"
    "    fi\n"
    "    builtin unset -f __handsfs_options\n"
    "    builtin trap '\"__handsfs_exit\" \"$?\" >&- 2>&-' EXIT\n"
    "}\n";
