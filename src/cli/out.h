/* Standard output carries data alone; a failed write is noticed once and turns into exit code 5 (without a word if the
 * reader has simply gone). Also files that appear only when they are complete. */
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

/* PATH.part until it is kept. */
struct out_file {
    FILE *stream;
    char *path, *part;
};
enum sluice_status out_file_open(struct out_file *f, const char *path, struct sluice_error *err);
enum sluice_status out_file_write(struct out_file *f, const void *data, size_t bytes, struct sluice_error *err);
enum sluice_status out_file_keep(struct out_file *f, struct sluice_error *err); /* closes in every case */
void out_file_drop(struct out_file *f);                                         /* also after a failed keep */

#endif
