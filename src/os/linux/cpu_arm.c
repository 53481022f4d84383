/* AArch64 features as the kernel reports them (Documentation/arch/arm64/elf_hwcaps). */
#include "os/linux/linux.h"

#include <asm/hwcap.h>
#include <sys/auxv.h>

void linux_cpu_features(struct os_cpu *out)
{
    unsigned long hwcap = getauxval(AT_HWCAP), hwcap2 = getauxval(AT_HWCAP2);
    out->neon = hwcap & HWCAP_ASIMD;
    out->dotprod = out->neon && (hwcap & HWCAP_ASIMDDP);
#ifdef HWCAP2_I8MM
    out->i8mm = out->neon && (hwcap2 & HWCAP2_I8MM);
#else
    (void)hwcap2;
#endif
}
