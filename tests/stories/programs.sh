#!/usr/bin/env bash
# Programs that people use, on a mounted sandbox.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
story

vim_saves()
{
    mkdir "$M/v" && echo 'first line' >"$M/v/f.txt" && chmod 640 "$M/v/f.txt"
    vim -Nu NONE -es -c "e $M/v/f.txt" -c 'norm Otyped' -c wq || return 1
    says $'typed\nfirst line' inside 'cat v/f.txt' &&
        says f.txt ls -A "$M/v" && says 640 stat -c %a "$M/v/f.txt"
}
it_holds "vim saves a file and leaves nothing else behind" vim_saves

vim_saves_with_backup()
{
    vim -Nu NONE -es -c 'set backupcopy=no writebackup' -c "e $M/v/f.txt" -c 'norm Oagain' -c wq &&
        says again sed -n 2p "$M/v/f.txt" && says 640 stat -c %a "$M/v/f.txt" && says f.txt ls -A "$M/v"
}
it_holds "vim saves by renaming, too" vim_saves_with_backup

atomic_saves()
{
    echo 0 >"$M/a" && chmod 640 "$M/a"
    later 0 'while [ ! -e a.stop ]; do cat a >/dev/null || echo GONE >>a.gone; done'
    for i in $(seq 200); do
        echo "$i" >"$M/a.t" && chmod 640 "$M/a.t" && mv "$M/a.t" "$M/a" || return 1
    done
    touch "$M/a.stop"
    [ ! -e "$M/a.gone" ] && says 640 stat -c %a "$M/a" && says 200 cat "$M/a"
}
it_holds "a file that is saved by renaming is never missing for a reader inside" atomic_saves

git_works()
{
    export HOME=$T GIT_CONFIG_NOSYSTEM=1
    cd "$M" && mkdir repo && cd repo || return 1
    git init -q . && git config user.email a@b && git config user.name n &&
        for i in $(seq 60); do mkdir -p "d$((i % 7))" && seq "$i" 400 >"d$((i % 7))/f$i"; done &&
        git add . && git commit -qm one && says '' git status --porcelain &&
        git checkout -qb other && seq 9 >d1/new && git rm -q d2/f2 && git add . && git commit -qm two &&
        git checkout -q - && [ ! -e d1/new ] && [ -e d2/f2 ] && git merge -q other && [ -e d1/new ] &&
        git gc -q && git fsck --no-progress && says '' git status --porcelain &&
        git worktree add -q ../tree other~1 && says '' git -C ../tree status --porcelain
}
it_holds "git makes a repository, commits, branches, merges, packs and checks it" git_works

git_both_sides()
{
    inside 'cd repo && type git >/dev/null 2>&1' || return 0 # no git inside: nothing to compare
    says '' inside 'cd repo && git -c safe.directory=* status --porcelain'
}
it_holds "git inside sees the same clean tree" git_both_sides

sqlite_works()
{
    local db=$M/t.db mode
    for mode in wal delete; do
        rm -f "$db"*
        sqlite3 "$db" "pragma journal_mode=$mode; create table t(x); begin; insert into t select value from
            generate_series(1,2000); commit; pragma integrity_check;" >"$T/sql" 2>&1 || { cat "$T/sql"; return 1; }
        tail -n 1 "$T/sql" | grep -qx ok || { cat "$T/sql"; return 1; }
        (for i in $(seq 40); do sqlite3 -cmd '.timeout 20000' "$db" "insert into t values($i)"; done) &
        for i in $(seq 40); do sqlite3 -cmd '.timeout 20000' "$db" "insert into t values($i)" || return 1; done
        wait
        says 2080 sqlite3 "$db" 'select count(*) from t' && says ok sqlite3 "$db" 'pragma integrity_check' ||
            return 1
    done
}
it_holds "sqlite3 keeps a database whole with WAL and without, under two writers" sqlite_works

make_tree()
{
    mkdir -p "$1/sub/deep/est" "$1/empty"
    seq 1 3000 >"$1/numbers"
    printf '\0\1\2\377' >"$1/bytes"
    ln -s numbers "$1/link"
    ln -s ../numbers "$1/sub/up"
    ln "$1/numbers" "$1/sub/hard"
    chmod 750 "$1/sub"
    echo x >"$1/"$'odd\nname\377'
    truncate -s 3M "$1/sparse"
    find "$1" -depth -exec touch -h -d '2023-04-05 06:07:08.123456789' {} +
    touch -d '1999-12-31 23:59:59.000000001' "$1/sub/deep"
}

list_tree()
{
    (cd "$1" && find . -printf '%y %m %s %T@ %n %l %p\0' | sed -z 's/^d \([0-7]*\) [0-9]*/d \1/' | sort -z | md5sum &&
        find . -type f -print0 | sort -z | xargs -0 md5sum | md5sum)
}

rsync_works()
{
    make_tree "$T/tree" &&
        rsync -aHX "$T/tree/" "$M/rs/" && says "$(list_tree "$T/tree")" list_tree "$M/rs" &&
        rsync -aHX "$M/rs/" "$T/back/" && says "$(list_tree "$T/tree")" list_tree "$T/back" &&
        says '' rsync -aHXi --delete "$T/tree/" "$M/rs/"
}
it_holds "rsync copies a tree in and out with times, modes, links and odd names" rsync_works

tar_works()
{
    mkdir "$M/tar" && tar -C "$T/tree" --format=posix -cf - . | tar -C "$M/tar" -xf - &&
        says "$(list_tree "$T/tree")" list_tree "$M/tar" &&
        tar -C "$M/tar" --format=posix -cf "$T/out.tar" . && mkdir "$T/untar" && tar -C "$T/untar" -xf "$T/out.tar" &&
        says "$(list_tree "$T/tree")" list_tree "$T/untar"
}
it_holds "tar does, too" tar_works

cp_works()
{
    cp -a "$M/tar" "$M/copy" && says "$(list_tree "$T/tree")" list_tree "$M/copy" &&
        rm -r "$M/copy" && [ ! -e "$M/copy" ]
}
it_holds "cp -a and rm -r work within the mount" cp_works

search_works()
{
    mkdir "$M/s"
    for i in $(seq 200); do echo "file $i needle$((i % 50))" >"$M/s/f$i"; done
    says 4 sh -c "grep -rlw needle7 '$M/s' | wc -l"
    if type rg >/dev/null 2>&1; then says 4 sh -c "rg -lw needle7 '$M/s' | wc -l"; fi
    says 200 sh -c "find '$M/s' -type f | wc -l"
}
it_holds "grep, rg and find look through a tree" search_works

build_works()
{
    mkdir "$M/b" && printf 'int f(void);int main(void){return f();}\n' >"$M/b/m.c" &&
        printf 'int f(void){return 42;}\n' >"$M/b/f.c" &&
        printf 'p: m.o f.o\n\t$(CC) -o $@ $^\n' >"$M/b/Makefile" &&
        make -s -C "$M/b" && { "$M/b/p"; [ $? = 42 ]; } && says "make: 'p' is up to date." make -C "$M/b" --no-print-directory p &&
        inside 'b/p; test $? = 42'
}
it_holds "a program is built in the mount and runs on both sides" build_works
tap_end
