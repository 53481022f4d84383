/* The levels of 64-bit ARM processors, best first. */
#include "kernel/arm/arm.h"

const struct kernel_table *const kernel_native_tables[] = {&kernel_table_i8mm, &kernel_table_dotprod,
                                                           &kernel_table_neon, NULL};
