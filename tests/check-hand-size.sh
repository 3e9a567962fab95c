#!/bin/bash
# The hand goes into every sandbox: it is small, and it needs nothing that it would have to find there.
. "$(dirname "$0")/tap.sh"
: "${HANDSFS_HAND:?is set by make check}"

max=$((1024 * 1024))
stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT

is_small()
{
    strip -o "$stripped" "$HANDSFS_HAND" && wc -c <"$stripped" && [ "$(wc -c <"$stripped")" -lt "$max" ]
}

# no_such_line TEXT COMMAND...: the command succeeds and none of its lines has the text.
no_such_line()
{
    local text=$1 output
    shift
    output=$("$@") && ! grep -F "$text" <<<"$output"
}

it_holds 'the hand is under 1 MiB' is_small
it_holds 'the hand asks for no program interpreter' no_such_line INTERP readelf -lW "$HANDSFS_HAND"
it_holds 'the hand asks for no shared library' no_such_line '(NEEDED)' readelf -dW "$HANDSFS_HAND"
it_holds 'the hand has no executable stack' no_such_line RWE readelf -lW "$HANDSFS_HAND"
tap_end
