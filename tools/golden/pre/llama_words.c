/* llama_words VOCAB.gguf PRE...: for each name of a pre-tokenizer, the bytes of each word of each text on standard
 * input (texts end with a zero byte), as llama.cpp cuts them: one line a text, "-" for a name that it refuses. The
 * vocabulary has every part of every text as a token, and every way to merge two of them, so that each word becomes one
 * token. llama_words VOCAB.gguf --ids: the ids, with the pre-tokenizer of the file. */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void quiet(enum ggml_log_level level, const char *text, void *user) {}

static void words(const struct llama_vocab *v, const char *text, size_t bytes, bool show_ids)
{
    llama_token ids[4096];
    char piece[4096];
    int n = llama_tokenize(v, text, (int)bytes, ids, 4096, false, false);
    for (int i = 0; i < n; i++)
        printf("%s%d", i ? " " : "", show_ids ? ids[i] : llama_token_to_piece(v, ids[i], piece, sizeof piece, 0, true));
    printf("\n");
}

int main(int argc, char **argv)
{
    static char texts[1 << 20];
    size_t bytes = fread(texts, 1, sizeof texts, stdin);
    llama_log_set(quiet, NULL);
    llama_backend_init();
    for (int i = 2; i < argc; i++) {
        struct llama_model_kv_override overrides[2] = {
            {.tag = LLAMA_KV_OVERRIDE_TYPE_STR, .key = "tokenizer.ggml.pre"}};
        struct llama_model_params p = llama_model_default_params();
        snprintf(overrides[0].val_str, sizeof overrides[0].val_str, "%s", argv[i]);
        bool show_ids = !strcmp(argv[i], "--ids");
        p.vocab_only = true;
        p.kv_overrides = show_ids ? NULL : overrides;
        struct llama_model *m = llama_model_load_from_file(argv[1], p);
        for (size_t at = 0; at < bytes; at += strlen(texts + at) + 1)
            if (m)
                words(llama_model_get_vocab(m), texts + at, strlen(texts + at), show_ids);
            else
                puts("-");
        if (m) llama_model_free(m);
    }
    return 0;
}
