/* The contract's rows about the tools of an agent, through a gateway on the session's link. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "exec/tools.h"
#include "sandbox/cleanup.h"
#include "tests/contract/session.h"

static struct gateway *gateway;
static json_t *answer; /* of the last call: {text, is_error, structured} */

static void setup_tools(void)
{
    struct gateway_host host = {NULL};
    struct error err;

    setup_session();
    assert_ok(gateway_open(&gateway, &S.loop, S.link, NULL, &host, &err), err);
}

static void set_flag(void *arg)
{
    *(bool *)arg = true;
}

static void teardown_tools(void)
{
    bool closed = false;

    json_decref(answer);
    answer = NULL;
    gateway_close(gateway, set_flag, &closed);
    while (!closed) {
        uv_run(&S.loop, UV_RUN_ONCE);
    }
    teardown_session();
}

static void have_answer(void *arg, const struct error *err, const struct tool_result *result)
{
    ck_assert_msg(err == NULL, "%s", err != NULL ? err->message : "");
    *(json_t **)arg = json_pack("{s:O, s:b, s:O}", "text", result->text, "is_error",
                                (int)result->is_error, "structured", result->structured);
}

/* The text of the answer; `arguments` is JSON with ' for ". */
static const char *tool(const char *name, const char *arguments)
{
    cleanup_free char *text = strdup(arguments);
    json_error_t where;
    json_t *object;
    struct error err;

    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    object = json_loads(text, JSON_ALLOW_NUL, &where);
    ck_assert_msg(object != NULL, "%s: %s", where.text, text);
    json_decref(answer);
    answer = NULL;
    ck_assert_ptr_nonnull(tool_call_start(gateway, name, object, NULL, have_answer, &answer, &err));
    json_decref(object);
    while (answer == NULL) {
        uv_run(&S.loop, UV_RUN_ONCE);
    }
    return json_string_value(json_object_get(answer, "text"));
}

static bool is_error(void)
{
    return json_is_true(json_object_get(answer, "is_error"));
}

static json_int_t field(const char *name)
{
    return json_integer_value(json_object_get(json_object_get(answer, "structured"), name));
}

#define assert_tool(name, arguments, want)                                                         \
    do {                                                                                           \
        ck_assert_str_eq(tool(name, arguments), want);                                             \
        ck_assert(!is_error());                                                                    \
    } while (0)
#define assert_tool_fails(name, arguments, part)                                                   \
    do {                                                                                           \
        const char *text_ = tool(name, arguments);                                                 \
        ck_assert_msg(strstr(text_, part) != NULL, "%s", text_);                                   \
        ck_assert(is_error());                                                                     \
    } while (0)

START_TEST(read_gives_a_file_or_a_range_and_says_why_not)
{
    session_output(&S, "printf 'one\\ntwo\\nthree\\n' > a.txt; mkdir d; mkfifo p; ln -s a.txt l");
    assert_tool("read", "{'file_path':'a.txt'}", "one\ntwo\nthree\n");
    assert_tool("read", "{'file_path':'/workspace/d/../a.txt','view_range':[2,3]}", "two\nthree\n");
    assert_tool("read", "{'file_path':'a.txt','view_range':[2,0]}", "two\nthree\n");
    assert_tool("read", "{'file_path':'a.txt','view_range':[99,100]}", "");
    assert_tool("read", "{'file_path':'a.txt','view_range':[3,1]}", "");
    assert_tool("read", "{'file_path':'a.txt','view_range':[2,2],'line_numbers':true}", "     2\ttwo\n");
    assert_tool_fails("read", "{'file_path':'a.txt','view_range':[2]}", "invalid read input");
    assert_tool_fails("read", "{'file_path':'missing'}", "read missing: no such file or directory");
    assert_tool_fails("read", "{'file_path':'d'}", "d is not a regular file");
    assert_tool_fails("read", "{'file_path':'p'}", "p is not a regular file");
    assert_tool_fails("read", "{'file_path':'l'}", "l is not a regular file");
    assert_tool_fails("read", "{'file_path':'a.txt/x'}", "not a directory");
    assert_tool_fails("read", "{'file_path':'a\\u0000b'}", "must not contain a NUL byte");
}
END_TEST

