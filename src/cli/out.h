/* Standard output carries data alone; a failed write is noticed once and turns into exit code 5 (without a word if the
 * reader has simply gone). Also result files. */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

void out_open_standard(void); /* at start: closed standard descriptors must not be taken by files */
void out_write(const void *data, size_t bytes);
void out_printf(const char *format, ...) BASE_PRINTF(1, 2);
void out_json(json_t *value); /* pretty, sorted as built, one newline; drops the reference */
/* A JSON string of bytes that may not be UTF-8: then each byte is taken for the code point of its value. Never NULL. */
json_t *out_json_text(const char *text, size_t bytes);
void out_flush(void);
bool out_failed(void);         /* the reader is gone or the disk is full: stop working */
int out_finish(int exit_code); /* flushes; the exit code, or 5 */

/* A result file (out_file.c). What is there already decides how it is written:
 * - nothing, or a regular file: to PATH.part, or to PATH.part.N if that name is taken, which takes PATH's place when it
 *   is kept and is removed if it is not, also when a signal ends the program;
 * - a symbolic link: the same, at the place that it leads to;
 * - a device, a pipe, /dev/stdout, /dev/stderr, /dev/fd/N: straight to it. */
struct out_file {
    FILE *stream;
    char *path, *part; /* part NULL: straight */
    int removed_slot;  /* of interrupt_removes */
};
/* A directory is SLUICE_ERR_USAGE, everything else that fails SLUICE_ERR_IO. */
enum sluice_status out_file_open(struct out_file *f, const char *path, struct sluice_error *err);
enum sluice_status out_file_write(struct out_file *f, const void *data, size_t bytes, struct sluice_error *err);
enum sluice_status out_file_keep(struct out_file *f, struct sluice_error *err); /* closes in every case */
void out_file_drop(struct out_file *f);                                         /* also after a failed keep */

/* Before any work: SLUICE_ERR_USAGE if path is a directory. what: "--out", for messages. */
enum sluice_status out_check(const char *path, const char *what, struct sluice_error *err);
/* ... or if it is the very file that is read: input (NULL: none; "-": standard input), or, of a model, any of its
 * files. */
enum sluice_status out_check_input(const char *path, const char *what, const char *input, struct sluice_error *err);
enum sluice_status out_check_model(const char *path, const char *what, const char *model, struct sluice_error *err);
/* Where a result for path goes: the end of its symbolic links, malloc'ed. regular: nothing, or a regular file, is
 * there. */
enum sluice_status out_resolve(const char *path, char **target, bool *regular, struct sluice_error *err);

#endif
