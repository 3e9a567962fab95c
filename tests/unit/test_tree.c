/* Process trees: what is found below a process, and what is killed with it. */
#include "hand/tree.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

/* A subreaper with a tree below it; `build` runs in a child of it and says on the pipe when it stands. */
static pid_t plant(void (*build)(int ready), int *ret_ready)
{
    int ready[2];
    pid_t pid;

    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        close(ready[0]);
        if (fork() == 0) {
            setsid();
            build(ready[1]);
            _exit(0);
        }
        close(ready[1]);
        while (wait(NULL) > 0) {
        }
        _exit(0);
    }
    close(ready[1]);
    *ret_ready = ready[0];
    return pid;
}

/* Each process of a tree that stands writes a byte. */
static void wait_for(int ready, unsigned count)
{
    char c;

    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_eq(read(ready, &c, 1), 1);
    }
}

/* No process of the tree lives: all writing ends are closed. */
static void assert_all_gone(int ready)
{
    char c;

    ck_assert_int_eq(read(ready, &c, 1), 0);
    close(ready);
}

static void stand(int ready)
{
    if (write(ready, "x", 1) == 1) {
        for (;;) {
            pause();
        }
    }
    _exit(1);
}

static void mark_children(struct process_list *list, void *arg)
{
    for (size_t i = 0; i < list->count; i++) {
        list->at[i].owner = list->at[i].parent == *(pid_t *)arg ? arg : NULL;
    }
    processes_mark_below(list);
}

/* Kills what is below the subreaper, which then ends by itself. */
static void kill_below(pid_t pid, int ready)
{
    cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t end = clock_now_ms() + 10000;
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        tree_kill(proc, mark_children, &pid, false);
        ck_assert_msg(clock_now_ms() < end, "something lives on");
        usleep(1000);
    }
    ck_assert(WIFEXITED(status));
    assert_all_gone(ready);
}

static void deep_chain(int ready)
{
    for (int i = 0; i < 9; i++) {
        if (fork() != 0) {
            stand(ready);
        }
    }
    stand(ready);
}

START_TEST(a_chain_of_processes_is_killed)
{
    int ready;
    pid_t pid = plant(deep_chain, &ready);

    wait_for(ready, 10);
    kill_below(pid, ready);
}
END_TEST

static void daemons(int ready)
{
    for (int i = 0; i < 5; i++) {
        if (fork() == 0) {
            setsid();
            if (fork() == 0) {
                setsid();
                stand(ready);
            }
            _exit(0);
        }
    }
}

START_TEST(daemons_that_forked_twice_are_killed)
{
    int ready;
    pid_t pid = plant(daemons, &ready);

    wait_for(ready, 5);
    kill_below(pid, ready);
}
END_TEST

static void stubborn(int ready)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (fork() == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        if (fork() == 0) {
            if (fork() == 0) {
                stand(ready);
            }
            _exit(0);
        }
        stand(ready);
    }
    if (fork() == 0) {
        if (write(ready, "x", 1) == 1) {
            raise(SIGSTOP);
        }
        stand(ready);
    }
    stand(ready);
}

START_TEST(who_ignores_sleeps_or_reaps_is_killed)
{
    int ready;
    pid_t pid = plant(stubborn, &ready);

    wait_for(ready, 4);
    kill_below(pid, ready);
}
END_TEST

/* Each process starts the next and ends: nobody is there for long. */
static void runner(int ready)
{
    if (write(ready, "x", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        if (fork() > 0) {
            _exit(0);
        }
    }
}

START_TEST(a_process_that_runs_from_number_to_number_is_caught)
{
    int ready;
    pid_t pid = plant(runner, &ready);

    wait_for(ready, 1);
    kill_below(pid, ready);
}
END_TEST

/* So does it with a session of its own each time: no group to signal. */
static void runner_with_sessions(int ready)
{
    if (write(ready, "x", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        setsid();
        if (fork() > 0) {
            _exit(0);
        }
    }
}

START_TEST(it_is_caught_too_when_it_changes_its_session)
{
    int ready;
    pid_t pid = plant(runner_with_sessions, &ready);

    wait_for(ready, 1);
    kill_below(pid, ready);
}
END_TEST

static void odd_name(int ready)
{
    prctl(PR_SET_NAME, ") R 1 (x", 0, 0, 0);
    if (fork() == 0) {
        stand(ready);
    }
    stand(ready);
}

START_TEST(a_name_with_parentheses_does_not_hide_a_parent)
{
    int ready;
    pid_t pid = plant(odd_name, &ready);

    wait_for(ready, 2);
    kill_below(pid, ready);
}
END_TEST

START_TEST(who_is_outside_of_the_tree_lives)
{
    int ready, other_ready;
    pid_t pid = plant(deep_chain, &ready);
    pid_t other = plant(daemons, &other_ready);
    cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct process_list list = {NULL, 0, 0};

    wait_for(ready, 10);
    wait_for(other_ready, 5);
    kill_below(pid, ready);
    ck_assert_int_eq(processes_read(&list, proc), 0);
    mark_children(&list, &other);
    ck_assert_uint_eq(processes_of(&list, &other), 5);
    processes_release(&list);
    kill_below(other, other_ready);
}
END_TEST

START_TEST(this_process_is_found_with_its_parent)
{
    cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct process_list list = {NULL, 0, 0};
    const struct process *self;

    ck_assert_int_eq(processes_read(&list, proc), 0);
    self = processes_find(&list, getpid());
    ck_assert_ptr_nonnull(self);
    ck_assert_int_eq(self->parent, getppid());
    ck_assert_int_eq(self->session, getsid(0));
    ck_assert(!self->dead);
    processes_release(&list);
}
END_TEST

UNIT_SUITE(tree)
{
    tcase_add_test(tcase, a_chain_of_processes_is_killed);
    tcase_add_test(tcase, daemons_that_forked_twice_are_killed);
    tcase_add_test(tcase, who_ignores_sleeps_or_reaps_is_killed);
    tcase_add_test(tcase, a_process_that_runs_from_number_to_number_is_caught);
    tcase_add_test(tcase, it_is_caught_too_when_it_changes_its_session);
    tcase_add_test(tcase, a_name_with_parentheses_does_not_hide_a_parent);
    tcase_add_test(tcase, who_is_outside_of_the_tree_lives);
    tcase_add_test(tcase, this_process_is_found_with_its_parent);
}