START_TEST(a_range_of_a_file_over_the_cap_is_read)
{
    session_output(&S, "yes 0123456789abcde | head -n 400000 > big; echo end >> big");
    assert_tool("read", "{'file_path':'big','view_range':[400001,0]}", "end\n");
    assert_tool_fails("read", "{'file_path':'big'}", "exceeds the 4194304-byte limit");
}
END_TEST

START_TEST(write_makes_parents_and_counts_bytes)
{
    assert_tool("write", "{'file_path':'x/y/f','content':'\xc3\xa4\\n'}", "wrote 3 bytes to x/y/f");
    ck_assert_str_eq(session_output(&S, "cat x/y/f"), "\xc3\xa4\n");
    assert_tool("write", "{'file_path':'x/y/f','content':''}", "wrote 0 bytes to x/y/f");
    assert_tool_fails("write", "{'file_path':'x','content':''}", "x is not a regular file");
    assert_tool_fails("write", "{'file_path':'x/y/f/g','content':''}", "not a directory");
    assert_tool_fails("write", "{'file_path':'f','content':1}", "\"content\" is not a string");
    assert_tool_fails("write", "{'file_path':'f','contents':''}", "unknown property");
}
END_TEST

START_TEST(edit_replaces_what_is_unique_or_all)
{
    session_output(&S, "printf 'a b a c a\\n' > f; chmod 751 f");
    assert_tool_fails("edit", "{'file_path':'f','old_string':'a','new_string':'x'}", "appears 3 times");
    assert_tool("edit", "{'file_path':'f','old_string':'b','new_string':'$(id)'}", "edited f (1 replacement)");
    assert_tool("edit", "{'file_path':'f','old_string':'a','new_string':'x','replace_all':true}",
                "edited f (3 replacements)");
    ck_assert_str_eq(session_output(&S, "cat f; stat -c %a f"), "x $(id) x c x\n751\n");
    assert_tool_fails("edit", "{'file_path':'f','old_string':'a','new_string':'x'}", "not found");
    assert_tool_fails("edit", "{'file_path':'f','old_string':'','new_string':'x'}", "old_string is required");
    assert_tool_fails("edit", "{'file_path':'g','old_string':'a','new_string':'x'}", "no such file");
    session_output(&S, "mkfifo p");
    assert_tool_fails("edit", "{'file_path':'p','old_string':'a','new_string':'x'}", "not a regular file");
}
END_TEST

START_TEST(an_edit_or_a_write_of_a_state_that_is_gone_is_refused)
{
    char arguments[256], other[320];
    const char *version;

    session_output(&S, "echo one > f");
    tool("read", "{'file_path':'f'}");
    version = json_string_value(json_object_get(json_object_get(answer, "structured"), "version"));
    ck_assert_ptr_nonnull(version);
    snprintf(arguments, sizeof arguments,
             "{'file_path':'f','old_string':'one','new_string':'two','version':'%s'}", version);
    assert_tool("edit", arguments, "edited f (1 replacement)");
    assert_tool_fails("edit", arguments, "was changed");
    snprintf(other, sizeof other, "{'file_path':'f','content':'x',%s", strstr(arguments, "'version'"));
    assert_tool_fails("write", other, "was changed");
    ck_assert_str_eq(session_output(&S, "cat f"), "two\n");
}
END_TEST

