/* The model file's own chat template, where it has one that can be rendered. */
#ifndef ENGINE_TEMPLATE_H
#define ENGINE_TEMPLATE_H

#include "sluice.h"
#include "text/chat.h"

/* Parses it; one that cannot be is a note, and the built-in formats stay in use. SLUICE_ERR_MEMORY alone. */
enum sluice_status template_open(sluice_engine *e, const char *text, size_t bytes, struct sluice_error *err);
/* The caller's own: one that cannot be parsed is an error. */
enum sluice_status template_open_given(sluice_engine *e, const char *text, struct sluice_error *err);
void template_close(sluice_engine *e);
/* Bytes that a rendering may take besides the texts themselves; 0 without a template. A part of the ledger's row for
 * texts. */
uint64_t template_fixed_bytes(const sluice_engine *e);
/* The conversation, with the opening of an answer. SLUICE_ERR_USAGE: a role that is none of ours. SLUICE_ERR_MODEL: the
 * template's own refusal (raise_exception), or a fault in it, with line and column. */
enum sluice_status template_render(const sluice_engine *e, const struct text_message *messages, size_t n,
                                   struct text_rendered *out, struct sluice_error *err);
/* The same from the variables as JSON; also with a built-in format, which knows roles and texts alone. */
enum sluice_status template_render_json(const sluice_engine *e, const char *vars, size_t bytes,
                                        struct text_rendered *out, struct sluice_error *err);
/* Whether the rendering begins with BOS already. */
bool template_has_bos(const sluice_engine *e, const struct text_rendered *r);

#endif
