/* Nodes: one inode, one node, whatever its names; and nobody's data under another's name. */
#include "fs/node.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct nodes nodes;

static void setup(void)
{
    ck_assert_int_eq(nodes_init(&nodes), 0);
}

static void teardown(void)
{
    nodes_release(&nodes);
}

static struct wire_attr inode(uint64_t ino, uint32_t type)
{
    return (struct wire_attr){
        .dev = 1, .ino = ino, .mode = type | 0644, .nlink = 1, .size = 5, .mtime = {10, 20}};
}

/* As a lookup that the kernel has got the answer of. */
static struct node *met(struct node *parent, const char *name, uint64_t ino, uint32_t type)
{
    struct wire_attr attr = inode(ino, type);
    struct node *node = node_learn(&nodes, parent, name, strlen(name), &attr);

    ck_assert_ptr_nonnull(node);
    node_looked_up(node);
    return node;
}

static struct node *dir(struct node *parent, const char *name, uint64_t ino)
{
    return met(parent, name, ino, S_IFDIR);
}

static struct node *file(struct node *parent, const char *name, uint64_t ino)
{
    return met(parent, name, ino, S_IFREG);
}

static void renamed(struct node *from, const char *name, struct node *to, const char *name2,
                    bool exchange)
{
    node_renamed(&nodes, from, name, strlen(name), to, name2, strlen(name2), exchange);
}

static void expect_path(const struct node *node, const char *expected)
{
    struct buffer path = BUFFER_INIT(WIRE_MAX_PATH);
    uint64_t serial;

    ck_assert_int_eq(node_path(node, &path, &serial), 0);
    ck_assert_str_eq(buffer_text(&path), expected);
    buffer_release(&path);
}

static void expect_stale(const struct node *node)
{
    struct buffer path = BUFFER_INIT(WIRE_MAX_PATH);
    uint64_t serial;

    ck_assert_int_eq(node_path(node, &path, &serial), -1);
    ck_assert_int_eq(errno, ESTALE);
    buffer_release(&path);
}

START_TEST(a_path_is_told_from_the_root)
{
    struct node *a = dir(nodes.root, "a", 2);
    struct node *b = dir(a, "b", 3);

    expect_path(nodes.root, "");
    expect_path(a, "a");
    expect_path(file(b, "c", 4), "a/b/c");
}
END_TEST

START_TEST(a_file_that_is_met_again_is_the_same_node)
{
    struct node *a = file(nodes.root, "a", 2);

    ck_assert_ptr_eq(file(nodes.root, "a", 2), a);
    ck_assert_uint_eq(a->lookups, 2);
    ck_assert_uint_eq(a->name_count, 1);
    ck_assert_ptr_eq(nodes_find(&nodes, a->id), a);
}
END_TEST

START_TEST(hard_links_are_one_node_with_two_names)
{
    struct node *d = dir(nodes.root, "d", 9);
    struct node *a = file(nodes.root, "a", 2);

    ck_assert_ptr_eq(file(d, "b", 2), a);
    ck_assert_uint_eq(a->name_count, 2);
    expect_path(a, "d/b");
    a->nlink = 2;
    node_unlinked(&nodes, d, "b", 1);
    expect_path(a, "a");
    ck_assert_ptr_eq(file(d, "again", 2), a);
}
END_TEST

START_TEST(a_name_that_leads_to_another_file_is_another_node)
{
    struct node *a = file(nodes.root, "a", 2);
    struct node *b = file(nodes.root, "a", 3);

    ck_assert_ptr_ne(a, b);
    expect_path(b, "a");
    expect_stale(a);
}
END_TEST

START_TEST(an_inode_number_with_another_type_is_another_node)
{
    struct node *a = file(nodes.root, "a", 2);
    struct node *b = met(nodes.root, "b", 2, S_IFLNK);

    ck_assert_ptr_ne(a, b);
    expect_stale(a);
}
END_TEST

