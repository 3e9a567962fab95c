# Completion of handsfs for fish. Verbs, options and their values are what `handsfs --help` and
# `handsfs VERB --help` say, so that they are always this program's; sessions are what `handsfs ls` says, and jobs
# what `handsfs jobs` says.

function __handsfs_verbs
    handsfs --help 2>/dev/null | sed -n '/^Verbs/,/^$/s/^  \([a-z][a-z-]*\)  *\(.*\)/\1\t\2/p'
end

# The verb of the line, if there is one.
function __handsfs_verb
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        if not string match -q -- '-*' $word
            echo $word
            return 0
        end
    end
    return 1
end

function __handsfs_help
    set -l verb (__handsfs_verb); or return
    handsfs $verb --help 2>/dev/null
end

# How many words that are no options stand behind the verb.
function __handsfs_place
    set -l words (commandline -opc)
    set -l place -1
    set -l skip 0
    set -e words[1]
    for word in $words
        if test $skip = 1
            set skip 0
        else if string match -q -- '--' $word
            echo command
            return
        else if string match -qr -- '^--[a-z-]+$' $word
            __handsfs_help | string match -qr -- "^  .*$word [A-Za-z]"; and set skip 1
        else if not string match -q -- '-*' $word
            set place (math $place + 1)
        end
    end
    echo $place
end

function __handsfs_options
    __handsfs_help | sed -nE 's/^  (-[a-z], |    )(--[a-z-]+)( [^ ]+)? +([^ ].*)$/\2\t\4/p'
end

# The values of the option before the cursor.
function __handsfs_values
    set -l words (commandline -opc)
    set -l value (__handsfs_help | sed -nE "s/^  (-[a-z], |    )$words[-1] ([^ ]+) .*/\2/p")
    switch "$value"
        case '*|*'
            string split '|' -- $value
        case PATH
            __fish_complete_path (commandline -ct)
    end
end

function __handsfs_wants_value
    set -l words (commandline -opc)
    string match -qr -- '^--[a-z-]+$' $words[-1]
    and __handsfs_help | string match -qr -- "^  (-[a-z], |    )$words[-1] [A-Za-z]"
end

function __handsfs_sessions
    set -l words (commandline -opc)
    set -l backend
    for i in (seq 2 (count $words))
        if test $words[$i] = --backend; and test $i -lt (count $words)
            set backend --backend $words[(math $i + 1)]
        end
    end
    timeout 3 handsfs ls $backend 2>/dev/null
end

# The jobs of the session before the cursor.
function __handsfs_jobs
    set -l words (commandline -opc)
    timeout 3 handsfs jobs $words[-1] 2>/dev/null | string replace -r ' .*' ''
end

function __handsfs_at
    not __handsfs_wants_value; and test (__handsfs_place) = $argv[1]
end

complete -c handsfs -f
complete -c handsfs -n 'not __handsfs_verb' -a '(__handsfs_verbs)'
complete -c handsfs -n 'not __handsfs_verb' -l help -d 'what handsfs does'
complete -c handsfs -n 'not __handsfs_verb' -l version -d 'its version'
complete -c handsfs -n '__handsfs_verb; and __handsfs_wants_value' -a '(__handsfs_values)'
complete -c handsfs -n '__handsfs_verb; and not __handsfs_wants_value; and string match -q -- "-*" (commandline -ct)' \
    -a '(__handsfs_options)'
complete -c handsfs -n 'contains (__handsfs_verb) umount; and __handsfs_at 0' -a '(__fish_complete_directories)'
complete -c handsfs -n 'contains (__handsfs_verb) mount; and __handsfs_at 1' -a '(__fish_complete_directories)'
complete -c handsfs -n '__handsfs_verb; and not contains (__handsfs_verb) ls doctor umount; and __handsfs_at 0' \
    -a '(__handsfs_sessions)'
complete -c handsfs -n 'contains (__handsfs_verb) wait; and __handsfs_at 1' -a '(__handsfs_jobs)'
