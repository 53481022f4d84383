#include "serve/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool fault_set(struct fault *f, int status, const char *param, const char *format, ...)
{
    va_list args;
    *f = (struct fault){.status = status};
    snprintf(f->param, sizeof f->param, "%s", param ? param : "");
    base_printable(f->param); /* it may be cut within a character */
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    base_printable(f->text);
    return false;
}

bool fault_from(struct fault *f, const struct sluice_error *err)
{
    const bool theirs = err->status == SLUICE_ERR_USAGE || err->status == SLUICE_CONTEXT_FULL;
    fault_set(f,
              theirs                            ? 400
              : err->status == SLUICE_CANCELLED ? 503
                                                : 500,
              NULL, "%s%s%s", err->message, err->hint[0] ? "; " : "", err->hint);
    if (err->status == SLUICE_CONTEXT_FULL) f->code = "context_length_exceeded";
    return false;
}

const char *fault_type(int status, enum fault_style style)
{
    const bool anthropic = style == FAULT_ANTHROPIC;
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return anthropic ? "not_found_error" : "invalid_request_error";
    case 413: return anthropic ? "request_too_large" : "invalid_request_error";
    case 429: return anthropic ? "rate_limit_error" : "rate_limit_exceeded";
    case 503: return anthropic ? "overloaded_error" : "unavailable_error";
    default: return status < 500 ? "invalid_request_error" : anthropic ? "api_error" : "server_error";
    }
}

void fault_write(const struct fault *f, enum fault_style style, struct buffer *out)
{
    const char *type = fault_type(f->status, style);
    json_t *text = buffer_string(f->text, strlen(f->text));
    if (style == FAULT_ANTHROPIC) {
        json_t *error = json_pack("{s:s, s:o}", "type", type, "message", text);
        if (f->code) json_object_set_new(error, "details", json_pack("{s:s}", "error_code", f->code));
        if (f->unsupported)
            json_object_set_new(json_object_get(error, "details"), "unsupported", json_pack("[s]", f->param));
        buffer_json(out, json_pack("{s:s, s:o}", "type", "error", "error", error));
    } else {
        buffer_json(out, json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", text, "type", type, "param",
                                   f->param[0] ? f->param : NULL, "code", f->code));
    }
}
