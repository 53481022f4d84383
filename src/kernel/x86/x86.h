/* Private to x86/: its tables. */
#ifndef KERNEL_X86_X86_H
#define KERNEL_X86_X86_H

#include "kernel/tables.h"

extern const struct kernel_table kernel_table_avx2, kernel_table_avx512, kernel_table_amx;

#endif
