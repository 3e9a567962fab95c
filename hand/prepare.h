/* `hand prepare`: what has to be done in a sandbox before its hand serves, by whoever makes the
 * sandbox. */
#ifndef HANDSFS_HAND_PREPARE_H
#define HANDSFS_HAND_PREPARE_H

#include "sandbox/error.h"

#define PREPARE_AWAIT_MS 10000

/* Carries out the steps one after the other, until one fails:
 *   make=MODE:UID:GID:PATH  a directory, made where it is missing, with this mode (octal) and
 *                           owner ("-" for either id: as it is)
 *   publish=FROM:TO         renames a file, its content being on the disk, replacing TO
 *   cut-network             takes every interface but the loopback down; fails unless no route
 *                           is left
 *   await=SOCKET            waits until somebody listens there, at most PREPARE_AWAIT_MS
 *   listens=SOCKET          fails unless somebody does now */
int prepare_run(int count, char **steps, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
