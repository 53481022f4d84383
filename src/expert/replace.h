/* A small file that several processes keep together: each reads it and replaces it as a whole, under an exclusive lock
 * of PATH.lock. The lock file is empty and stays; it may be removed when nothing runs. The kernel lets go of the lock
 * of a process that has died.
 *
 *     replace_lock, read and merge, replace_write, replace_unlock
 *
 * A file that is only ever written as a whole needs no lock: replace_write_alone. Of two such writers the last one
 * wins.
 *
 * Errors name the path and the reason; `hint` is the way out that they end with, a string constant. */
#ifndef EXPERT_REPLACE_H
#define EXPERT_REPLACE_H

#include "base/error.h"
#include "os/os.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLACE_LOCK_SUFFIX ".lock"
#define REPLACE_PART_SUFFIX ".sluice-part" /* what a crash has left under this name is removed by the next write */

/* Is there an ordinary file? A symbolic link (which a rename would replace), a directory, a pipe or a device:
 * SLUICE_ERR_USAGE. */
enum sluice_status replace_check(const char *path, const char *hint, bool *exists, struct sluice_error *err);

/* Tries for at most wait_ms; *lock is what replace_unlock takes. */
enum sluice_status replace_lock(const struct os_calls *os, const char *path, const char *hint, uint32_t wait_ms,
                                int *lock, struct sluice_error *err);
void replace_unlock(int lock);

/* The file is as it was until it is complete and on the disk; after a failure it still is, and nothing else is left. */
enum sluice_status replace_write(const char *path, const char *hint, const void *data, size_t bytes,
                                 struct sluice_error *err);
/* The same without the lock: a part file of another is left alone (PATH.sluice-part.N, the first free N). At the end of
 * a symbolic link, if path is one; straight to a device or a pipe. */
enum sluice_status replace_write_alone(const char *path, const char *hint, const void *data, size_t bytes,
                                       struct sluice_error *err);

#endif
