#!/bin/bash
# The official TypeScript SDK's clients against `handsfs mcp`, without a mount and through one. HANDSFS_MCP_SDK names a
# folder where tests/mcp/package.json was installed (npm ci); contrib/check makes one where npm can be had.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"

needs local 'the local backend does not work here' handsfs doctor
needs mcp-sdk 'HANDSFS_MCP_SDK names no folder with the SDK (npm ci in a copy of tests/mcp)' \
    test -d "${HANDSFS_MCP_SDK-}/node_modules/@modelcontextprotocol"
story_begin
cp "$HANDSFS_SRCDIR/tests/mcp/client.mjs" "$HANDSFS_SRCDIR/tests/mcp/package.json" "$T"
ln -s "$HANDSFS_MCP_SDK/node_modules" "$T/node_modules"

# Each case of the client's is one of this script's.
runs()
{
    local line count=0
    while IFS= read -r line; do
        case $line in
        'ok '* | 'not ok '*)
            count=$((count + 1))
            tap_count=$((tap_count + 1))
            # shellcheck disable=SC2034 # tap_end reads it
            [[ $line == ok* ]] || tap_failed=1
            echo "${line%%ok *}ok $tap_count - ${line#*- } ($3)"
            ;;
        1..*) ;;
        *) echo "$line" ;;
        esac
    done < <(timeout 400 node "$T/client.mjs" "$1" "$HANDSFS" "$2" 2>&1 </dev/null | sed 's/^[^on1#]/# &/')
    it_holds "$1: the client came to its end ($3)" test "$count" -ge 12
}

runs legacy "$S-a" 'no mount'
if node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)'; then
    mkdir "$T/m2"
    handsfs mount "$S-b" "$T/m2" >/dev/null
    runs modern "$S-b" 'a mount'
else
    it_is_skipped 'the client of the modern era' 'that SDK needs Node.js 20'
fi
tap_end
