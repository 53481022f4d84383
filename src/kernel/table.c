/* Chooses a table; the scalar one is always there, any other is compared with it before it is used the first time. */
#include "kernel/tables.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static bool cpu_has(const struct os_cpu *cpu, enum kernel_level level)
{
    const bool avx2 = cpu->avx2 && cpu->fma && cpu->f16c;
    const bool avx512 = avx2 && cpu->avx512f && cpu->avx512bw && cpu->avx512vl && cpu->avx512vnni;
    switch (level) {
    case KERNEL_SCALAR: return true;
    case KERNEL_AVX2: return avx2;
    case KERNEL_AVX512: return avx512;
    case KERNEL_AMX: return avx512 && cpu->amx_int8 && cpu->avx512vbmi;
    case KERNEL_NEON: return cpu->neon;
    case KERNEL_DOTPROD: return cpu->neon && cpu->dotprod;
    case KERNEL_I8MM: return cpu->neon && cpu->dotprod && cpu->i8mm;
    case KERNEL_LEVELS: break;
    }
    return false;
}

/* The check of a level that passed is not repeated. Two threads that choose at the same time may both do it. */
static bool passes(const struct kernel_table *t, struct kernel_fault *fault)
{
    static _Atomic(const struct kernel_table *) passed[KERNEL_LEVELS];
    if (atomic_load(&passed[t->level]) == t) return true;
    if (!kernel_check(t, fault)) return false;
    if (t->tune) t->tune();
    atomic_store(&passed[t->level], t);
    return true;
}

static enum sluice_status faulty(const struct os_cpu *cpu, const struct kernel_table *t,
                                 const struct kernel_fault *fault, struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_HARDWARE,
                     "use auto, which takes the best level that computes correctly; and please report this",
                     "the %s kernels are not used: on this CPU (%s) %s%s%s does not give what the scalar ones give",
                     t->name, cpu->name, fault->function, fault->type ? " of " : "", fault->type ? fault->type : "");
}

static enum sluice_status select_best(const struct kernel_table *const *tables, const struct os_cpu *cpu,
                                      const struct kernel_table **out)
{
    struct kernel_fault fault;
    for (const struct kernel_table *const *t = tables; *t && !*out; t++)
        if (cpu_has(cpu, (*t)->level) && passes(*t, &fault)) *out = *t;
    if (!*out) *out = &kernel_table_scalar;
    return SLUICE_OK;
}

/* A level that this program was not built with: kernels are built for one family of processors. */
static enum sluice_status other_family(const struct kernel_table *const *tables, enum kernel_level level,
                                       const char *level_name, struct sluice_error *err)
{
    char list[80] = "scalar";
    for (const struct kernel_table *const *t = tables; *t; t++) {
        const size_t used = strlen(list);
        if ((*t)->level != KERNEL_SCALAR) snprintf(list + used, sizeof list - used, ", %s", (*t)->name);
    }
    base_fail(err, SLUICE_ERR_HARDWARE, NULL, "%s is a level of %s processors, which this program is not built for",
              level_name, level >= KERNEL_NEON ? "64-bit ARM" : "x86-64");
    base_hint(err, "this build has %s; auto takes the best of them that the CPU has", list);
    return SLUICE_ERR_HARDWARE;
}

enum sluice_status kernel_select_from(const struct kernel_table *const *tables, const struct os_cpu *cpu,
                                      const char *level_name, const struct kernel_table **out, struct sluice_error *err)
{
    static const char *const names[KERNEL_LEVELS] = {"scalar", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"};
    struct kernel_fault fault;
    *out = NULL;
    if (!level_name || strcmp(level_name, "auto") == 0) return select_best(tables, cpu, out);
    if (strcmp(level_name, kernel_table_scalar.name) == 0) {
        *out = &kernel_table_scalar;
        return SLUICE_OK;
    }
    for (const struct kernel_table *const *t = tables; *t; t++) {
        if (strcmp(level_name, (*t)->name) != 0) continue;
        if (!cpu_has(cpu, (*t)->level))
            return base_fail(err, SLUICE_ERR_HARDWARE, "use auto, which takes the best level that the CPU has",
                             "this CPU (%s) cannot run the %s kernels", cpu->name, level_name);
        if (!passes(*t, &fault)) return faulty(cpu, *t, &fault, err);
        *out = *t;
        return SLUICE_OK;
    }
    for (int level = 0; level < KERNEL_LEVELS; level++)
        if (strcmp(level_name, names[level]) == 0)
            return other_family(tables, (enum kernel_level)level, level_name, err);
    return base_fail(err, SLUICE_ERR_USAGE, "give one of auto, scalar, avx2, avx512, amx, neon, dotprod, i8mm",
                     "there is no kernel level '%.32s'", level_name);
}

enum sluice_status kernel_passed_over_from(const struct kernel_table *const *tables, const struct os_cpu *cpu,
                                           const struct kernel_table *chosen, struct sluice_error *err)
{
    struct kernel_fault fault;
    for (const struct kernel_table *const *t = tables; *t && *t != chosen; t++)
        if (cpu_has(cpu, (*t)->level) && !passes(*t, &fault)) return faulty(cpu, *t, &fault, err);
    return SLUICE_OK;
}

enum sluice_status kernel_select(const struct os_cpu *cpu, const char *level_name, const struct kernel_table **out,
                                 struct sluice_error *err)
{
    return kernel_select_from(kernel_native_tables, cpu, level_name, out, err);
}

enum sluice_status kernel_passed_over(const struct os_cpu *cpu, const struct kernel_table *chosen,
                                      struct sluice_error *err)
{
    return kernel_passed_over_from(kernel_native_tables, cpu, chosen, err);
}
