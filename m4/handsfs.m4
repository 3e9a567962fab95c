# What configure.ac needs beyond autoconf's own macros.

# HANDSFS_TRY_FLAGS(VARIABLE, FLAGS, [OTHERWISE]): appends the flags if $CC takes them without a
# complaint. A -Wno- flag that is not known goes unnoticed until something else is diagnosed, so its
# positive form is tried.
AC_DEFUN([HANDSFS_TRY_FLAGS], [
    AC_MSG_CHECKING([whether $CC takes $2])
    CFLAGS="$handsfs_saved_CFLAGS -Werror `AS_ECHO([" $2"]) | $SED 's/ -Wno-/ -W/g'`"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
        [AC_MSG_RESULT([yes])
         $1="${$1}${$1:+ }$2"],
        [AC_MSG_RESULT([no])
         $3])
    CFLAGS=$handsfs_saved_CFLAGS
])

# HANDSFS_APPEND_FLAGS(VARIABLE, FLAGS): appends those flags that $CC takes; all at once if it can.
AC_DEFUN([HANDSFS_APPEND_FLAGS], [
    handsfs_saved_CFLAGS=$CFLAGS
    handsfs_flags=`echo $2`
    HANDSFS_TRY_FLAGS([$1], [$handsfs_flags],
        [for handsfs_flag in $handsfs_flags; do
            HANDSFS_TRY_FLAGS([$1], [$handsfs_flag])
        done])
    AC_SUBST([$1])
])

# HANDSFS_REQUIRE_FLAG(FLAG): stops where $CC cannot build and link with the flag.
AC_DEFUN([HANDSFS_REQUIRE_FLAG], [
    AC_MSG_CHECKING([whether $CC links with $1])
    handsfs_saved_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $1"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([$CC cannot build with $1 (a runtime library may be missing)])])
    CFLAGS=$handsfs_saved_CFLAGS
])

# HANDSFS_SANITIZERS(LIST): sets SANITIZER_CFLAGS; "yes" is address,undefined and "no" none.
AC_DEFUN([HANDSFS_SANITIZERS], [
    AS_CASE([$1],
        [no | ''], [enable_sanitizers=none],
        [yes], [enable_sanitizers=address,undefined],
        [enable_sanitizers=$1])
    AS_IF([test "x$enable_sanitizers" != xnone], [
        HANDSFS_REQUIRE_FLAG([-fsanitize=$enable_sanitizers])
        SANITIZER_CFLAGS="-fsanitize=$enable_sanitizers -fno-sanitize-recover=all"
        SANITIZER_CFLAGS="$SANITIZER_CFLAGS -fno-omit-frame-pointer"
    ])
    AS_CASE([$enable_sanitizers],
        [*thread*], [SANITIZER_INCLUDE='-include $(top_srcdir)/tests/thread_sanitizer.h'])
    AC_SUBST([SANITIZER_CFLAGS])
    AC_SUBST([SANITIZER_INCLUDE])
])

# HANDSFS_TRY_HAND(KIND, COMPILER, CPPFLAGS): takes this compiler for the hand if it builds a static
# program with threads that sees both the C library's and the kernel's headers.
AC_DEFUN([HANDSFS_TRY_HAND], [
    AS_IF([test "x$hand_kind" = x], [
        AC_MSG_CHECKING([whether the hand can be built with $2])
        handsfs_saved_CC=$CC handsfs_saved_CFLAGS=$CFLAGS handsfs_saved_CPPFLAGS=$CPPFLAGS
        handsfs_saved_LDFLAGS=$LDFLAGS handsfs_saved_LIBS=$LIBS
        CC="$2" CFLAGS="-Os -pthread" CPPFLAGS="$3" LDFLAGS=-static LIBS=
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[
            #include <linux/openat2.h>
            #include <pthread.h>
            #include <stdio.h>
            #include <sys/prctl.h>
            static void *run(void *p) { return p; }
        ]], [[
            struct open_how how = {.resolve = RESOLVE_IN_ROOT};
            pthread_t t;
            pthread_create(&t, NULL, run, &how);
            return pthread_join(t, NULL);
        ]])],
            [AC_MSG_RESULT([yes])
             hand_kind="$1" HAND_CC="$2" HAND_CPPFLAGS="$3"],
            [AC_MSG_RESULT([no])])
        CC=$handsfs_saved_CC CFLAGS=$handsfs_saved_CFLAGS CPPFLAGS=$handsfs_saved_CPPFLAGS
        LDFLAGS=$handsfs_saved_LDFLAGS LIBS=$handsfs_saved_LIBS
    ])
])