START_TEST(glob_is_the_shell_s_and_the_newest_come_first)
{
    session_output(&S, "mkdir -p s/t; touch -d 2020-01-01 a.c; touch -d 2023-01-01 .b.c; touch -d 2022-01-01 s/d.c;"
                       "touch -d 2021-01-01 's/t/x y.c'; touch -d 2024-01-01 $'s/n\\nl.h' 's/$(id).h'; ln -s . s/up");
    assert_tool("glob", "{'pattern':'*.c'}", "/workspace/.b.c\n/workspace/a.c");
    assert_tool("glob", "{'pattern':'**/*.c'}",
                "/workspace/.b.c\n/workspace/s/d.c\n/workspace/s/t/x y.c\n/workspace/a.c");
    assert_tool("glob", "{'pattern':'* *','path':'s/t'}", "/workspace/s/t/x y.c");
    assert_tool("glob", "{'pattern':'/workspace/s/{d,e}.c','path':'/nonexistent'}", "/workspace/s/d.c");
    assert_tool("glob", "{'pattern':'s/*.h'}", "/workspace/s/$(id).h\n$'/workspace/s/n\\nl.h'");
    ck_assert_int_eq(field("matches"), 2);
    assert_tool("glob", "{'pattern':'*.nope'}", "no matches");
    assert_tool_fails("glob", "{'pattern':'*','path':'nope'}", "glob nope: no such file or directory");
    session_output(&S, "mkdir many; cd many; for i in {1..250}; do : > $i; done");
    tool("glob", "{'pattern':'many/*'}");
    ck_assert_int_eq(field("matches"), 250);
    ck_assert_uint_eq(
        json_array_size(json_object_get(json_object_get(answer, "structured"), "paths")), 200);
}
END_TEST

START_TEST(grep_tells_path_line_and_text_and_skips_what_is_binary)
{
    session_output(&S, "mkdir s node_modules; printf 'x\\nfoo 12\\n' > s/a; echo 'foo 3' > node_modules/b;"
                       "printf 'foo 4\\0' > bin; echo '/usr $(id)' > p");
    assert_tool("grep", "{'pattern':'foo \\\\d+'}", "/workspace/s/a:2:foo 12");
    assert_tool("grep", "{'pattern':'/usr'}", "/workspace/p:1:/usr $(id)");
    assert_tool("grep", "{'pattern':'$(id)','fixed':true}", "/workspace/p:1:/usr $(id)");
    assert_tool("grep", "{'pattern':'FOO','ignore_case':true,'mode':'files'}", "/workspace/s/a");
    assert_tool("grep", "{'pattern':'foo','context':1}", "/workspace/s/a-1-x\n/workspace/s/a:2:foo 12");
    assert_tool("grep", "{'pattern':'foo','all':true,'mode':'count'}",
                "/workspace/node_modules/b:1\n/workspace/s/a:1");
    assert_tool("grep", "{'pattern':'nothing'}", "no matches");
    assert_tool_fails("grep", "{'pattern':'('}", "invalid regular expression");
    assert_tool_fails("grep", "{'pattern':'x','path':'nope'}", "grep nope: no such file or directory");
}
END_TEST

START_TEST(what_is_over_the_cap_is_in_a_file_inside)
{
    char command[256];
    const char *file, *shown;

    session_output(&S, "for i in {1..14000}; do echo needle $i \xe2\x82\xac; done > f");
    tool("grep", "{'pattern':'needle'}");
    ck_assert_int_eq(field("matches"), 14000);
    file = json_string_value(json_object_get(json_object_get(answer, "structured"), "output_file"));
    shown = json_string_value(json_object_get(json_object_get(answer, "structured"), "output"));
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_le(strlen(shown), TOOL_MAX_TEXT);
    snprintf(command, sizeof command, "grep -c needle %s; head -c %zu %s | sha256sum", file, strlen(shown), file);
    ck_assert_ptr_nonnull(strstr(session_output(&S, command), "14000\n"));
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(answer, "text")), file));
    snprintf(command, sizeof command, "head -c %zu %s", strlen(shown), file);
    ck_assert_str_eq(session_output(&S, command), shown);
}
END_TEST

