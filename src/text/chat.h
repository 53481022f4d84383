/* Built-in chat formats, chosen by looking for their marks in the file's own template text. */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "text/tokenizer.h"

/* PLAIN labels the turns ("User: ...", "Assistant: ..."). Mistral's tokenizers differ in the spaces around the marks
 * and in the place of the system text:
 *   V1       "[INST] question [/INST] answer</s>"    Mixtral 8x7B; the system text begins the first question. Its
 *                                                    SentencePiece tokenizer itself puts the space in front of [INST]
 *   V3       "[INST] question[/INST] answer</s>"     SentencePiece v3; the system text begins the last question
 *   MISTRAL  "[INST]question[/INST]answer</s>"       Tekken v3 (Nemo); the system text begins the last question
 *   V7       "[SYSTEM_PROMPT]text[/SYSTEM_PROMPT][INST]question[/INST]answer</s>"     Tekken v7 and later
 * Which one: by the marks and the spaces next to them in the template's text. */
enum text_chat_format {
    TEXT_CHAT_PLAIN,
    TEXT_CHAT_CHATML,
    TEXT_CHAT_LLAMA3,
    TEXT_CHAT_MISTRAL,
    TEXT_CHAT_MISTRAL_V1,
    TEXT_CHAT_MISTRAL_V3,
    TEXT_CHAT_MISTRAL_V7,
    TEXT_CHAT_FORMATS,
};

struct text_message {
    const char *role; /* "system", "user", "assistant" */
    const char *text;
};

const char *text_chat_name(enum text_chat_format f);
/* template_text may be NULL. *exact: false when the template has marks that none of the built-in formats knows (then
 * plain is chosen and the caller should say so). */
enum text_chat_format text_chat_detect(const char *template_text, size_t bytes, bool *exact);
/* Roles other than the three are SLUICE_ERR_USAGE; so is, in Mistral's formats but V7, a system message that is not the
 * first, or that no user message follows. Renders the whole conversation, with the opening of an assistant turn if
 * `answer`. *out is malloc'ed, NUL-terminated; the caller frees it. Special tokens appear as text: encode with
 * options.special. BOS is not included. */
enum sluice_status text_chat_render(enum text_chat_format f, const struct text_message *messages, size_t n, bool answer,
                                    char **out, size_t *out_bytes, struct sluice_error *err);
/* The same, with the stretches that hold what was said (not the format's own marks), for text_encode_options.plain:
 * special tokens that a user typed stay text. Free both with text_rendered_free. */
struct text_rendered {
    char *text; /* NUL-terminated */
    size_t bytes;
    struct text_range *said; /* [n_said] ascending */
    size_t n_said;
};
enum sluice_status text_chat_render_marked(enum text_chat_format f, const struct text_message *messages, size_t n,
                                           bool answer, struct text_rendered *out, struct sluice_error *err);
void text_rendered_free(struct text_rendered *r);
/* The text that ends an assistant turn in this format: "<|im_end|>"; for PLAIN "\nUser:", which is no special token. */
const char *text_chat_stop(enum text_chat_format f);

#endif
