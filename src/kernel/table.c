/* Chooses a table; the scalar one is always there. */
#include "kernel/tables.h"

#include <string.h>

static bool cpu_has(const struct os_cpu *cpu, enum kernel_level level)
{
    switch (level) {
    case KERNEL_SCALAR: return true;
    case KERNEL_AVX2: return cpu->avx2 && cpu->fma && cpu->f16c;
    case KERNEL_LEVELS: break;
    }
    return false;
}

enum sluice_status kernel_select(const struct os_cpu *cpu, const char *level_name, const struct kernel_table **out,
                                 struct sluice_error *err)
{
    *out = NULL;
    if (!level_name || strcmp(level_name, "auto") == 0) {
        for (const struct kernel_table *const *t = kernel_native_tables; *t && !*out; t++)
            if (cpu_has(cpu, (*t)->level)) *out = *t;
        if (!*out) *out = &kernel_table_scalar;
        return SLUICE_OK;
    }
    if (strcmp(level_name, kernel_table_scalar.name) == 0) {
        *out = &kernel_table_scalar;
        return SLUICE_OK;
    }
    for (const struct kernel_table *const *t = kernel_native_tables; *t; t++) {
        if (strcmp(level_name, (*t)->name) != 0) continue;
        if (!cpu_has(cpu, (*t)->level))
            return base_fail(err, SLUICE_ERR_HARDWARE, "use auto, which takes the best level that the CPU has",
                             "this CPU (%s) cannot run the %s kernels", cpu->name, level_name);
        *out = *t;
        return SLUICE_OK;
    }
    if (strcmp(level_name, "avx2") == 0)
        return base_fail(err, SLUICE_ERR_HARDWARE, "use auto, which takes the best level that the CPU has",
                         "this build for another processor family holds no %s kernels", level_name);
    return base_fail(err, SLUICE_ERR_USAGE, "give one of auto, scalar, avx2", "there is no kernel level '%.32s'",
                     level_name);
}
