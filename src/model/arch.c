#include "model/arch.h"

#include <string.h>

static const struct model_arch *const archs[] = {&arch_llama, &arch_olmoe, &arch_qwen2moe, &arch_qwen3moe};

const struct model_arch *model_arch_find(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strlen(archs[i]->name) == bytes && !memcmp(archs[i]->name, name, bytes)) return archs[i];
    return NULL;
}

const char *model_arch_list(void) { return "llama (with and without experts), olmoe, qwen2moe, qwen3moe"; }
