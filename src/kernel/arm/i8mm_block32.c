/* Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL and MXFP4 by smmla. */
#include "kernel/arm/block32.h"
#include "kernel/arm/level_i8mm.h"

ARM_PRODUCT_MANY_32(i8mm, q4_0, kernel_dotprod_q4_0)
ARM_PRODUCT_MANY_32(i8mm, q4_1, kernel_dotprod_q4_1)
ARM_PRODUCT_MANY_32(i8mm, q5_0, kernel_dotprod_q5_0)
ARM_PRODUCT_MANY_32(i8mm, q5_1, kernel_dotprod_q5_1)
ARM_PRODUCT_MANY_32(i8mm, q8_0, kernel_dotprod_q8_0)
ARM_PRODUCT_MANY_32(i8mm, iq4_nl, kernel_dotprod_iq4_nl)
ARM_PRODUCT_MANY_32(i8mm, mxfp4, kernel_dotprod_mxfp4)