START_TEST(no_more_such_files_are_kept_than_the_bound)
{
    const char *file;
    char command[512];

    session_output(&S, "rm -rf /tmp/tool_outputs; mkdir -p /tmp/tool_outputs; cd /tmp/tool_outputs;"
                       "for i in {10..79}; do f=bash-00000000000000$i.txt; echo $i > $f;"
                       "touch -d @$((1500000000 + i)) $f; done;"
                       "echo mine > notes; ln -s notes bash-00000000000000ff.txt; mkdir bash-00000000000000fe.txt;"
                       "touch -d @1400000000 notes bash-00000000000000fe.txt;"
                       "cd /workspace; for i in {1..14000}; do echo needle $i xyz; done > f");
    tool("grep", "{'pattern':'needle'}");
    file = json_string_value(json_object_get(json_object_get(answer, "structured"), "output_file"));
    ck_assert_ptr_nonnull(file);
    snprintf(command, sizeof command, "cd /tmp/tool_outputs; set -- *-*.txt; echo $#; grep -c needle %s; cat notes;"
             "for f in bash-00000000000000{10,16,17,fe,ff,79}.txt; do [ -e $f ] && echo $f; done", file);
    ck_assert_str_eq(session_output(&S, command),
                     "66\n14000\nmine\nbash-0000000000000017.txt\nbash-00000000000000fe.txt\n"
                     "bash-00000000000000ff.txt\nbash-0000000000000079.txt\n");
}
END_TEST

START_TEST(bash_says_how_it_ended_also_behind_a_flood)
{
    const char *text;

    assert_tool("bash", "{'command':'echo out; echo err >&2'}", "out\nerr\n");
    assert_tool_fails("bash", "{'command':'exit 3'}", "exit code: 3");
    text = tool("bash", "{'command':'yes | head -c 3000000; exit 4'}");
    ck_assert(is_error());
    ck_assert_str_eq(text + strlen(text) - 12, "exit code: 4");
    text = tool("bash", "{'command':'echo a; sleep 60','timeout_ms':4500}");
    ck_assert(is_error());
    ck_assert_ptr_nonnull(strstr(text, "a\ntimed out after 4.5s"));
    ck_assert_ptr_null(strstr(text, "exit code"));
    assert_tool("bash", "{'command':'head -c 200000 /dev/zero; echo e >&2'}", "e\n");
    assert_tool("bash", "{'command':'cd /; x=1; export y=2'}", "");
    assert_tool("bash", "{'command':'pwd; echo $y'}", "/\n2\n");
    assert_tool("bash", "{'command':'pwd','shell':'other'}", "/workspace\n");
    assert_tool("bash", "{'restart':true}", "bash session restarted");
    assert_tool("bash", "{'command':'pwd'}", "/workspace\n");
    assert_tool_fails("bash", "{'command':'pwd','shell':'a/b'}", "letters");
    assert_tool_fails("bash", "{}", "command is required");
    assert_tool_fails("nope", "{}", "unknown tool \"nope\"");
}
END_TEST

TCase *case_tools(void)
{
    TCase *tc = tcase_create("tools");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup_tools, teardown_tools);
    tcase_add_test(tc, read_gives_a_file_or_a_range_and_says_why_not);
    tcase_add_test(tc, a_range_of_a_file_over_the_cap_is_read);
    tcase_add_test(tc, write_makes_parents_and_counts_bytes);
    tcase_add_test(tc, edit_replaces_what_is_unique_or_all);
    tcase_add_test(tc, an_edit_or_a_write_of_a_state_that_is_gone_is_refused);
    tcase_add_test(tc, glob_is_the_shell_s_and_the_newest_come_first);
    tcase_add_test(tc, grep_tells_path_line_and_text_and_skips_what_is_binary);
    tcase_add_test(tc, what_is_over_the_cap_is_in_a_file_inside);
    tcase_add_test(tc, no_more_such_files_are_kept_than_the_bound);
    tcase_add_test(tc, bash_says_how_it_ended_also_behind_a_flood);
    return tc;
}
