/* Errors in words: one call fills a struct sluice_error and returns its status.
 *
 * Usage: return base_fail(err, SLUICE_ERR_MODEL, "download the file again",
 *                         "%s: tensor '%s' ends at byte %" PRIu64 ", the file has %" PRIu64, ...);
 * err may be NULL (the status alone is returned). Strings that come from a file must be passed through "%.*s" with a
 * bound: messages are truncated, never overflowed, and made printable. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "sluice_status.h"

#if defined(__GNUC__)
#define BASE_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define BASE_PRINTF(at, first)
#endif

/* hint: a string constant or NULL. Returns status. */
enum sluice_status base_fail(struct sluice_error *err, enum sluice_status status, const char *hint, const char *format,
                             ...) BASE_PRINTF(4, 5);

/* As base_fail, with a formatted hint, for hints that name a number: fills only the hint of an error already set. */
void base_hint(struct sluice_error *err, const char *format, ...) BASE_PRINTF(2, 3);

/* A message can quote bytes of an untrusted file: a terminal must not obey them and JSON must be able to carry them. So
 * control characters and bytes that are not UTF-8 (also a sequence cut in two) become '?'. base_fail, base_hint and
 * base_log do this themselves. */
void base_printable(char *text);

/* The process exit code that stands for a status (0, 1, 2, 3, 4, 5 or 130). */
int base_exit_code(enum sluice_status status);

/* A short name for a status, for logs and JSON ("ok", "usage", "model", ...). */
const char *base_status_name(enum sluice_status status);

#endif
