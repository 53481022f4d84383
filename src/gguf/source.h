/* The beginning of one file, read in windows that grow as the parser asks, so that a header of any size costs memory
 * for itself and never for the weights behind it. The window always starts at byte 0, hence an offset in the file is
 * an offset in the window; it moves when it grows, so parsers keep offsets and no pointers. */
#ifndef GGUF_SOURCE_H
#define GGUF_SOURCE_H

#include "gguf/gguf.h"

#define GGUF_HEADER_BYTES_MAX ((size_t)512 << 20) /* metadata and directory of one file */
#define GGUF_SHOWN_BYTES 160                      /* of a name in a message */
#define GGUF_HINT_MEMORY "free memory: end other programs"

/* Who is told of faults that a look at a file goes on from. */
struct gguf_lenience {
    gguf_fault_fn *fault;
    void *user;
};
/* Tells; false if faults are not gone on from. */
bool gguf_tolerate(const struct gguf_lenience *l, enum gguf_fault kind, const struct sluice_error *fault);

struct gguf_source {
    const struct os_calls *os; /* NULL: bytes in memory */
    int fd;
    const uint8_t *memory;
    const char *shown; /* the path, or its last part, for messages */
    uint64_t bytes;    /* size of the file */
    uint8_t *window;   /* [have] the first bytes of the file */
    size_t have;
    size_t at; /* the parser's position, <= have */

    const struct gguf_lenience *lenient; /* NULL: the first fault ends it */

    /* what the parser is reading, for messages */
    const char *stage; /* "key", "tensor" */
    uint64_t item, n_items;
    char name[GGUF_SHOWN_BYTES]; /* "" before the name is known */
};

/* A path for a message: its end, if it is long. */
const char *gguf_shown_path(const char *path);
/* Bytes of a file as text for a message: cut to GGUF_SHOWN_BYTES, anything but printable ASCII becomes '?'. */
void gguf_shown_name(char out[GGUF_SHOWN_BYTES], const void *at, size_t bytes);

enum sluice_status gguf_source_open(struct gguf_source *s, const struct os_calls *os, const char *path,
                                    struct sluice_error *err);
/* As above, but absence is no error: *missing is set and SLUICE_OK returned. */
enum sluice_status gguf_source_open_if_there(struct gguf_source *s, const struct os_calls *os, const char *path,
                                             bool *missing, struct sluice_error *err);
void gguf_source_open_memory(struct gguf_source *s, const void *data, size_t bytes, const char *name);
void gguf_source_close(struct gguf_source *s); /* may be called twice */

/* Makes [0, at + bytes) available. Errors: past the end of the file, past GGUF_HEADER_BYTES_MAX, read errors. */
enum sluice_status gguf_source_need(struct gguf_source *s, uint64_t bytes, struct sluice_error *err);
/* Reads bytes from anywhere in the file without touching the window. */
enum sluice_status gguf_source_peek(struct gguf_source *s, uint64_t offset, void *out, size_t bytes,
                                    struct sluice_error *err);
/* Hands the first `bytes` bytes of the window to the caller (malloc), NULL without memory. */
uint8_t *gguf_source_keep(struct gguf_source *s, size_t bytes);

#endif
