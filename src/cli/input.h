/* What the user hands in: texts and lists of token ids, from a file or standard input. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define INPUT_BYTES_MAX ((size_t)1 << 30) /* a gibibyte of text is refused: a mistake, surely */

/* The whole of a file; "-" or NULL: standard input. *out is malloc'ed and NUL-terminated. SLUICE_CANCELLED: Ctrl-C. */
enum sluice_status input_read(const char *path, char **out, size_t *bytes, struct sluice_error *err);
/* Ids separated by white space; what: the source's name for messages. *out is malloc'ed. */
enum sluice_status input_ids(const char *text, size_t bytes, const char *what, int32_t **out, size_t *n,
                             struct sluice_error *err);

#endif
