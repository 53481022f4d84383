/* Q2_K to Q6_K and IQ4_XS by sdot. */
#include "kernel/arm/block256.h"
#include "kernel/arm/level_dotprod.h"

ARM_PRODUCT_256(dotprod, q2_k)
ARM_PRODUCT_256(dotprod, q3_k)
ARM_PRODUCT_256(dotprod, q4_k)
ARM_PRODUCT_256(dotprod, q5_k)
ARM_PRODUCT_256(dotprod, q6_k)
ARM_PRODUCT_256(dotprod, iq4_xs)
