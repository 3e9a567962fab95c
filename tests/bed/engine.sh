# shellcheck shell=bash
# For tests that want an engine: engine_begin docker|podman, after tests/tap.sh. Takes the bed's environment;
# skips (or fails, as HANDSFS_REQUIRE says) where no such bed runs.

engine_begin()
{
    eval "$("$HANDSFS_SRCDIR/tests/bed/$1" env)"
    needs "$1" "no $1 runs here for the tests (tests/bed/$1 start)" \
        timeout 30 docker image inspect "$HANDSFS_TEST_IMAGE:debian"
}
