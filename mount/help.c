/* What --help prints. */
#include <stdio.h>

#include "mount/verbs.h"

const struct verb *const verbs[] = {
    &verb_mount, &verb_umount, &verb_exec,  &verb_shell, &verb_jobs,    &verb_wait,   &verb_provision,
    &verb_ls,    &verb_status, &verb_read,  &verb_write, &verb_mcp,     &verb_destroy, &verb_doctor,
    NULL};

static void print_options(FILE *out, const char *title, unsigned groups)
{
    if (groups != 0) {
        fprintf(out, "\n%s:\n", title);
        options_print_help(out, groups);
    }
}

void help_all(FILE *out)
{
    fputs("handsfs mounts an AI agent's sandbox on a directory, and runs commands in it.\n"
          "\n"
          "  mkdir ~/s1\n"
          "  handsfs mount s1 ~/s1             make the sandbox of the session s1; its workspace "
          "is ~/s1\n"
          "  cp main.c ~/s1                    any program can work on the files\n"
          "  handsfs exec s1 -- cc main.c      run a command inside\n"
          "  handsfs umount ~/s1               the sandbox lives on; mount it again at any time\n"
          "  handsfs destroy s1                remove it for good\n"
          "\n"
          "A session is a name that you choose: 1 to 63 letters, digits, \".\", \"_\" and \"-\".\n"
          "\n"
          "Verbs (`handsfs VERB --help` tells more):\n",
          out);
    for (const struct verb *const *verb = verbs; *verb != NULL; verb++) {
        fprintf(out, "  %-10s %s\n", (*verb)->name, (*verb)->summary);
    }
    fputs("\n"
          "An option can be given as --KEY=VALUE or --KEY VALUE, to mount also as -o KEY=VALUE, in "
          "the\n"
          "environment as HANDSFS_KEY, and as a line KEY = VALUE of ~/.config/handsfs/config or\n"
          "/etc/handsfs/config. The first of these that has it counts.\n"
          "\n"
          "  handsfs --version\n"
          "\n"
          "If something does not work, `handsfs doctor` says what this machine lacks.\n",
          out);
}

void help_verb(FILE *out, const struct verb *verb)
{
    fprintf(out, "Usage: handsfs %s %s\n\n%s", verb->name, verb->synopsis, verb->text);
    print_options(out, "The sandbox (when it is made)", verb->groups & OPTIONS_SPEC);
    print_options(out, "The mount", verb->groups & OPTIONS_MOUNT);
    print_options(out, "The command", verb->groups & OPTIONS_EXEC);
    print_options(out, "Options",
                  verb->groups & ~(unsigned)(OPTIONS_SPEC | OPTIONS_MOUNT | OPTIONS_EXEC));
    fprintf(out, "\nExamples:\n%s", verb->examples);
}
