/* Q2_K to Q6_K and IQ4_XS by plain NEON. */
#include "kernel/arm/block256.h"
#include "kernel/arm/level_neon.h"

ARM_PRODUCT_256(neon, q2_k)
ARM_PRODUCT_256(neon, q3_k)
ARM_PRODUCT_256(neon, q4_k)
ARM_PRODUCT_256(neon, q5_k)
ARM_PRODUCT_256(neon, q6_k)
ARM_PRODUCT_256(neon, iq4_xs)
