#include "model/arch.h"

#include "model/attention.h"
#include "model/ffn.h"
#include "model/moe.h"

#include <string.h>

static const struct model_arch *const archs[] = {
    &arch_bailingmoe2, &arch_deepseek2, &arch_deepseek32, &arch_deepseek4,  &arch_ernie4_5_moe, &arch_gemma4,
    &arch_glm4moe,     &arch_glm_dsa,   &arch_gpt_oss,    &arch_granitemoe, &arch_hunyuan_moe,  &arch_kimi_linear,
    &arch_lfm2moe,     &arch_llama,     &arch_llama4,     &arch_minimax_m2, &arch_olmoe,        &arch_phimoe,
    &arch_qwen2moe,    &arch_qwen35moe, &arch_qwen3moe,   &arch_qwen3next,
};

const struct model_arch *model_arch_find(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strlen(archs[i]->name) == bytes && !memcmp(archs[i]->name, name, bytes)) return archs[i];
    return NULL;
}

const char *model_arch_list(void)
{
    return "bailingmoe2, deepseek2, deepseek32, deepseek4, ernie4_5-moe, gemma4, glm-dsa, glm4moe, gpt-oss, "
           "granitemoe, hunyuan-moe, kimi-linear, lfm2moe, llama (with and without experts), llama4, minimax-m2, "
           "olmoe, phimoe, qwen2moe, qwen35moe, qwen3moe, qwen3next";
}

enum sluice_status model_layer_plain(struct model_run *r, const struct model_step *s, uint32_t layer,
                                     struct sluice_error *err)
{
    enum sluice_status st = attention_gqa(r, s, layer, err);
    return st ? st : model_feed_forward(r, s, layer, err);
}

enum sluice_status model_feed_forward(struct model_run *r, const struct model_step *s, uint32_t layer,
                                      struct sluice_error *err)
{
    const struct model_step *rest = model_narrow(r, s, layer);
    if (!rest->n_tokens) return SLUICE_OK;
    return r->model->layers[layer].is_moe ? moe_block(r, rest, layer, err) : ffn_block(r, rest, layer, err);
}
