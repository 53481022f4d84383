/* What this processor family may have, best first. */
#include "kernel/x86/x86.h"

const struct kernel_table *const kernel_native_tables[] = {&kernel_table_amx, &kernel_table_avx512, &kernel_table_avx2,
                                                           NULL};
