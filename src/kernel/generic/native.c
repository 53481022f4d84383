/* For processors that have no kernels of their own yet. */
#include "kernel/tables.h"

const struct kernel_table *const kernel_native_tables[] = {NULL};