START_TEST(a_directory_that_was_moved_inside_is_a_new_node)
{
    struct node *a = dir(nodes.root, "a", 2);
    struct node *b = dir(nodes.root, "b", 3);
    struct node *x = dir(b, "x", 4);
    struct node *f = file(x, "f", 5);
    struct node *moved = dir(a, "x", 4);

    ck_assert_ptr_ne(moved, x);
    expect_path(moved, "a/x");
    expect_stale(x);
    expect_stale(f);
    ck_assert_ptr_eq(file(moved, "f", 5), f);
    expect_path(f, "a/x/f");
}
END_TEST

START_TEST(a_directory_moved_below_its_own_child_makes_no_circle)
{
    struct node *a = dir(nodes.root, "a", 2);
    struct node *b = dir(a, "b", 3);
    struct node *b2 = dir(nodes.root, "b", 3);
    struct node *a2 = dir(b2, "a", 2);

    expect_path(a2, "b/a");
    expect_stale(a);
    expect_stale(b);
}
END_TEST

START_TEST(a_rename_through_the_mount_keeps_the_node)
{
    struct node *a = dir(nodes.root, "a", 2);
    struct node *b = dir(nodes.root, "b", 3);
    struct node *x = dir(a, "x", 4);
    struct node *f = file(x, "f", 5);

    renamed(a, "x", b, "y", false);
    expect_path(f, "b/y/f");
    ck_assert_ptr_eq(dir(b, "y", 4), x);
}
END_TEST

START_TEST(a_rename_over_a_file_ends_its_name)
{
    struct node *a = file(nodes.root, "a", 2);
    struct node *b = file(nodes.root, "b", 3);

    renamed(nodes.root, "a", nodes.root, "b", false);
    expect_path(a, "b");
    expect_stale(b);
    /* Its number may be used by a new file now, which is another node. */
    ck_assert_ptr_ne(file(nodes.root, "new", 3), b);
}
END_TEST

START_TEST(a_rename_between_two_names_of_one_file_changes_nothing)
{
    struct node *a = file(nodes.root, "a", 2);

    file(nodes.root, "b", 2);
    renamed(nodes.root, "a", nodes.root, "b", false);
    ck_assert_uint_eq(a->name_count, 2);
}
END_TEST

START_TEST(an_exchange_swaps_the_names)
{
    struct node *d = dir(nodes.root, "d", 9);
    struct node *a = file(nodes.root, "a", 2);
    struct node *b = dir(d, "b", 3);
    struct node *f = file(b, "f", 4);

    renamed(nodes.root, "a", d, "b", true);
    expect_path(a, "d/b");
    expect_path(b, "a");
    expect_path(f, "a/f");
}
END_TEST

START_TEST(a_rename_of_what_was_never_met_only_removes_the_target)
{
    struct node *b = file(nodes.root, "b", 3);

    renamed(nodes.root, "unknown", nodes.root, "b", false);
    expect_stale(b);
}
END_TEST

START_TEST(an_unlinked_files_inode_number_may_be_used_again)
{
    struct node *a = file(nodes.root, "a", 2);

    node_unlinked(&nodes, nodes.root, "a", 1);
    expect_stale(a);
    ck_assert_ptr_ne(file(nodes.root, "b", 2), a);
}
END_TEST

START_TEST(a_forgotten_node_is_gone_and_its_number_is_not_used_again)
{
    struct node *a = file(nodes.root, "a", 2);
    uint64_t id = a->id;

    file(nodes.root, "a", 2);
    node_forget(&nodes, a, 1);
    ck_assert_ptr_eq(nodes_find(&nodes, id), a);
    node_forget(&nodes, a, 1);
    ck_assert_ptr_null(nodes_find(&nodes, id));
    ck_assert_uint_ne(file(nodes.root, "a", 2)->id, id);
}
END_TEST

START_TEST(forgetting_more_than_was_looked_up_is_forgetting_all)
{
    struct node *a = file(nodes.root, "a", 2);
    uint64_t id = a->id;

    node_forget(&nodes, a, UINT64_MAX);
    ck_assert_ptr_null(nodes_find(&nodes, id));
    node_forget(&nodes, nodes.root, UINT64_MAX);
    ck_assert_ptr_nonnull(nodes_find(&nodes, NODE_ROOT_ID));
}
END_TEST

