#!/usr/bin/env bash
# The file system's calls, one by one, on the mount.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
story

renames()
{
    py 'import ctypes, os, sys, errno
os.chdir(sys.argv[1]); libc = ctypes.CDLL(None, use_errno=True)
def ren(a, b, flags):
    r = libc.renameat2(-100, a.encode(), -100, b.encode(), flags)
    return 0 if r == 0 else ctypes.get_errno()
open("a", "w").write("a"); open("b", "w").write("b"); os.mkdir("d"); open("d/x", "w").close()
assert ren("a", "b", 1) == errno.EEXIST
assert ren("a", "b", 2) == 0 and open("a").read() == "b" and open("b").read() == "a"
assert ren("a", "c", 1) == 0 and not os.path.exists("a")
assert ren("d", "b", 0) == errno.ENOTDIR
assert ren("b", "d", 0) == errno.EISDIR
assert ren("nope", "q", 0) == errno.ENOENT
assert ren("d", "d/sub", 0) == errno.EINVAL
os.mkdir("e"); assert ren("e", "d", 0) == errno.ENOTEMPTY
assert ren("d", "b", 2) == 0 and os.path.isdir("b") and os.listdir("b") == ["x"]
os.rename("b/x", "moved"); assert os.listdir("b") == []' "$M"
}
it_holds "rename knows NOREPLACE and EXCHANGE and refuses what POSIX refuses" renames

links()
{
    echo x >"$M/l1" && ln "$M/l1" "$M/l2" && mkdir "$M/ld" && ln "$M/l1" "$M/ld/l3" &&
        [ "$(stat -c '%i %h' "$M/l1")" = "$(stat -c '%i %h' "$M/l2")" ] && says 3 stat -c %h "$M/ld/l3" &&
        echo more >>"$M/l2" && says $'x\nmore' cat "$M/ld/l3" && rm "$M/l1" && says 2 stat -c %h "$M/l2" &&
        says "$(stat -c %i "$M/l2")" inside 'stat -c %i l2'
}
it_holds "hard links are one file with one true inode and link count" links

unlinked()
{
    mkdir "$M/u" && exec 7<>"$M/u/f" && echo kept >&7 && rm "$M/u/f" && says '' ls -A "$M/u" &&
        rmdir "$M/u" && says '' inside 'find . -name ".fuse*"' &&
        says kept head -c 4 /proc/self/fd/7 && echo more >&7 && says 0 stat -L -c %h /proc/self/fd/7 &&
        chmod 600 /proc/self/fd/7 && says 10 stat -L -c %s /proc/self/fd/7 && exec 7>&-
}
it_holds "an unlinked open file goes on, and its folder can be removed" unlinked

sparse()
{
    py 'import os, sys
f = os.open(sys.argv[1] + "/sp", os.O_RDWR | os.O_CREAT)
os.pwrite(f, b"x" * 4096, 1 << 20); os.ftruncate(f, 3 << 20)
s = os.fstat(f); assert s.st_size == 3 << 20 and s.st_blocks * 512 < 1 << 20, s
assert os.lseek(f, 0, os.SEEK_DATA) == 1 << 20
assert os.lseek(f, 1 << 20, os.SEEK_HOLE) == (1 << 20) + 4096
os.posix_fallocate(f, 0, 8192); assert os.fstat(f).st_blocks >= 16
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
assert libc.fallocate(f, 3, 1 << 20, 4096) == 0
assert os.pread(f, 4096, 1 << 20) == b"\0" * 4096' "$M"
}
it_holds "holes are holes, found by lseek, filled and punched by fallocate" sparse

times()
{
    inside "touch -d '2024-01-01 00:00:00.123456789' tm" && says 1704067200.123456789 stat -c %.9Y "$M/tm" &&
        touch -a "$M/tm" && says 1704067200.123456789 stat -c %.9Y "$M/tm" && cat "$M/tm" &&
        touch -d '2020-02-02 02:02:02.987654321Z' "$M/tm" && says 1580608922.987654321 inside 'stat -c %.9Y tm'
}
it_holds "times have nanoseconds on both sides and change only when they should" times

xattrs()
{
    setfattr -n user.color -v blue "$M/l2" && says blue getfattr --only-values -n user.color "$M/l2" &&
        says "user.color" sh -c "getfattr --absolute-names '$M/l2' | sed -n 2p" &&
        setfattr -x user.color "$M/l2" && fails_with 'No such attribute' getfattr -n user.color "$M/l2"
}
it_holds "extended attributes are set, listed, read and removed" xattrs

mappings()
{
    py 'import mmap, os, sys
p = sys.argv[1] + "/mm"; f = os.open(p, os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8192)
v = mmap.mmap(f, 8192); v[4096:4101] = b"hello"; v.flush(); v.close(); os.close(f)
assert open(p, "rb").read()[4096:4101] == b"hello"' "$M" &&
        says hello inside 'tail -c 4096 mm | head -c 5'
}
it_holds "a shared mapping's stores reach the sandbox" mappings

