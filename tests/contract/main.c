/* The contract suite: contract BACKEND [stream|auto] [IMAGE]. One suite, every backend, real engines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/registry.h"
#include "sandbox/clock.h"
#include "tests/contract/session.h"
#include "tests/crash.h"

/* The suite's own state directory, so that it neither meets nor leaves a session of anybody's. */
static char state_dir[] = "/tmp/handsfs-contract.XXXXXX";

static void destroy(void *arg, const char *session)
{
    struct error err;

    (void)arg;
    if (strncmp(session, fixture.prefix, strlen(fixture.prefix)) != 0) {
        return; /* somebody else's, who uses the engine at the same time */
    }
    if (sandbox_destroy(fixture.backend, session, clock_now_ms() + 30000, &err) < 0) {
        fprintf(stderr, "contract: %s\n", err.message);
    }
}

/* What failed tests have left. */
static void clean_up(void)
{
    struct error err;
    pid_t pid;

    if (sandbox_list(fixture.backend, destroy, NULL, &err) < 0) {
        fprintf(stderr, "contract: %s\n", err.message);
    }
    pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", state_dir, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    const char *sessions_ahead = getenv("HANDSFS_CONTRACT_AHEAD");
    const char *rows = getenv("HANDSFS_CONTRACT_ROWS");
    struct error err;
    Suite *suite;
    SRunner *runner;
    int failed;

    if (argc < 2 || (argc > 2 && strcmp(argv[2], "stream") != 0 && strcmp(argv[2], "auto") != 0)) {
        fprintf(stderr, "usage: contract BACKEND [stream|auto] [IMAGE]\n");
        return 2;
    }
    if (backend_find(argv[1], &fixture.backend, &err) < 0) {
        fprintf(stderr, "contract: %s\n", err.message);
        return 2;
    }
    fixture.placement = argc > 2 && strcmp(argv[2], "stream") == 0 ? LINK_PLACE_STREAM : LINK_PLACE_AUTO;
    fixture.image = argc > 3 ? argv[3] : NULL;
    fixture.is_local = strcmp(argv[1], "local") == 0;
    snprintf(fixture.prefix, sizeof fixture.prefix, "contract-%ld-", (long)getpid());
    if (mkdtemp(state_dir) == NULL || setenv("HANDSFS_STATE_DIR", state_dir, 1) < 0) {
        perror("contract: mkdtemp");
        return 2;
    }

    crash_watch();
    suite = suite_create(argv[1]);
    suite_add_tcase(suite, case_exec());
    suite_add_tcase(suite, case_shell());
    suite_add_tcase(suite, case_stream());
    suite_add_tcase(suite, case_deadlines());
    suite_add_tcase(suite, case_read());
    suite_add_tcase(suite, case_write());
    suite_add_tcase(suite, case_names());
    suite_add_tcase(suite, case_lifecycle());
    suite_add_tcase(suite, case_lifecycle_alone());
    suite_add_tcase(suite, case_isolation());
    suite_add_tcase(suite, case_tools());
    if (fixture.image != NULL) {
        suite_add_tcase(suite, case_images());
    }
    if (strcmp(argv[1], "docker") == 0) {
        suite_add_tcase(suite, case_docker());
        suite_add_tcase(suite, case_docker_alone());
    }
    runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    ahead_start(sessions_ahead != NULL ? (unsigned)atoi(sessions_ahead) : 0,
                rows != NULL ? (unsigned)atoi(rows) : 1);
    srunner_run_all(runner, CK_SILENT);
    ahead_end();
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    clean_up();
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
