/* x86 features: what the processor knows and the operating system saves at a switch (XCR0). Leaves and bits: Intel SDM
 * volume 2, CPUID. */
#include "os/linux/linux.h"

#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XCR0_AVX 0x6u     /* SSE and AVX state */
#define XCR0_AVX512 0xe6u /* and opmask, upper halves, upper registers */
#define XCR0_AMX 0x60000u /* tile configuration and data */
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux gives a process tile registers only when it asks (5.16); the permission stays and threads inherit it. */
static bool tiles_permitted(void)
{
#ifdef SYS_arch_prctl
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

static void read_name(struct os_cpu *out)
{
    unsigned brand[12];
    if ((unsigned)(unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) return; /* clang's version returns int */
    for (unsigned i = 0; i < 3; i++)
        __cpuid(0x80000002u + i, brand[4 * i], brand[4 * i + 1], brand[4 * i + 2], brand[4 * i + 3]);
    char text[sizeof brand + 1];
    memcpy(text, brand, sizeof brand);
    text[sizeof brand] = 0;
    const char *start = text;
    while (*start == ' ') start++;
    size_t n = strlen(start);
    while (n > 0 && start[n - 1] == ' ') n--;
    if (n == 0) return;
    memcpy(out->name, start, n); /* at most 48 bytes */
    out->name[n] = 0;
}

void linux_cpu_features(struct os_cpu *out)
{
    unsigned a, b, c, d;
    read_name(out);
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return;
    uint64_t xcr0 = read_xcr0();
    if ((xcr0 & XCR0_AVX) != XCR0_AVX) return;
    bool avx = c & bit_AVX;
    out->fma = avx && (c & bit_FMA);
    out->f16c = avx && (c & bit_F16C);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    out->avx2 = avx && (b & bit_AVX2);
    if ((xcr0 & XCR0_AVX512) == XCR0_AVX512) {
        out->avx512f = b & bit_AVX512F;
        out->avx512bw = out->avx512f && (b & bit_AVX512BW);
        out->avx512vl = out->avx512f && (b & bit_AVX512VL);
        out->avx512vnni = out->avx512f && (c & bit_AVX512VNNI);
        out->avx512vbmi = out->avx512f && (c & bit_AVX512VBMI);
    }
    bool tile = (d >> 24 & 1) && (d >> 25 & 1); /* AMX-TILE, AMX-INT8 */
    out->amx_int8 = tile && (xcr0 & XCR0_AMX) == XCR0_AMX && tiles_permitted();
}
