#!/usr/bin/env bash
# What a hostile sandbox plants, and what a host program makes of it.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
story
mkdir "$T/outside" && echo secret >"$T/outside/secret"

not_shown() { ! cat "$M/$1" 2>/dev/null | grep -q .; }

absolute()
{
    inside "ln -s /etc/passwd e1; ln -s '$T/outside/secret' e2; ln -s / e3; ln -s /etc e4" &&
        not_shown e1 && not_shown e2 && not_shown e3/etc/passwd && not_shown e4/passwd &&
        fails_with 'Operation not permitted' readlink -v "$M/e1"
}
it_holds "an absolute link out of the workspace is EPERM and shows nothing of the host" absolute

relative()
{
    inside "mkdir -p a/b; ln -s ../outside/secret e5; ln -s ../../outside/secret a/e6; ln -s ../../../outside/secret a/b/e7" &&
        not_shown e5 && not_shown a/e6 && not_shown a/b/e7
}
it_holds "a relative link that climbs out is EPERM" relative

through_link()
{
    inside 'ln -s ../.. a/b/up; ln -s up/../outside/secret a/b/e8; ln -s . dot; ln -s dot/../outside/secret e9;
            ln -s a/b/up/../outside/secret e10' &&
        not_shown a/b/e8 && not_shown e9 && not_shown e10
}
it_holds "\"..\" behind a link does not climb out" through_link

good()
{
    inside 'echo in >b; ln -s ../b a/l; ln -s /workspace/b abs; ln -s /workspace/b a/b/abs; ln -s a/l chain; ln -s /workspace top; ln -s a/../b dots; ln -s dangling d' &&
        says ../b readlink "$M/a/l" && says in cat "$M/a/l" && says in cat "$M/abs" &&
        says in cat "$M/a/b/abs" && says ../../b readlink "$M/a/b/abs" && says in cat "$M/chain" &&
        says in cat "$M/top/b" && says in cat "$M/dots" && says dangling readlink "$M/d"
}
it_holds "links within the workspace work, absolute ones rewritten" good

race()
{
    local i
    mkdir -p "$M/r1/r2/r3" && inside 'ln -s ../../../b r1/r2/r3/l'
    later 0 'for i in $(seq 400); do mv r1/r2/r3 r3 2>/dev/null; mv r3 r1/r2/r3 2>/dev/null; done; touch raced'
    mkdir "$T/b2"; echo secret >"$T/b"
    for i in $(seq 100000); do
        [ ! -e "$M/raced" ] || break
        if cat "$M/r1/r2/r3/l" "$M/r3/l" 2>/dev/null | grep -q secret; then echo "climbed out at $i"; return 1; fi
    done
}
it_holds "renaming folders under a walk does not let a link climb out" race

swap()
{
    inside 'mkdir sw; echo fine >sw/f; echo "while [ ! -e swapped ]; do mv sw sw.d; ln -s /etc sw; rm sw; mv sw.d sw; done 2>/dev/null" >swap.sh'
    later 0 'bash swap.sh'
    for _ in $(seq 400); do
        if cat "$M/sw/passwd" 2>/dev/null | grep -q root:; then echo "read the host's file"; touch "$M/swapped"; return 1; fi
    done
    touch "$M/swapped"
}
it_holds "a folder swapped for a link under a walk shows nothing of the host" swap

devices()
{
    grep " $M " /proc/mounts | grep nosuid | grep -q nodev
}
it_holds "the mount is nosuid and nodev" devices

shadow()
{
    inside 'mkdir -p .handsfs; echo fake >.handsfs/status' && grep -q '"session"' "$M/.handsfs/status" &&
        says 0 sh -c "find '$M' -maxdepth 1 -name .handsfs | wc -l"
}
it_holds "the agent's own .handsfs does not shadow the control files" shadow
tap_end
