/* Options: where they come from, which wins, and what is refused. */
#include "mount/options.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define ALL (~0u)
#define MOUNT_GROUPS (OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_SPEC | OPTIONS_MOUNT)
#define EXEC_GROUPS (OPTIONS_COMMON | OPTIONS_BACKEND | OPTIONS_EXEC | OPTIONS_JSON)

static struct options options;
static struct error err;

static void set_up(void)
{
    options_init(&options);
    err = (struct error){0};
}

static void tear_down(void)
{
    options_release(&options);
}

static void config(const char *text, int expected)
{
    ck_assert_int_eq(options_read_config(&options, text, strlen(text), "file", &err), expected);
}

/* Reads up to eight words of a command line. */
static int read_words(const char *line, unsigned groups, size_t max_words, bool takes_command,
                      struct arguments *ret)
{
    static char copy[256];
    static char *words[8];
    char *rest = copy;
    char *word;
    int count = 0;

    snprintf(copy, sizeof copy, "%s", line);
    while (count < 8 && (word = strsep(&rest, " ")) != NULL) {
        words[count++] = word;
    }
    *ret = (struct arguments){0};
    return options_read_arguments(&options, count, words, groups, max_words, takes_command, ret,
                                  &err);
}

START_TEST(a_name_means_what_the_verb_means_by_it)
{
    struct arguments arguments;

    ck_assert_uint_eq(options.wait_ms, OPTIONS_WAIT_FOR_EVER);
    ck_assert_int_eq(read_words("s1 job --timeout 5s", OPTIONS_COMMON | OPTIONS_WAIT, 2, false, &arguments), 0);
    free(arguments.words);
    ck_assert_uint_eq(options.wait_ms, 5000);
    ck_assert_uint_eq(options.timeout_ms, 0);
    ck_assert_int_eq(read_words("s1 --timeout=7s -d -- a", EXEC_GROUPS, 1, true, &arguments), 0);
    free(arguments.words);
    ck_assert_uint_eq(options.wait_ms, 5000);
    ck_assert_uint_eq(options.timeout_ms, 7000);
    ck_assert(options.detach);
    config("timeout = 9s", 0); /* a file's is exec's alone */
    ck_assert_uint_eq(options.wait_ms, 5000);
    ck_assert_uint_eq(options.timeout_ms, 9000);
    ck_assert_int_eq(read_words("s1 --kill -- a", EXEC_GROUPS, 1, true, &arguments), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(what_nobody_said_has_the_documented_default)
{
    struct fs_options fs;

    ck_assert_ptr_null(options.backend);
    ck_assert_uint_eq(options.max_file_size, MAX_FILE_BYTES);
    ck_assert_int_eq(options_spec(&options, "s1", &err), 0);
    ck_assert_int_eq(options.spec.network, NETWORK_NONE);
    ck_assert_str_eq(options.spec.workdir, DEFAULT_WORKDIR);
    options_fs(&options, &fs);
    ck_assert_int_eq(fs.idmap, FS_IDMAP_USER);
    ck_assert_int_eq(fs.symlinks, FS_SYMLINKS_CONTAINED);
    ck_assert_int_eq(fs.special, FS_SPECIAL_SOCKET);
    ck_assert(!fs.read_only && !fs.allow_other);
}
END_TEST

START_TEST(a_later_source_wins_over_an_earlier_one)
{
    static char *const environment[] = {(char *)"HANDSFS_WORKDIR=/env", (char *)"HANDSFS_MEMORY=2M",
                                        (char *)"PATH=/bin", NULL};
    struct arguments arguments;

    config("workdir = /file\nmemory = 1M\npids = 7\n", 0);
    ck_assert_int_eq(options_read_environment(&options, environment, &err), 0);
    ck_assert_int_eq(read_words("s1 /d --workdir=/line", MOUNT_GROUPS, 2, false, &arguments), 0);
    ck_assert_str_eq(options.spec.workdir, "/line");
    ck_assert_uint_eq(options.spec.memory_bytes, 2u << 20);
    ck_assert_uint_eq(options.spec.pids, 7);
    free(arguments.words);
}
END_TEST

START_TEST(a_config_file_has_keys_comments_and_blank_lines)
{
    config("# a comment\n\n  backend =  local  \n\tnetwork=full\nread_only_root = yes\nro\n", 0);
    ck_assert_str_eq(options.backend, "local");
    ck_assert_int_eq(options.network, NETWORK_FULL);
    ck_assert(options.spec.read_only_root);
    ck_assert(options.read_only);
}
END_TEST

START_TEST(an_unknown_key_is_an_error_that_names_it_and_its_line)
{
    config("backend = local\ncolour = red\n", -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(err.message, "file:2"));
    ck_assert_ptr_nonnull(strstr(err.message, "\"colour\""));
    ck_assert_int_eq(options_read_list(&options, "ro,colour=red", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.message, "\"colour\""));
}
END_TEST

START_TEST(what_belongs_on_a_command_line_is_refused_in_a_file)
{
    static const char *const rows[] = {"json",   "foreground", "help", "cwd = /",
                                       "o = ro", "= 1",        "lazy"};

    config(rows[_i], -1);
}
END_TEST

START_TEST(an_o_list_sets_what_the_long_options_set)
{
    ck_assert_int_eq(options_read_list(&options,
                                       "backend=local,op_timeout=250ms,max_file_size=0,idmap=none,"
                                       "symlinks=raw,special=real,allow_other,ro,env=A=b\\,c,"
                                       "cap_drop=NET_RAW:cap_chown,cpus=0.5,user=1000:1000",
                                       &err),
                     0);
    ck_assert_str_eq(options.backend, "local");
    ck_assert_uint_eq(options.op_timeout_ms, 250);
    ck_assert_uint_eq(options.max_file_size, 0);
    ck_assert_int_eq(options.idmap, FS_IDMAP_NONE);
    ck_assert_int_eq(options.symlinks, FS_SYMLINKS_RAW);
    ck_assert_int_eq(options.special, FS_SPECIAL_REAL);
    ck_assert(options.allow_other && options.read_only);
    ck_assert_str_eq(options.spec.env.entries[0], "A=b,c");
    ck_assert_str_eq(options.spec.cap_drop[0], "NET_RAW");
    ck_assert_str_eq(options.spec.cap_drop[1], "CHOWN");
    ck_assert_ptr_null(options.spec.cap_drop[2]);
    ck_assert_uint_eq(options.spec.cpu_millis, 500);
    ck_assert_str_eq(options.spec.user, "1000:1000");
}
END_TEST

START_TEST(what_mount_says_to_every_file_system_is_passed_over)
{
    ck_assert_int_eq(
        options_read_list(&options,
                          "rw,nosuid,nodev,dev,suid,noauto,user,_netdev,x-systemd.automount,"
                          "x-gvfs-hide,nofail,relatime,defaults",
                          &err),
        0);
    ck_assert_ptr_null(options.spec.user);
    ck_assert(!options.read_only && !options.no_exec);
}
END_TEST

START_TEST(a_later_rw_takes_back_an_earlier_ro)
{
    ck_assert_int_eq(options_read_list(&options, "ro,noexec,rw,exec", &err), 0);
    ck_assert(!options.read_only && !options.no_exec);
}
END_TEST

START_TEST(values_that_make_no_sense_are_refused)
{
    static const char *const rows[][2] = {
        {"network", "some"},  {"idmap", ""},      {"memory", "lots"},     {"pids", "-1"},
        {"pids", ""},         {"cpus", "0.5.1"},  {"cpus", "two"},        {"cpus", "5ms"},
        {"cpus", ""},         {"cpus", "m"},      {"op-timeout", "1h"},   {"ro", "perhaps"},
        {"backend", ""},      {"env", "1A=b"},    {"env", "A"},           {"cap-drop", ""},
        {"cap-drop", "A::B"}, {"cap-drop", "A:"}, {"pids", "4294967296"}, {"cpus", "1e3"}};

    ck_assert_int_eq(options_set(&options, rows[_i][0], rows[_i][1], ALL, OPTION_FROM_FILE, &err),
                     -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_msg(strstr(err.message, rows[_i][0]) != NULL || strcmp(rows[_i][0], "env") == 0,
                  "not named: %s", err.message);
}
END_TEST

START_TEST(processors_are_decimal_or_thousandths)
{
    static const struct {
        const char *text;
        unsigned millis;
    } rows[] = {{"2", 2000},   {"0.5", 500}, {"1.25", 1250},
                {"500m", 500}, {"0.001", 1}, {".5", 500}};

    ck_assert_int_eq(options_set(&options, "cpus", rows[_i].text, ALL, OPTION_FROM_FILE, &err), 0);
    ck_assert_uint_eq(options.spec.cpu_millis, rows[_i].millis);
}
END_TEST

START_TEST(a_value_is_behind_an_equals_sign_or_the_next_word)
{
    struct arguments arguments;

    ck_assert_int_eq(
        read_words("--workdir /w s1 --pids=3 /d -f -o ro", MOUNT_GROUPS, 2, false, &arguments), 0);
    ck_assert_uint_eq(arguments.count, 2);
    ck_assert_str_eq(arguments.words[0], "s1");
    ck_assert_str_eq(arguments.words[1], "/d");
    ck_assert_str_eq(options.spec.workdir, "/w");
    ck_assert_uint_eq(options.spec.pids, 3);
    ck_assert(options.foreground && options.read_only);
    free(arguments.words);
}
END_TEST

START_TEST(command_lines_that_make_no_sense_are_refused)
{
    static const char *const rows[] = {"s1 /d third",    "s1 --colour", "s1 -z",
                                       "s1 --workdir",   "s1 -o",       "--timeout=1",
                                       "s1 -o pids=red", "--json"};
    struct arguments arguments;

    ck_assert_int_eq(read_words(rows[_i], MOUNT_GROUPS, 2, false, &arguments), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(behind_two_dashes_everything_is_the_command)
{
    struct arguments arguments;

    ck_assert_int_eq(
        read_words("s1 --timeout 2s -- ls --json -n", EXEC_GROUPS, 1, true, &arguments), 0);
    ck_assert_uint_eq(arguments.count, 1);
    ck_assert_uint_eq(arguments.command_count, 3);
    ck_assert_str_eq(arguments.command[1], "--json");
    ck_assert(!options.json && !options.no_stdin);
    ck_assert_uint_eq(options.timeout_ms, 2000);
    free(arguments.words);
}
END_TEST

START_TEST(without_two_dashes_the_command_starts_behind_the_session)
{
    struct arguments arguments;

    ck_assert_int_eq(read_words("s1 --json ls -n", EXEC_GROUPS, 1, true, &arguments), 0);
    ck_assert_uint_eq(arguments.command_count, 2);
    ck_assert_str_eq(arguments.command[0], "ls");
    ck_assert(options.json && !options.no_stdin);
    free(arguments.words);
}
END_TEST

START_TEST(a_variable_on_execs_command_line_is_for_that_command_alone)
{
    struct arguments arguments;

    config("env = A=file\n", 0);
    ck_assert_int_eq(read_words("s1 --env B=line -- true", EXEC_GROUPS, 1, true, &arguments), 0);
    ck_assert_uint_eq(options.spec.env.count, 1);
    ck_assert_str_eq(options.spec.env.entries[0], "A=file");
    ck_assert_uint_eq(options.exec_env.count, 1);
    ck_assert_str_eq(options.exec_env.entries[0], "B=line");
    free(arguments.words);
}
END_TEST

START_TEST(other_variables_of_the_environment_are_left_alone)
{
    static char *const environment[] = {
        (char *)"HANDSFS_STATE_DIR=/x", (char *)"HANDSFS_HAND=/y", (char *)"HANDSFS_JSON=1",
        (char *)"HANDSFS_BACKEND=",     (char *)"HANDSFS=1",       NULL};

    ck_assert_int_eq(options_read_environment(&options, environment, &err), 0);
    ck_assert(!options.json);
    ck_assert_ptr_null(options.backend);
}
END_TEST

START_TEST(a_wrong_variable_is_named)
{
    static char *const environment[] = {(char *)"HANDSFS_OP_TIMEOUT=soon", NULL};

    ck_assert_int_eq(options_read_environment(&options, environment, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.message, "HANDSFS_OP_TIMEOUT"));
}
END_TEST

START_TEST(settings_of_the_backend_add_up)
{
    struct arguments arguments;

    config("set = pull=never\n", 0);
    ck_assert_int_eq(options_read_list(&options, "set=platform=linux/arm64", &err), 0);
    ck_assert_int_eq(
        read_words("s1 /d --set pull=always", MOUNT_GROUPS, 2, false, &arguments), 0);
    free(arguments.words);
    ck_assert_uint_eq(options.spec.engine.count, 2);
    ck_assert_str_eq(options.spec.engine.entries[0], "pull=always");
    ck_assert_str_eq(options.spec.engine.entries[1], "platform=linux/arm64");
    ck_assert_int_eq(options_set(&options, "set", "pull", ALL, OPTION_FROM_FILE, &err), -1);
}
END_TEST

START_TEST(a_container_of_somebody_else_is_one_of_docker)
{
    struct arguments arguments;

    config("backend = local\n", 0);
    ck_assert_int_eq(read_words("s1 /d --attach web", MOUNT_GROUPS, 2, false, &arguments), 0);
    free(arguments.words);
    ck_assert_int_eq(options_spec(&options, "s1", &err), 0);
    ck_assert_str_eq(options.spec.attach, "web");
    ck_assert_str_eq(options.backend, "docker");
    ck_assert_ptr_null(options.spec.workdir);
}
END_TEST

START_TEST(a_backend_that_was_chosen_is_kept_with_attach)
{
    static const char *const rows[][2] = {{"attach=web,backend=local", "local"},
                                          {"attach=web", "k8s"}};

    config("backend = k8s\n", 0);
    ck_assert_int_eq(options_read_list(&options, rows[_i][0], &err), 0);
    ck_assert_int_eq(options_spec(&options, "s1", &err), 0);
    ck_assert_str_eq(options.backend, rows[_i][1]);
}
END_TEST

START_TEST(what_a_container_is_made_from_does_not_go_with_attach)
{
    static const char *const rows[] = {"image=a", "network=full",   "memory=1G",   "cpus=1",
                                       "pids=9",  "read_only_root", "cap_drop=ALL",
                                       "user=5"};
    char list[64];

    snprintf(list, sizeof list, "attach=web,%s", rows[_i]);
    ck_assert_int_eq(options_read_list(&options, list, &err), 0);
    ck_assert_int_eq(options_spec(&options, "s1", &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(err.message, "--attach"));
}
END_TEST

START_TEST(defaults_for_made_containers_are_forgotten_with_attach)
{
    config("image = debian:12\nnetwork = full\nmemory = 1G\ncap_drop = ALL\nread-only-root\nuser = 5\n", 0);
    ck_assert_int_eq(options_read_list(&options, "attach=web,workdir=/usr/src/app", &err), 0);
    ck_assert_int_eq(options_spec(&options, "s1", &err), 0);
    ck_assert_ptr_null(options.spec.image);
    ck_assert_ptr_null(options.spec.cap_drop);
    ck_assert_uint_eq(options.spec.memory_bytes, 0);
    ck_assert(!options.spec.read_only_root);
    ck_assert_int_eq(options.spec.network, NETWORK_NONE);
    ck_assert_str_eq(options.spec.workdir, "/usr/src/app");
    ck_assert_ptr_null(options.spec.user);
}
END_TEST

START_TEST(a_session_without_a_name_has_its_containers)
{
    static const char *const rows[][2] = {
        {"web-1", "web-1"},
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "0123456789ab"},
        {"_x", NULL},
        {"a_name_of_more_than_sixty_three_letters_is_none_that_a_session_can_have", NULL},
    };
    char session[MAX_SESSION_NAME + 1];
    bool fits = rows[_i][1] != NULL;

    ck_assert_int_eq(options_set(&options, "attach", rows[_i][0], ALL, OPTION_FROM_FILE, &err), 0);
    ck_assert_int_eq(options_session_of_attach(&options, session, &err), fits ? 0 : -1);
    if (fits) {
        ck_assert_str_eq(session, rows[_i][1]);
    }
}
END_TEST

UNIT_SUITE(options)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_name_means_what_the_verb_means_by_it);
    tcase_add_test(tcase, what_nobody_said_has_the_documented_default);
    tcase_add_test(tcase, a_later_source_wins_over_an_earlier_one);
    tcase_add_test(tcase, a_config_file_has_keys_comments_and_blank_lines);
    tcase_add_test(tcase, an_unknown_key_is_an_error_that_names_it_and_its_line);
    tcase_add_loop_test(tcase, what_belongs_on_a_command_line_is_refused_in_a_file, 0, 7);
    tcase_add_test(tcase, an_o_list_sets_what_the_long_options_set);
    tcase_add_test(tcase, what_mount_says_to_every_file_system_is_passed_over);
    tcase_add_test(tcase, a_later_rw_takes_back_an_earlier_ro);
    tcase_add_loop_test(tcase, values_that_make_no_sense_are_refused, 0, 20);
    tcase_add_loop_test(tcase, processors_are_decimal_or_thousandths, 0, 6);
    tcase_add_test(tcase, a_value_is_behind_an_equals_sign_or_the_next_word);
    tcase_add_loop_test(tcase, command_lines_that_make_no_sense_are_refused, 0, 8);
    tcase_add_test(tcase, behind_two_dashes_everything_is_the_command);
    tcase_add_test(tcase, without_two_dashes_the_command_starts_behind_the_session);
    tcase_add_test(tcase, a_variable_on_execs_command_line_is_for_that_command_alone);
    tcase_add_test(tcase, other_variables_of_the_environment_are_left_alone);
    tcase_add_test(tcase, a_wrong_variable_is_named);
    tcase_add_test(tcase, settings_of_the_backend_add_up);
    tcase_add_test(tcase, a_container_of_somebody_else_is_one_of_docker);
    tcase_add_loop_test(tcase, a_backend_that_was_chosen_is_kept_with_attach, 0, 2);
    tcase_add_loop_test(tcase, what_a_container_is_made_from_does_not_go_with_attach, 0, 8);
    tcase_add_test(tcase, defaults_for_made_containers_are_forgotten_with_attach);
    tcase_add_loop_test(tcase, a_session_without_a_name_has_its_containers, 0, 4);
}
