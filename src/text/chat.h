/* Built-in chat formats, chosen by looking for their marks in the file's own template text. */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "text/tokenizer.h"

enum text_chat_format { TEXT_CHAT_PLAIN, TEXT_CHAT_CHATML, TEXT_CHAT_LLAMA3, TEXT_CHAT_MISTRAL, TEXT_CHAT_FORMATS };

struct text_message {
    const char *role; /* "system", "user", "assistant" */
    const char *text;
};

const char *text_chat_name(enum text_chat_format f);
/* template_text may be NULL. *exact: false when the template has marks that none of the built-in formats knows (then
 * plain is chosen and the caller should say so). */
enum text_chat_format text_chat_detect(const char *template_text, size_t bytes, bool *exact);
/* Renders the whole conversation, with the opening of an assistant turn if `answer`. *out is malloc'ed, NUL-terminated;
 * the caller frees it. Special tokens appear as text: encode with options.special. BOS is not included. */
enum sluice_status text_chat_render(enum text_chat_format f, const struct text_message *messages, size_t n, bool answer,
                                    char **out, size_t *out_bytes, struct sluice_error *err);
/* The text that ends an assistant turn in this format ("<|im_end|>"), or "". */
const char *text_chat_stop(enum text_chat_format f);

#endif
