# shellcheck shell=bash disable=SC2034,SC2154
# The images of the tests, built from Debian's packages alone and kept as tar files in the beds' cache.
#
#   debian   a small Debian: bash, coreutils, git, procps, perl-base, sftp-server
#   user     the same, with USER agent (1000:1000, by name), its HOME, and a WORKDIR
#   hostile  the same, with a BASH_ENV that prints and defines, and a PATH whose first folder lies
#   small    busybox, and a static bash
#   busybox  busybox alone: a shell, but no bash
#   static   one static program and nothing else: no shell, no libc, no /etc, no /tmp
#
# image_load IMPORT-FUNCTION: gives the engine each of HANDSFS_BED_IMAGES that it has not. The function is
# called as `import NAME TAR CHANGE...`, where a CHANGE is a line of a Dockerfile.

image_repository=handsfs-test
image_all='debian user hostile small busybox static'
# Raise it when a recipe below changes: older files are left out of account then.
image_edition=1

image_file() { echo "$bed_cache/images/$1-$image_edition.tar"; }

# The archive that this machine's own packages come from, for debootstrap.
image_mirror()
{
    local codename
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Release: $codename" \
        'Component: main' | head -n 1
}

image_codename() { . /etc/os-release && echo "${VERSION_CODENAME-}"; }

# image_make_NAME FOLDER: fills the folder with the image's files, or with those that it adds to `debian`.

image_make_debian()
{
    local mirror
    mirror=$(image_mirror)
    [ -n "$mirror" ] || bed_die 'apt knows no archive of this release'
    debootstrap --variant=minbase \
        --include=acl,attr,bash,coreutils,git,make,openssh-sftp-server,perl-base,procps,python3-minimal \
        "$(image_codename)" "$1" "$mirror" >&2 || bed_die 'debootstrap has failed'
    rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/usr/share/doc/* "$1"/usr/share/man/* \
        "$1"/usr/share/locale/* "$1"/var/log/*
}

# `user` and `hostile` are debian with something more.
image_make_user()
{
    tar -C "$1" -xpf "$(image_file debian)"
    mkdir -p "$1/home/agent"
    echo 'agent:x:1000:1000:an agent:/home/agent:/bin/bash' >>"$1/etc/passwd"
    echo 'agent:x:1000:' >>"$1/etc/group"
    echo 'export FROM_A_PROFILE=1' >"$1/home/agent/.profile"
    chown -R 1000:1000 "$1/home/agent"
}

image_make_hostile()
{
    local program
    tar -C "$1" -xpf "$(image_file debian)"
    mkdir -p "$1/opt/hostile"
    for program in sh cat stat tar mkdir mv ls test true id env sleep kill setsid head wc ps find; do
        printf '#!/bin/bash\necho planted\nexit 9\n' >"$1/opt/hostile/$program"
    done
    chmod 755 "$1"/opt/hostile/*
    cat >"$1/opt/hostile.sh" <<'END'
echo banner
echo banner >&2
shopt -s expand_aliases
alias exit='echo alias; builtin exit' printf='echo alias' cd='echo alias'
END
}

image_make_busybox()
{
    local applet
    mkdir -p "$1"/{bin,etc,proc,sys,dev,root} "$1/usr" "$1/var"
    mkdir -m 1777 "$1/tmp"
    cp /bin/busybox "$1/bin/busybox"
    for applet in $(/bin/busybox --list); do
        [ "$applet" = busybox ] || ln -s busybox "$1/bin/$applet"
    done
    ln -s ../bin "$1/usr/bin"
    echo 'root:x:0:0:root:/root:/bin/sh' >"$1/etc/passwd"
    echo 'root:x:0:' >"$1/etc/group"
}

image_make_small()
{
    image_make_busybox "$1"
    cp /bin/bash-static "$1/bin/bash"
}

image_make_static() { cp /bin/busybox "$1/program"; }

image_changes()
{
    case $1 in
    debian | small) printf '%s\n' 'CMD ["bash"]' ;;
    busybox) printf '%s\n' 'CMD ["sh"]' ;;
    static) printf '%s\n' 'ENTRYPOINT ["/program", "sleep", "1000000"]' ;;
    user) printf '%s\n' 'USER agent' 'ENV HOME=/home/agent' 'ENV AGENT=yes' 'WORKDIR /home/agent' ;;
    hostile) printf '%s\n' 'ENV BASH_ENV=/opt/hostile.sh' 'ENV PATH=/opt/hostile:/usr/bin:/bin' \
        'ENTRYPOINT ["/opt/hostile/true"]' ;;
    esac
}

# image_build NAME: its tar file; at once where it is there.
image_build()
{
    local file tree
    file=$(image_file "$1")
    [ ! -s "$file" ] || return 0
    case $1 in user | hostile) image_build debian ;; esac
    bed_say "builds the image $1"
    tree=$(mktemp -d "$bed_cache/images/$1.XXXXXX")
    chmod 755 "$tree"
    if ! ("image_make_$1" "$tree" && tar -C "$tree" --numeric-owner -cf "$file.new" .); then
        rm -rf "$tree" "$file.new"
        bed_die "the image $1 cannot be built"
    fi
    rm -rf "$tree"
    mv "$file.new" "$file"
}

image_load()
{
    local import=$1 name names=${HANDSFS_BED_IMAGES:-$image_all}
    local -a changes
    # Under the cache's own lock: several beds may begin at once.
    (
        bed_lock "$bed_cache/images/lock"
        for name in $names; do
            image_build "$name"
        done
    )
    for name in $names; do
        mapfile -t changes < <(image_changes "$name")
        "$import" "$name" "$(image_file "$name")" "${changes[@]}"
    done
}

# image_import NAME TAR CHANGE...: as image_load wants it, by the docker client.
image_import()
{
    local image=$image_repository:$1 tar=$2 change
    local -a changes=()
    shift 2
    for change; do
        changes+=(--change "$change")
    done
    docker image inspect "$image" >/dev/null 2>&1 ||
        docker import "${changes[@]}" "$tar" "$image" >/dev/null
}
