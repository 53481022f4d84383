/* Locks memory as far as there is enough of it, and knows how much that was.
 *
 * Locking is a wish, not a need: what cannot be locked is used unlocked. A range is locked from its beginning in steps
 * of at most OS_LOCK_STEP_BYTES, up to the first step that would leave less than the margin free or that the system
 * refuses; how far it came is returned, and given back to os_unlock_range, so nothing is remembered per range.
 *
 * At any time: locked + skipped = wanted, failed <= skipped. One thread uses a locker. */
#ifndef OS_LOCKER_H
#define OS_LOCKER_H

#include "os/os.h"

#define OS_LOCK_STEP_BYTES ((size_t)256 << 20)

struct os_locker {
    const struct os_calls *os;
    uint64_t margin_bytes;  /* stays available to the rest of the machine, and within the cgroup's limit */
    uint64_t wanted_bytes;  /* of all ranges that are not unlocked yet */
    uint64_t locked_bytes;  /* of them: locked */
    uint64_t skipped_bytes; /* of them: not locked */
    uint64_t failed_bytes;  /* of the skipped: steps that the system refused (the others kept the margin) */
    int refusal;            /* errno of the last refusal: ENOMEM and EPERM mean RLIMIT_MEMLOCK, mostly; 0: none yet */
};

/* margin_bytes 0: the larger of 1 GiB and 5 % of the machine's memory. */
void os_lock_begin(struct os_locker *l, const struct os_calls *os, uint64_t margin_bytes);
/* resident: all pages of the range are there already, so locking takes no memory (it is still not done while less than
 * the margin is free). Otherwise locking brings them in. Returns how many bytes at the beginning are locked now. The
 * system locks whole pages: a neighbour on the same page is locked and unlocked with the range. */
size_t os_lock_range(struct os_locker *l, const void *at, size_t bytes, bool resident);
/* The range is not wanted locked any more: before its memory is decommitted. at, bytes: as they were given to
 * os_lock_range; locked: what it returned. */
void os_unlock_range(struct os_locker *l, const void *at, size_t bytes, size_t locked);

#endif