creates()
{
    py 'import os, sys, errno
os.chdir(sys.argv[1]); os.umask(0o027)
f = os.open("ex", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666); os.write(f, b"x")
assert os.fstat(f).st_mode & 0o777 == 0o640
try: os.open("ex", os.O_CREAT | os.O_EXCL | os.O_WRONLY); assert 0
except FileExistsError: pass
a = os.open("ap", os.O_CREAT | os.O_APPEND | os.O_WRONLY); b = os.open("ap", os.O_APPEND | os.O_WRONLY)
for i in range(50): os.write(a, b"a\n"); os.write(b, b"b\n")
assert os.stat("ap").st_size == 200
os.truncate("ap", 3); assert open("ap", "rb").read() == b"a\nb"
os.mkdir("md", 0o777); assert os.stat("md").st_mode & 0o7777 == 0o750
os.symlink("target text", "sl"); assert os.readlink("sl") == "target text"
os.chmod("ex", 0o4755); os.chmod("ex", 0o600)
try: os.rmdir("ex"); assert 0
except NotADirectoryError: pass
try: os.unlink("md"); assert 0
except IsADirectoryError: pass
try: os.open("n" * 256, os.O_CREAT); assert 0
except OSError as e: assert e.errno == errno.ENAMETOOLONG
d = os.open("md", os.O_RDONLY); os.fsync(d); os.fsync(f)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
r = os.open("ex", os.O_RDONLY)
out = os.open("cp", os.O_CREAT | os.O_WRONLY)
assert os.copy_file_range(r, out, 100) == 1' "$M"
}
it_holds "files are created, opened, truncated, appended and copied as POSIX says" creates

statfs() { [ "$(stat -f -c %b "$M")" = "$(inside 'stat -f -c %b .')" ] && df "$M" >/dev/null; }
it_holds "statfs tells the sandbox's own limits" statfs

specials()
{
    inside 'mkfifo fifo; mknod dev c 1 3 2>/dev/null; true'
    within 20 cat "$M/fifo" && fails_with 'No such device or address' cat "$M/fifo" &&
        mkfifo "$M/mine" && says 'fifo' inside 'stat -c %F mine' && rm "$M/mine"
}
it_holds "a FIFO inside fails at once with ENXIO and blocks nobody" specials

cap()
{
    head -c 4194304 /dev/urandom >"$M/cap" && says 4194304 sh -c "wc -c <'$M/cap'" &&
        says "$(md5sum <"$M/cap")" inside 'md5sum <cap' &&
        inside 'head -c 4194305 /dev/zero >over' && fails_with 'File too large' cat "$M/over" &&
        says 4194305 stat -c %s "$M/over" &&
        fails_with 'File too large' dd if=/dev/zero of="$M/cap2" bs=1M count=5 &&
        fails_with 'File too large' truncate -s 5M "$M/cap"
}
it_holds "four mebibytes pass, one byte more is EFBIG in both directions" cap

odd_names()
{
    inside 'mkdir odd; cd odd; touch -- "$(printf "x\ny")" -rf " lead" "\$(id)" "é" "$(printf "bad\377")"'
    says 6 sh -c "ls -b '$M/odd' | wc -l" &&
        (cd "$M/odd" && for f in * ; do echo data >"./$f" && says data cat "./$f" && mv -- "$f" "n$f" && rm -- "./n$f" || exit 1; done) &&
        says '' ls -A "$M/odd"
}
it_holds "odd names are listed, read, renamed and removed" odd_names

many()
{
    inside 'mkdir many; cd many; for i in $(seq 3000); do : >"a-rather-long-file-name-number-$i"; done'
    says 3000 sh -c "ls '$M/many' | wc -l" && says 3000 sh -c "find '$M/many' -type f | wc -l" &&
        (cd "$M/many" && rm -f ./*-1*) && says "$(inside 'ls many | wc -l')" sh -c "ls '$M/many' | wc -l"
}
it_holds "a large folder is listed whole" many

deep()
{
    py 'import os, sys
os.chdir(sys.argv[1])
for i in range(60): os.mkdir("d" * 100); os.chdir("d" * 100)
open("leaf", "w").write("x"); assert open("leaf").read() == "x"; assert os.stat("leaf").st_size == 1' "$M" &&
        rm -r "${M:?}/$(printf 'd%.0s' $(seq 100))"
}
it_holds "a tree deeper than PATH_MAX works" deep

owned()
{
    touch "$M/own" && says "$(id -u) $(id -g)" stat -c '%u %g' "$M/own" &&
        says "$(inside 'id -u')" inside 'stat -c %u own' && chmod +x "$M/own" && inside 'test -x own'
}
it_holds "what belongs to the sandbox's user appears as mine" owned

locks()
{
    exec 6>"$M/lock" && flock -n 6 && fails_with '' flock -n "$M/lock" true && exec 6>&-
}
it_holds "flock excludes another process of this host" locks
tap_end
