#include "fs/kept.h"

#include <stdlib.h>

#include "fs/face.h"
#include "sandbox/clock.h"

struct kept {
    TAILQ_ENTRY(kept) all;
    LIST_ENTRY(kept) of_node;
    struct fs *fs;
    struct node *node; /* pinned */
    pid_t pid;
    uint64_t wire;
    struct deadline deadline;
};

void kept_begin(struct fs *fs)
{
    fs->stale_ms = clock_now_ms();
}

bool kept_wanted(const struct fs *fs)
{
    return fs->stale_ms != 0 && clock_now_ms() - fs->stale_ms < fs->kept_ms;
}

static void drop(struct kept *kept)
{
    struct fs *fs = kept->fs;

    deadline_clear(&fs->deadlines, &kept->deadline);
    TAILQ_REMOVE(&fs->kept, kept, all);
    LIST_REMOVE(kept, of_node);
    fs->kept_count--;
    opened_close_wire(fs, kept->wire);
    node_unpin(&fs->nodes, kept->node);
    free(kept);
}

static struct kept *find(const struct node *node, pid_t pid)
{
    struct kept *kept;

    LIST_FOREACH(kept, &node->kept, of_node)
    {
        if (kept->pid == pid) {
            break;
        }
    }
    return kept;
}

static void is_over(struct deadline *deadline)
{
    drop(table_entry(deadline, struct kept, deadline));
}

void kept_add(struct fs *fs, struct node *node, pid_t pid, uint64_t wire)
{
    struct kept *kept = calloc(1, sizeof *kept);

    if (kept == NULL) {
        opened_close_wire(fs, wire);
        node_settle(&fs->nodes, node);
        return;
    }
    kept->fs = fs;
    kept->node = node;
    kept->pid = pid;
    kept->wire = wire;
    node_pin(node);
    kept_opened(node, pid); /* the last one of two */
    if (fs->kept_count == KEPT_MAX) {
        drop(TAILQ_FIRST(&fs->kept));
    }
    LIST_INSERT_HEAD(&node->kept, kept, of_node);
    TAILQ_INSERT_TAIL(&fs->kept, kept, all);
    fs->kept_count++;
    deadline_set(&fs->deadlines, &kept->deadline, fs->kept_ms, is_over);
}

uint64_t kept_handle(const struct node *node, pid_t pid)
{
    const struct kept *kept = find(node, pid);

    return kept == NULL ? 0 : kept->wire;
}

void kept_opened(const struct node *node, pid_t pid)
{
    struct kept *kept = find(node, pid);

    if (kept != NULL) {
        drop(kept);
    }
}

void kept_clear(struct fs *fs)
{
    while (!TAILQ_EMPTY(&fs->kept)) {
        drop(TAILQ_FIRST(&fs->kept));
    }
}
