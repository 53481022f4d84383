#include "cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Belongs to stdout, of which there is one too. ferror does not keep the reason: it is caught at the write that fails.
 */
static int first_errno;

static void note_failure(void)
{
    if (!first_errno) first_errno = errno ? errno : EIO;
}

void out_open_standard(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            /* Wrong direction on purpose: using it must still fail, as with the closed one. */
            int opened = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
            if (opened >= 0 && opened != fd) close(opened);
        }
}

void out_write(const void *data, size_t bytes)
{
    if (first_errno || bytes == 0) return;
    errno = 0;
    if (fwrite(data, 1, bytes, stdout) != bytes) note_failure();
}

void out_printf(const char *format, ...)
{
    if (first_errno) return;
    va_list args;
    va_start(args, format);
    errno = 0;
    if (vfprintf(stdout, format, args) < 0) note_failure();
    va_end(args);
}

void out_json(json_t *value)
{
    errno = 0;
    if (!first_errno && json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10)) != 0) note_failure();
    json_decref(value);
    out_write("\n", 1);
}

json_t *out_json_text(const char *bytes_of_text, size_t bytes)
{
    json_t *text = json_stringn(bytes_of_text, bytes);
    if (text) return text;
    char *wide = malloc(bytes * 2 + 1);
    size_t n = 0;
    if (!wide) return json_null();
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)bytes_of_text[i];
        if (c >= 0x80) wide[n++] = (char)(0xc0 | c >> 6);
        wide[n++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
    }
    text = json_stringn(wide, n);
    free(wide);
    return text ? text : json_null();
}

void out_flush(void)
{
    errno = 0;
    if (!first_errno && fflush(stdout) != 0) note_failure();
}

bool out_failed(void) { return first_errno != 0; }

int out_finish(int exit_code)
{
    out_flush();
    errno = 0;
    if (!first_errno && ferror(stdout)) note_failure();
    if (!first_errno) return exit_code;
    if (first_errno != EPIPE)
        fprintf(stderr, "sluice: standard output: %s\n  the result is incomplete\n", strerror(first_errno));
    return exit_code ? exit_code : 5;
}