START_TEST(a_forgotten_directory_stays_while_something_hangs_below_it)
{
    struct node *a = dir(nodes.root, "a", 2);
    struct node *b = dir(a, "b", 3);
    struct node *f = file(b, "f", 4);
    uint64_t a_id = a->id, b_id = b->id;

    node_forget(&nodes, a, 1);
    node_forget(&nodes, b, 1);
    expect_path(f, "a/b/f");
    node_forget(&nodes, f, 1);
    ck_assert_ptr_null(nodes_find(&nodes, a_id));
    ck_assert_ptr_null(nodes_find(&nodes, b_id));
}
END_TEST

START_TEST(a_file_with_two_names_in_one_forgotten_directory_frees_both)
{
    struct node *d = dir(nodes.root, "d", 9);
    struct node *a = file(d, "a", 2);

    file(d, "b", 2);
    node_forget(&nodes, d, 1);
    node_forget(&nodes, a, 2);
    ck_assert_uint_eq(nodes.ids.count, 1);
    ck_assert_uint_eq(nodes.names.count, 0);
    ck_assert_uint_eq(nodes.inodes.count, 0);
}
END_TEST

START_TEST(a_pinned_node_survives_being_forgotten)
{
    struct node *a = file(nodes.root, "a", 2);
    uint64_t id = a->id;

    node_pin(a);
    node_forget(&nodes, a, 1);
    ck_assert_ptr_eq(nodes_find(&nodes, id), a);
    node_unpin(&nodes, a);
    ck_assert_ptr_null(nodes_find(&nodes, id));
}
END_TEST

START_TEST(a_name_that_was_dropped_leaves_the_others)
{
    struct node *a = file(nodes.root, "a", 2);
    struct buffer path = BUFFER_INIT(WIRE_MAX_PATH);
    uint64_t serial;

    file(nodes.root, "b", 2);
    ck_assert_int_eq(node_path(a, &path, &serial), 0);
    node_drop_name(&nodes, a, serial);
    expect_path(a, "a");
    node_drop_name(&nodes, a, serial); /* again: nothing */
    expect_path(a, "a");
    buffer_release(&path);
}
END_TEST

START_TEST(names_of_one_file_have_a_bound)
{
    struct node *a = file(nodes.root, "first", 2);
    char name[32];

    for (int i = 0; i < 2 * NODE_MAX_NAMES; i++) {
        snprintf(name, sizeof name, "n%d", i);
        ck_assert_ptr_eq(file(nodes.root, name, 2), a);
    }
    ck_assert_uint_eq(a->name_count, NODE_MAX_NAMES);
    expect_path(a, name);
}
END_TEST

START_TEST(a_path_that_the_wire_does_not_take_is_too_long)
{
    struct node *at = nodes.root;
    struct buffer path = BUFFER_INIT(WIRE_MAX_PATH);
    char name[WIRE_MAX_NAME + 1];
    uint64_t serial;

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (uint64_t i = 0; i < WIRE_MAX_PATH / 256 + 1; i++) {
        at = dir(at, name, 100 + i);
    }
    ck_assert_int_eq(node_path(at, &path, &serial), -1);
    ck_assert_int_eq(errno, ENAMETOOLONG);
    buffer_release(&path);
}
END_TEST

START_TEST(depth_counts_the_directories_above_each_name)
{
    struct node *a = dir(nodes.root, "a", 2);
    struct node *b = dir(a, "b", 3);
    struct node *l = met(nodes.root, "l", 4, S_IFLNK);
    unsigned least, most;

    ck_assert_int_eq(node_depth(l, &least, &most), 0);
    ck_assert_uint_eq(least, 0);
    ck_assert_uint_eq(most, 0);
    met(b, "l", 4, S_IFLNK);
    ck_assert_int_eq(node_depth(l, &least, &most), 0);
    ck_assert_uint_eq(least, 0);
    ck_assert_uint_eq(most, 2);
    node_detach(&nodes, l);
    ck_assert_int_eq(node_depth(l, &least, &most), -1);
}
END_TEST

