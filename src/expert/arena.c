#include "expert/cache.h"

static uint32_t floor_slots(const struct expert_class *class)
{
    return class->n_experts <= class->k_max ? class->n_experts : class->k_max + 1;
}

uint64_t expert_cache_floor_bytes(const struct expert_catalog *catalog)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < expert_catalog_n_classes(catalog); i++) {
        const struct expert_class *class = expert_catalog_class(catalog, i);
        bytes += (uint64_t) class->slot_bytes * floor_slots(class);
    }
    return bytes;
}

uint64_t expert_cache_full_bytes(const struct expert_catalog *catalog)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < expert_catalog_n_classes(catalog); i++) {
        const struct expert_class *class = expert_catalog_class(catalog, i);
        bytes += (uint64_t) class->slot_bytes * class->n_experts;
    }
    return bytes;
}
