/* What every fallible function of Sluice returns, and the error that explains it.
 *
 * This header is public: sluice.h includes it. It stands alone so that the lowest layer can use the same
 * enumeration as the library's callers. */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum sluice_status {
    SLUICE_OK = 0,
    SLUICE_ERR_RUN,      /* anything without a better name; exit code 1 */
    SLUICE_ERR_USAGE,    /* the caller's arguments; exit code 2 */
    SLUICE_ERR_MODEL,    /* the model file is damaged, incomplete or not supported; exit code 3 */
    SLUICE_ERR_MEMORY,   /* the budget or the machine's memory; exit code 4 */
    SLUICE_ERR_HARDWARE, /* the machine lacks something that was asked for; exit code 4 */
    SLUICE_ERR_IO,       /* the operating system refused or failed a read or write; exit code 5 */
    SLUICE_ERR_TIMEOUT,  /* a read did not return in time; exit code 5 */
    SLUICE_CANCELLED,    /* the caller's progress callback asked to stop; exit code 130 */
    SLUICE_CONTEXT_FULL, /* no room for another token; the session stays usable */
};

#define SLUICE_MESSAGE_BYTES_MAX 640
#define SLUICE_HINT_BYTES_MAX 320

/* One failure in words. The caller owns the struct; functions fill it only when they return something other than
 * SLUICE_OK. Both strings are always terminated; the hint may be empty. */
struct sluice_error {
    enum sluice_status status;
    char message[SLUICE_MESSAGE_BYTES_MAX]; /* what went wrong: the file, the tensor, the number */
    char hint[SLUICE_HINT_BYTES_MAX];       /* the way out, or "" */
};

#ifdef __cplusplus
}
#endif
#endif
