# shellcheck shell=bash
# What the test scripts share: results as TAP. Source it, call it_holds for each case, end with
# tap_end.

tap_count=0
tap_failed=0

# it_holds SENTENCE COMMAND...: one case. It passes when the command succeeds; what the command prints
# is shown when it fails. The command runs in a subshell.
it_holds()
{
    local sentence=$1 output
    shift
    tap_count=$((tap_count + 1))
    if output=$("$@" 2>&1 </dev/null); then
        echo "ok $tap_count - $sentence"
    else
        tap_failed=1
        echo "not ok $tap_count - $sentence"
        printf '# %s\n' "${output//$'\n'/$'\n'# }"
    fi
}

# it_is_skipped SENTENCE REASON: one case that cannot be tried here.
it_is_skipped()
{
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# needs NAME REASON COMMAND...: skips the whole script unless the command succeeds. Where HANDSFS_REQUIRE
# names it (contrib/check does), going without is a failure.
needs()
{
    local name=$1 reason=$2
    shift 2
    if "$@" >/dev/null 2>&1 </dev/null; then
        return 0
    fi
    case " ${HANDSFS_REQUIRE-} " in
    *" $name "*)
        echo "not ok 1 - this machine has $name"
        echo "# $reason"
        echo "1..1"
        exit 1
        ;;
    *)
        echo "1..0 # SKIP $reason"
        exit 0
        ;;
    esac
}

tap_end()
{
    echo "1..$tap_count"
    exit "$tap_failed"
}
