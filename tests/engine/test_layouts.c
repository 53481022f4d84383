/* The same weights in other file layouts give the same bits; damaged ones give a clear error. */
#include "rewrite.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/sluice-layouts-XXXXXX";
static struct sluice_error err;

static void file_in_folder(const char *name, char path[SUPPORT_PATH_MAX])
{
    snprintf(path, SUPPORT_PATH_MAX, "%s/%s", folder, name);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static float *logits_of(const char *model, const char *tokens, size_t *n)
{
    char path[SUPPORT_PATH_MAX];
    assert_true(support_golden(tokens, path));
    size_t n_vocab, n_ids;
    int32_t *ids = support_tokens(path, &n_ids);
    struct sluice_options o = support_options(model);
    float *out;
    if (support_logits(NULL, &o, ids, n_ids, &out, &n_vocab, &err))
        fail_msg("%s: %s (%s)", model, err.message, err.hint);
    free(ids);
    *n = n_ids * n_vocab;
    return out;
}

static void same_bits(const char *from, const char *to, const char *tokens)
{
    size_t n, m;
    float *want = logits_of(from, tokens, &n), *got = logits_of(to, tokens, &m);
    assert_int_equal(n, m);
    assert_memory_equal(want, got, n * sizeof *want);
    free(want);
    free(got);
}

/* Mixtral files from before the fused expert tensors. */
static void one_tensor_an_expert(void **state)
{
    (void)state;
    char from[SUPPORT_PATH_MAX], to[SUPPORT_PATH_MAX];
    assert_true(support_golden("arch/llama-moe.gguf", from));
    file_in_folder("single.gguf", to);
    rewrite_gguf(from, to, &(struct rewrite){.single_experts = true});
    same_bits(from, to, "arch/tokens.txt");
}

static void split_file(void **state)
{
    (void)state;
    char from[SUPPORT_PATH_MAX], to[SUPPORT_PATH_MAX], first[SUPPORT_PATH_MAX];
    assert_true(support_golden("quant/Q4_K_M.gguf", from));
    file_in_folder("split", to);
    rewrite_gguf(from, to, &(struct rewrite){.n_shards = 3});
    file_in_folder("split-00001-of-00003.gguf", first);
    same_bits(from, first, "quant/tokens.txt");
    file_in_folder("split-00002-of-00003.gguf", first);
    assert_int_equal(unlink(first), 0);
    file_in_folder("split-00001-of-00003.gguf", first);
    struct sluice_options o = support_options(first);
    sluice_engine *e;
    assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_ERR_MODEL);
    assert_non_null(strstr(err.message, "split-00002-of-00003.gguf"));
}

static void refuse(const char *model, const char *word, const char *second_word)
{
    struct sluice_options o = support_options(model);
    sluice_engine *e;
    assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_ERR_MODEL);
    if (!strstr(err.message, word) || !strstr(err.message, second_word))
        fail_msg("the message '%s' should name '%s' and '%s'", err.message, word, second_word);
    assert_true(err.hint[0] != 0);
}