START_TEST(a_change_of_size_or_time_differs_while_the_kernel_believes)
{
    struct node *a = file(nodes.root, "a", 2);
    struct wire_attr attr = inode(2, S_IFREG);

    ck_assert(!node_differs(a, &attr, 1000, 1000));
    node_given(&nodes, a, &attr, 1000);
    ck_assert(!node_differs(a, &attr, 1500, 1000));
    attr.size = 6;
    ck_assert(node_differs(a, &attr, 1500, 1000));
    ck_assert(!node_differs(a, &attr, 2001, 1000));
    attr.size = 5;
    attr.ctime.nanoseconds++;
    ck_assert(node_differs(a, &attr, 1500, 1000));
}
END_TEST

START_TEST(another_sandbox_makes_every_node_but_the_root_stale)
{
    struct node *a = dir(nodes.root, "a", 2);
    struct node *f = file(a, "f", 3);

    nodes_detach_all(&nodes);
    expect_stale(a);
    expect_stale(f);
    expect_path(nodes.root, "");
    ck_assert_uint_eq(nodes.names.count, 0);
    ck_assert_ptr_ne(dir(nodes.root, "a", 2), a);
}
END_TEST

START_TEST(many_files_are_all_found_again)
{
    char name[32];

    for (uint64_t i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "f%d", (int)i);
        file(nodes.root, name, 100 + i);
    }
    for (uint64_t i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "f%d", (int)i);
        ck_assert_uint_eq(file(nodes.root, name, 100 + i)->lookups, 2);
    }
    ck_assert_uint_eq(nodes.ids.count, 5001);
}
END_TEST

UNIT_SUITE(node)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_path_is_told_from_the_root);
    tcase_add_test(tcase, a_file_that_is_met_again_is_the_same_node);
    tcase_add_test(tcase, hard_links_are_one_node_with_two_names);
    tcase_add_test(tcase, a_name_that_leads_to_another_file_is_another_node);
    tcase_add_test(tcase, an_inode_number_with_another_type_is_another_node);
    tcase_add_test(tcase, a_directory_that_was_moved_inside_is_a_new_node);
    tcase_add_test(tcase, a_directory_moved_below_its_own_child_makes_no_circle);
    tcase_add_test(tcase, a_rename_through_the_mount_keeps_the_node);
    tcase_add_test(tcase, a_rename_over_a_file_ends_its_name);
    tcase_add_test(tcase, a_rename_between_two_names_of_one_file_changes_nothing);
    tcase_add_test(tcase, an_exchange_swaps_the_names);
    tcase_add_test(tcase, a_rename_of_what_was_never_met_only_removes_the_target);
    tcase_add_test(tcase, an_unlinked_files_inode_number_may_be_used_again);
    tcase_add_test(tcase, a_forgotten_node_is_gone_and_its_number_is_not_used_again);
    tcase_add_test(tcase, forgetting_more_than_was_looked_up_is_forgetting_all);
    tcase_add_test(tcase, a_forgotten_directory_stays_while_something_hangs_below_it);
    tcase_add_test(tcase, a_file_with_two_names_in_one_forgotten_directory_frees_both);
    tcase_add_test(tcase, a_pinned_node_survives_being_forgotten);
    tcase_add_test(tcase, a_name_that_was_dropped_leaves_the_others);
    tcase_add_test(tcase, names_of_one_file_have_a_bound);
    tcase_add_test(tcase, a_path_that_the_wire_does_not_take_is_too_long);
    tcase_add_test(tcase, depth_counts_the_directories_above_each_name);
    tcase_add_test(tcase, a_change_of_size_or_time_differs_while_the_kernel_believes);
    tcase_add_test(tcase, another_sandbox_makes_every_node_but_the_root_stale);
    tcase_add_test(tcase, many_files_are_all_found_again);
}
