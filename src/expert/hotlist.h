/* A list of experts, hottest first, as a text file that people can read and edit: made by `sluice profile`, used to
 * warm the cache at start (--hotlist) and to pin (--pin FILE).
 *
 *     sluice-hotlist 1
 *     model 0123456789abcdef        fingerprint, 16 hex digits; before the first expert
 *     # comments and empty lines anywhere after the first line; also behind what a line says
 *     12 103 0.231000               layer, expert, probability that a token selects it (0..1; may be left out: 0)
 *
 * Lines end with LF or CR LF; words are apart by spaces or tabs. Probabilities have a decimal point in every locale and
 * no exponent. */
#ifndef EXPERT_HOTLIST_H
#define EXPERT_HOTLIST_H

#include "expert/catalog.h"
#include "os/os.h"

#include <stdio.h>

#define EXPERT_HOTLIST_SUFFIX ".sluice-hotlist"
#define EXPERT_HOTLIST_VERSION 1u
#define EXPERT_HOTLIST_LINE_MAX 255 /* bytes, without the end of the line */

struct expert_hotlist {
    uint32_t n;
    uint32_t *keys;       /* [n], in the file's order, distinct */
    float *probabilities; /* [n] */
};

/* SLUICE_ERR_USAGE with file, line and what is wrong: not a hotlist, another version, another model's, a layer or
 * expert that the model does not have, one named twice, a probability out of range, a line too long. SLUICE_ERR_IO: not
 * readable. optional: a file that does not exist gives SLUICE_OK and an empty list. After an error the list is empty,
 * with nothing to free. Allocates 8 bytes and a bit for each expert of the model, whatever the file claims. */
enum sluice_status expert_hotlist_read(const struct os_calls *os, const char *path,
                                       const struct expert_catalog *catalog, uint64_t fingerprint, bool optional,
                                       struct expert_hotlist *out, struct sluice_error *err);
void expert_hotlist_free(struct expert_hotlist *h);
/* Writes the text, with six decimals, and flushes it; false: the stream has failed (errno). probabilities NULL: without
 * that column. */
bool expert_hotlist_write(FILE *f, const struct expert_catalog *catalog, uint64_t fingerprint, const uint32_t *keys,
                          const float *probabilities, uint32_t n);

#endif
