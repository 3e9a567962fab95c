#!/usr/bin/env bash
# What a change on one side looks like on the other.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
story

own_writes()
{
    for i in $(seq 50); do
        echo "$i" >"$M/f"
        [ "$(cat "$M/f")" = "$i" ] || return 1
        printf '%*s' "$i" '' >"$M/g"
        [ "$(stat -c %s "$M/g")" = "$i" ] || return 1
    done
}
it_holds "a program's own writes are seen at once" own_writes

barrier_in()
{
    for i in $(seq 40); do
        echo "host $i" >"$M/in"
        [ "$(inside 'cat in')" = "host $i" ] || return 1
    done
}
it_holds "what was written through the mount is there when a command starts" barrier_in

barrier_out()
{
    local n
    for i in $(seq 60); do
        n=$(((i * 7919) % 5000 + 1))
        cat "$M/out" >/dev/null 2>&1
        ls -l "$M" >/dev/null
        inside "head -c $n /dev/zero | tr '\\0' x >out; echo $i >>log; touch new.$i; rm -f new.$((i - 1))"
        [ "$(stat -c %s "$M/out")" = "$n" ] || { echo "size after exec $i"; return 1; }
        [ "$(wc -c <"$M/out")" = "$n" ] || { echo "content after exec $i"; return 1; }
        [ "$(tail -n 1 "$M/log")" = "$i" ] || { echo "log after exec $i"; return 1; }
        [ -e "$M/new.$i" ] && [ ! -e "$M/new.$((i - 1))" ] || { echo "names after exec $i"; return 1; }
    done
}
it_holds "all that a command changed is seen when it has returned" barrier_out

barrier_open()
{
    inside 'echo old >held'
    exec 8<"$M/held"
    stat -L /proc/self/fd/8 >/dev/null
    inside 'echo much longer >held'
    [ "$(stat -L -c %s /proc/self/fd/8)" = 12 ] || return 1
    [ "$(cat <&8)" = 'much longer' ] || return 1
    exec 8<&-
    (cd "$M" && mkdir -p d && stat d >/dev/null && inside 'touch d/x; mkdir d/y' && [ "$(stat -c %h d)" = 3 ])
}
it_holds "open files and folders are fresh after a command, too" barrier_open

mmap_before()
{
    py 'import mmap, os, subprocess, sys
m, h, s = sys.argv[1:]
with open(m + "/mapped", "wb") as f: f.write(b"a" * 4096)
f = open(m + "/mapped", "r+b"); v = mmap.mmap(f.fileno(), 4096)
for i in range(20):
    v[0:4] = b"%04d" % i
    out = subprocess.run([h, "exec", "-n", s, "--", "head -c 4 mapped"], capture_output=True).stdout
    assert out == b"%04d" % i, out' "$M" "$HANDSFS" "$S"
}
it_holds "stores to a shared mapping are there when a command starts" mmap_before

unannounced()
{
    cat "$M/u" >/dev/null 2>&1
    ls "$M" >/dev/null
    later 0.3 'printf newer-longer >u'
    eventually 5 grep -qx newer-longer "$M/u"
}
it_holds "a change that no command announced is seen within a second" unannounced

first_read()
{
    local code=0
    inside 'cat >grow.sh <<"EOT"
for i in $(seq 300); do
  n=$((i * 37 % 3000 + 1)); head -c $n /dev/zero | tr "\0" a >t; echo >>t; mv t w; sleep 0.005
done
touch stop
EOT'
    later 0 'bash grow.sh'
    until [ -e "$M/stop" ]; do
        if [ -e "$M/w" ]; then
            tail -c 1 "$M/w" >"$T/last" 2>"$T/error" || { cat "$T/error"; code=1; break; }
            od -An -c "$T/last" | grep -q '\\n' || { echo "a read was cut"; cat "$T/error"; code=1; break; }
        fi
    done
    return "$code"
}
it_holds "the first read after a change is whole" first_read

two_sides_append()
{
    later 0 'for i in $(seq 500); do echo "inside line number $i" >>both; done; touch appended'
    for i in $(seq 500); do echo "host line number $i" >>"$M/both"; done
    eventually 20 test -e "$M/appended"
    inside true
    says 1000 sh -c "wc -l <'$M/both'" &&
        says 0 sh -c "grep -cvE '^(inside|host) line number [0-9]+\$' '$M/both'"
}
it_holds "appends of both sides are all there and none is torn" two_sides_append

replaced()
{
    inside 'echo one >r; echo two >r2'
    exec 9<"$M/r"
    inside 'mv r2 r'
    [ "$(cat "$M/r")" = two ] && [ "$(cat <&9)" = one ]
}
it_holds "a file that was replaced inside stays itself for those who hold it open" replaced

moved_dir()
{
    mkdir -p "$M/deep/a/b" && echo x >"$M/deep/a/b/f" && ls "$M/deep/a/b" >/dev/null
    inside 'mv deep/a/b top; mkdir deep/a/b; echo other >deep/a/b/f'
    [ "$(cat "$M/top/f")" = x ] && [ "$(cat "$M/deep/a/b/f")" = other ]
}
it_holds "a folder moved inside is found at its new place, and another at the old one" moved_dir
tap_end