# HANDSFS_HAND_COMPILER(WARNINGS): sets HAND_CC, HAND_CPPFLAGS, HAND_CFLAGS, HAND_LDFLAGS. musl-gcc
# makes the smallest hand; it searches none of the system's headers, so that the kernel's have to be
# shown to it, after all others. Else the host's compiler, with its C library linked in.
AC_DEFUN([HANDSFS_HAND_COMPILER], [
    AC_ARG_VAR([HAND_CC], [compiler of the static hand (musl-gcc if found, else CC)])
    AC_ARG_VAR([HAND_CFLAGS], [its flags (-Os -g)])
    AC_ARG_VAR([HAND_LDFLAGS], [more flags for linking the hand])
    AS_IF([test "x${HAND_CFLAGS+set}" != xset], [HAND_CFLAGS="-Os -g"])
    handsfs_kernel_headers="-idirafter /usr/include"
    handsfs_multiarch=`$CC -print-multiarch 2>/dev/null`
    AS_IF([test "x$handsfs_multiarch" != x && test -d "/usr/include/$handsfs_multiarch"],
        [handsfs_kernel_headers="$handsfs_kernel_headers -idirafter /usr/include/$handsfs_multiarch"])
    AS_IF([test "x$HAND_CC" != x],
        [handsfs_given=$HAND_CC
         HANDSFS_TRY_HAND([chosen by HAND_CC, static], [$handsfs_given], [])
         HANDSFS_TRY_HAND([chosen by HAND_CC, static], [$handsfs_given], [$handsfs_kernel_headers])],
        [AC_CHECK_PROGS([MUSL_GCC], [musl-gcc "$host_cpu-linux-musl-gcc"])
         AS_IF([test "x$MUSL_GCC" != x],
            [HANDSFS_TRY_HAND([musl, static], [$MUSL_GCC], [$handsfs_kernel_headers])])
         HANDSFS_TRY_HAND([static], [$CC], [])])
    AS_IF([test "x$hand_kind" = x],
        [AC_MSG_ERROR([no compiler here builds a static program: install musl-tools, or the static C library])])
    handsfs_saved_CC=$CC
    CC=$HAND_CC
    HANDSFS_APPEND_FLAGS([HAND_CODE_CFLAGS],
        [-std=gnu11 -ffunction-sections -fdata-sections -fstack-protector-strong -fno-asynchronous-unwind-tables])
    HANDSFS_APPEND_FLAGS([HAND_WARN_CFLAGS], $1)
    AS_IF([test "x$enable_werror" = xyes], [HAND_WARN_CFLAGS="$HAND_WARN_CFLAGS -Werror"])
    CC=$handsfs_saved_CC
    AC_SUBST([HAND_CPPFLAGS])
])

# HANDSFS_OPTIONAL_LIBRARY(NAME, MODULE): NAME_CFLAGS, NAME_LIBS and have_NAME (a version or "no").
# The headers are marked as the system's, so that our warnings are about our code.
AC_DEFUN([HANDSFS_OPTIONAL_LIBRARY], [
    PKG_CHECK_MODULES([$1], [$2],
        [have_$1=`$PKG_CONFIG --modversion "m4_bpatsubst([$2], [ .*])"`
         $1_CFLAGS=`AS_ECHO([" $$1_CFLAGS"]) | $SED 's/ -I/ -isystem /g'`],
        [have_$1=no])
])

AC_DEFUN([HANDSFS_LIBRARY], [
    HANDSFS_OPTIONAL_LIBRARY([$1], [$2])
    AS_IF([test "x$have_$1" = xno], [AC_MSG_ERROR([$2 was not found: $$1_PKG_ERRORS])])
])

# HANDSFS_PLAIN_LIBRARY(NAME, LIBRARY, HEADER, FUNCTION): NAME_LIBS, for one without a pkg-config file.
AC_DEFUN([HANDSFS_PLAIN_LIBRARY], [
    AC_CHECK_HEADER([$3], [], [AC_MSG_ERROR([$3 was not found])])
    AC_CHECK_LIB([$2], [$4], [:], [AC_MSG_ERROR([lib$2 was not found])])
    $1_LIBS=-l$2
    AC_SUBST([$1_LIBS])
])
