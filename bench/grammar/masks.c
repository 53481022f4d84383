/* Time of constrained decoding with a model file's vocabulary: masks MODEL.gguf. Prints what the first schema of an
 * engine costs, a schema, masks along a document, the first time and when they are kept, and along an opener. */
#include "os/os.h"
#include "text/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char schema[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"kind\": {\"enum\": [\"cat\", \"dog\", "
    "\"crow\"]}, \"weights\": {\"type\": \"array\", \"items\": {\"type\": \"number\"}}, \"notes\": {\"type\": "
    "\"string\", "
    "\"maxLength\": 200}, \"more\": {}}, \"required\": [\"name\", \"kind\", \"weights\", \"notes\", \"more\"]}";
static const char document[] = "{\"name\": \"Zoë of the North\", \"kind\": \"crow\", \"weights\": [1.25, 0.5, 12], "
                               "\"notes\": \"It sat upon the roof and "
                               "looked at us for an hour.\", \"more\": {\"a\": [true, null, {\"b\": \"c\"}]}}";

static double now_ms(void) { return (double)os_system()->now_ns(os_system()->user) / 1e6; }

static int fail(const struct sluice_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

int main(int argc, char **argv)
{
    static const struct base_log no_log;
    struct sluice_error err;
    struct gguf *g;
    struct text_tokenizer *t;
    struct text_grammar_vocab *v;
    struct text_grammar *grammar;
    if (argc != 2) {
        fprintf(stderr, "usage: masks MODEL.gguf\n");
        return 2;
    }
    if (gguf_open(os_system(), argv[1], &g, &err) || text_tokenizer_create(g, &no_log, &t, &err)) return fail(&err);
    double at = now_ms();
    if (text_grammar_vocab_create(t, text_n_vocab(t), &v, &err)) return fail(&err);
    printf("%zu tokens; in order: %.1f ms\n", text_n_vocab(t), now_ms() - at);
    at = now_ms();
    if (text_grammar_create(schema, sizeof schema - 1, &grammar, &err)) return fail(&err);
    printf("schema: %.2f ms\n", now_ms() - at);
    for (int turn = 0; turn < 3; turn++) {
        struct text_answer *a;
        double sum = 0, most = 0;
        size_t n = 0;
        if (text_answer_create(grammar, NULL, v, &a, &err)) return fail(&err);
        for (const char *c = document; *c; c++, n++) { /* a mask at each byte */
            const uint64_t *mask;
            at = now_ms();
            if (text_answer_mask(a, &mask, &err)) return fail(&err);
            const double ms = now_ms() - at;
            sum += ms;
            if (ms > most) most = ms;
            if (text_answer_accept_bytes(a, c, 1, &err)) return fail(&err);
        }
        printf("answer %d: %zu masks, %.3f ms each, at most %.2f ms\n", turn + 1, n, sum / (double)n, most);
        text_answer_destroy(a);
    }
    for (int turn = 0; turn < 3; turn++) { /* both ways open, along a mark */
        static const char *const marks[] = {"<tool_call>"};
        struct text_grammar *openers;
        struct text_answer *a;
        const uint64_t *mask;
        at = now_ms();
        if (text_grammar_openers(marks, 1, &openers, &err)) return fail(&err);
        if (text_answer_create(grammar, openers, v, &a, &err) || text_answer_mask(a, &mask, &err)) return fail(&err);
        const double first = now_ms() - at;
        at = now_ms();
        for (const char *c = marks[0]; *c; c++)
            if (text_answer_accept_bytes(a, c, 1, &err) || text_answer_mask(a, &mask, &err)) return fail(&err);
        printf("opener %d: first mask %.2f ms, then %.3f ms each\n", turn + 1, first,
               (now_ms() - at) / (double)strlen(marks[0]));
        text_answer_destroy(a);
        text_grammar_destroy(openers);
    }
    text_grammar_destroy(grammar);
    text_grammar_vocab_destroy(v);
    text_tokenizer_destroy(t);
    gguf_close(g);
    return 0;
}
