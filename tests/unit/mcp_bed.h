/* An MCP server in a thread, with a test on both of its sides: as the peer, over two pipes, and as the
 * gateway, over a socketpair. Every wait has a deadline that is a failure. */
#ifndef HANDSFS_TESTS_UNIT_MCP_BED_H
#define HANDSFS_TESTS_UNIT_MCP_BED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <jansson.h>

#include "exec/client.h"
#include "exec/mcp.h"

/* A line reader over a descriptor of ours. */
struct ear {
    int fd;
    char *text;
    size_t length;
};

struct mcp_bed {
    int to;           /* what the peer says */
    struct ear peer;  /* what it hears */
    struct ear gate;  /* the gateway's end of the connection that is open; fd -1 where there is none */
    int in, out;      /* the server's ends */
    int stop[2];      /* a byte in [1] stops it */
    int opened[2];    /* a descriptor's number for each opening */
    int hold[2];      /* an opening waits for a byte here while `holds` */
    atomic_bool holds;
    atomic_int failures;  /* so many openings fail first */
    atomic_int openings;  /* that were begun */
    struct mcp_host host;
    struct client *client; /* of the server's thread and its opener */
    pthread_t thread;
    bool running;
    int result;
    struct error err;
};

void mcp_bed_open(struct mcp_bed *bed);  /* nothing is said yet */
void mcp_bed_close(struct mcp_bed *bed); /* ends the input, and the server with it */
int mcp_bed_end(struct mcp_bed *bed);    /* waits for the server's end: what mcp_serve() gave */

/* The peer. */
void mcp_say(struct mcp_bed *bed, const char *line);
void mcp_say_bytes(struct mcp_bed *bed, const char *bytes, size_t length);
json_t *mcp_hear(struct mcp_bed *bed); /* the next message; to be freed */
void mcp_greet(struct mcp_bed *bed);   /* initialize, its answer, and the notification */
/* Hears an error with this code, to this id (-1: without one), and gives its text, to be freed. */
char *mcp_hear_error(struct mcp_bed *bed, int code, int id);
/* Nothing more was said than what was heard: a ping is answered next. */
void mcp_hear_silence(struct mcp_bed *bed);

/* The gateway. */
void gate_wait(struct mcp_bed *bed); /* until the next opening, which gives `gate` */
json_t *gate_hear(struct mcp_bed *bed);
void gate_say(struct mcp_bed *bed, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Hears a tools.call, and gives its id. */
json_int_t gate_hear_call(struct mcp_bed *bed, const char *tool);
void gate_hang_up(struct mcp_bed *bed);

#endif