static void missing_and_misshapen(void **state)
{
    (void)state;
    char from[SUPPORT_PATH_MAX], to[SUPPORT_PATH_MAX];
    assert_true(support_golden("arch/qwen3moe-moe.gguf", from));
    static const char *const drops[] = {"blk.1.attn_q.weight", "blk.2.ffn_down_exps.weight",
                                        "blk.0.ffn_gate_inp.weight", "output_norm.weight", "token_embd.weight"};
    for (size_t i = 0; i < sizeof drops / sizeof *drops; i++) {
        file_in_folder("drop.gguf", to);
        rewrite_gguf(from, to, &(struct rewrite){.drop = drops[i]});
        refuse(to, drops[i], "missing");
    }
    static const struct {
        const char *key;
        uint32_t value;
        const char *word;
    } sets[] = {{"qwen3moe.embedding_length", 128, "shape"},
                {"qwen3moe.expert_count", 7, "shape"},
                {"qwen3moe.attention.head_count", 5, "5"},
                {"qwen3moe.block_count", 4, "blk.3."},
                {"qwen3moe.expert_used_count", 9, "expert_used_count"},
                {"qwen3moe.block_count", 100000, "100000"},
                {"qwen3moe.attention.key_length", 0, "key_length"},
                {"qwen3moe.rope.dimension_count", 400, "dimension_count"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        file_in_folder("set.gguf", to);
        rewrite_gguf(from, to, &(struct rewrite){.set_u32_key = sets[i].key, .set_u32 = sets[i].value});
        refuse(to, sets[i].word, "");
    }
}

/* The small sizes of gemma4 have what the architecture here has not: refused by key and value, not misread. */
static void gemma4_beyond(void **state)
{
    (void)state;
    static const struct {
        const char *key, *word;
    } sets[] = {{"gemma4.embedding_length_per_layer_input", "is 64: embeddings by layer are not supported"},
                {"gemma4.attention.shared_kv_layers", "layers that share keys and values are not supported"}};
    char from[SUPPORT_PATH_MAX], to[SUPPORT_PATH_MAX];
    assert_true(support_golden("arch/gemma4-moe.gguf", from));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        file_in_folder("set.gguf", to);
        rewrite_gguf(from, to, &(struct rewrite){.set_u32_key = sets[i].key, .set_u32 = i ? 1 : 64});
        refuse(to, sets[i].key, sets[i].word);
    }
}

static void all_nan(uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        data[i] = 0x01;
        data[i + 1] = 0x7e; /* a half-precision NaN */
    }
}

/* A NaN anywhere in the weights never becomes a token: the first logits that it reaches are an error. */
static void nan_weights(void **state)
{
    (void)state;
    char from[SUPPORT_PATH_MAX], to[SUPPORT_PATH_MAX], path[SUPPORT_PATH_MAX];
    assert_true(support_golden("arch/qwen3moe-moe.gguf", from));
    assert_true(support_golden("arch/tokens.txt", path));
    size_t n, n_vocab;
    int32_t *ids = support_tokens(path, &n);
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.1.ffn_down_exps.weight",
                                        "blk.2.ffn_gate_exps.weight", "output.weight", "token_embd.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        file_in_folder("nan.gguf", to);
        rewrite_gguf(from, to, &(struct rewrite){.patch = names[i], .patch_bytes = all_nan});
        struct sluice_options o = support_options(to);
        float *out;
        enum sluice_status st = support_logits(NULL, &o, ids, n, &out, &n_vocab, &err);
        if (st != SLUICE_ERR_MODEL) fail_msg("NaN in %s gave status %d", names[i], st);
        assert_non_null(strstr(err.message, "not finite"));
        assert_memory_equal(err.message, to, strlen(to)); /* which file */
    }
    free(ids);
}

/* The type of a tensor in the file's directory: it stands behind the name, the number of dimensions and the dimensions.
 */
static void change_type(const char *from, const char *to, const char *name, uint32_t type)
{
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    static uint8_t bytes[1 << 20];
    size_t n = fread(bytes, 1, sizeof bytes, f), length = strlen(name);
    assert_true(n < sizeof bytes && fclose(f) == 0);
    uint8_t *at = memmem(bytes, n, name, length);
    assert_non_null(at);
    uint32_t dims;
    memcpy(&dims, at + length, sizeof dims);
    memcpy(at + length + 4 + 8 * dims, &type, sizeof type);
    f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Types that no product exists for are refused by name, as dense weights and as experts. */
static void unknown_types(void **state)
{
    (void)state;
    char from[SUPPORT_PATH_MAX], to[SUPPORT_PATH_MAX];
    assert_true(support_golden("arch/qwen3moe-moe.gguf", from));
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.1.ffn_down_exps.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        file_in_folder("type.gguf", to);
        change_type(from, to, names[i], 25); /* as large as F16, so nothing else is wrong with the file */
        struct sluice_options o = support_options(to);
        sluice_engine *e;
        assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_ERR_MODEL);
        assert_non_null(strstr(err.message, names[i]));
        assert_non_null(strstr(err.message, "type I16 (25), which Sluice cannot compute with"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_tensor_an_expert),  cmocka_unit_test(split_file),
                                       cmocka_unit_test(missing_and_misshapen), cmocka_unit_test(gemma4_beyond),
                                       cmocka_unit_test(nan_weights),           cmocka_unit_test(unknown_types)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
