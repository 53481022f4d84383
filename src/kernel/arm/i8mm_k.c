/* Q2_K to Q6_K and IQ4_XS by smmla. */
#include "kernel/arm/block256.h"
#include "kernel/arm/level_i8mm.h"

ARM_PRODUCT_MANY_256(i8mm, q2_k, kernel_dotprod_q2_k)
ARM_PRODUCT_MANY_256(i8mm, q3_k, kernel_dotprod_q3_k)
ARM_PRODUCT_MANY_256(i8mm, q4_k, kernel_dotprod_q4_k)
ARM_PRODUCT_MANY_256(i8mm, q5_k, kernel_dotprod_q5_k)
ARM_PRODUCT_MANY_256(i8mm, q6_k, kernel_dotprod_q6_k)
ARM_PRODUCT_MANY_256(i8mm, iq4_xs, kernel_dotprod_iq4_xs)
