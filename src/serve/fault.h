/* Why a request is refused: what each API's error object needs. */
#ifndef SERVE_FAULT_H
#define SERVE_FAULT_H

#include "base/error.h"
#include "serve/buffer.h"

#include <stdbool.h>

enum fault_style { FAULT_OPENAI, FAULT_ANTHROPIC };

struct fault {
    int status;       /* HTTP */
    const char *code; /* "context_length_exceeded", or NULL; a constant */
    bool unsupported; /* `param` is what is not supported: Anthropic's clients read that beside the code */
    char param[80];   /* the parameter that is meant, or "" */
    char text[1000];
    unsigned retry_s; /* Retry-After, or 0 */
};

/* Fills it; returns false, for `return fault_set(...)`. */
bool fault_set(struct fault *f, int status, const char *param, const char *format, ...) BASE_PRINTF(4, 5);
/* From the library's error: usage is the client's, the rest ours. */
bool fault_from(struct fault *f, const struct sluice_error *err);
/* As the API's clients expect it. */
void fault_write(const struct fault *f, enum fault_style style, struct buffer *out);
/* "invalid_request_error", "rate_limit_error", ... */
const char *fault_type(int status, enum fault_style style);

#endif
