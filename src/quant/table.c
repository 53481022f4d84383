/* One row a type. Ids and block shapes are those of GGUF files (ggml.h, gguf-py's constants); ids of 97 to 99 and from
 * 133 on belong to the fork ik_llama.cpp, and those without a row in any current source were removed upstream. */
#include "base/assert.h"
#include "quant/formats.h"

#include <strings.h>

#define FLOAT_ROW(ID, low)                                                                                             \
    {                                                                                                                  \
        QUANT_##ID, #ID, 1, QUANT_##ID == QUANT_F32 ? 4 : 2, QUANT_FORM_FLOAT, quant_decode_##low, quant_encode_##low, \
            quant_dot_row_##low                                                                                        \
    }
#define ROW_32(ID, low, bytes, encode)                                                                   \
    {                                                                                                    \
        QUANT_##ID, #ID, QUANT_LEN_32, bytes, QUANT_FORM_32, quant_decode_##low, encode, quant_dot_##low \
    }
#define ROW_K(ID, low, bytes, encode)                                                                    \
    {                                                                                                    \
        QUANT_##ID, #ID, QUANT_LEN_K, bytes, QUANT_FORM_256, quant_decode_##low, encode, quant_dot_##low \
    }

static const struct quant_type types[] = {
    FLOAT_ROW(F32, f32),
    FLOAT_ROW(F16, f16),
    FLOAT_ROW(BF16, bf16),
    ROW_32(Q4_0, q4_0, 18, quant_encode_q4_0),
    ROW_32(Q4_1, q4_1, 20, NULL),
    ROW_32(Q5_0, q5_0, 22, NULL),
    ROW_32(Q5_1, q5_1, 24, NULL),
    ROW_32(Q8_0, q8_0, 34, quant_encode_q8_0),
    ROW_K(Q2_K, q2_k, 84, NULL),
    ROW_K(Q3_K, q3_k, 110, NULL),
    ROW_K(Q4_K, q4_k, 144, quant_encode_q4_k),
    ROW_K(Q5_K, q5_k, 176, NULL),
    ROW_K(Q6_K, q6_k, 210, quant_encode_q6_k),
    ROW_32(IQ4_NL, iq4_nl, 18, NULL),
    ROW_K(IQ4_XS, iq4_xs, 136, NULL),
    ROW_32(MXFP4, mxfp4, 17, NULL),
    ROW_K(IQ1_S, iq1_s, 50, NULL),
    ROW_K(IQ1_M, iq1_m, 56, NULL),
    ROW_K(IQ2_XXS, iq2_xxs, 66, NULL),
    ROW_K(IQ2_XS, iq2_xs, 74, NULL),
    ROW_K(IQ2_S, iq2_s, 82, NULL),
    ROW_K(IQ3_XXS, iq3_xxs, 98, NULL),
    ROW_K(IQ3_S, iq3_s, 110, NULL),
    ROW_K(TQ1_0, tq1_0, 54, quant_encode_tq1_0),
    ROW_K(TQ2_0, tq2_0, 66, quant_encode_tq2_0),
    {QUANT_NVFP4, "NVFP4", 64, 36, QUANT_FORM_16, quant_decode_nvfp4, NULL, quant_dot_nvfp4},
};

#define N_TYPES (sizeof types / sizeof types[0])

/* Everything that a file may name. block_len 0: the name is known, the layout is not. */
static const struct known {
    uint32_t id;
    const char *name;
    uint16_t block_len, block_bytes;
} known[] = {
    {0, "F32", 1, 4},           {1, "F16", 1, 2},           {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {4, "Q4_2", 0, 0},          {5, "Q4_3", 0, 0},          {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},        {9, "Q8_1", 32, 36},        {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},
    {12, "Q4_K", 256, 144},     {13, "Q5_K", 256, 176},     {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},   {17, "IQ2_XS", 256, 74},    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},     {21, "IQ3_S", 256, 110},    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},           {25, "I16", 1, 2},          {26, "I32", 1, 4},        {27, "I64", 1, 8},
    {28, "F64", 1, 8},          {29, "IQ1_M", 256, 56},     {30, "BF16", 1, 2},       {31, "Q4_0_4_4", 32, 18},
    {32, "Q4_0_4_8", 32, 18},   {33, "Q4_0_8_8", 32, 18},   {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},
    {36, "IQ4_NL_4_4", 0, 0}, /* upstream's, removed since; the fork gave the id to I2_S, so no shape */
    {37, "IQ4_NL_4_8", 32, 18}, {38, "IQ4_NL_8_8", 32, 18}, {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},      {42, "Q2_0", 64, 18},       {97, "Q8_0_X4", 0, 0},    {98, "Q8_1_X4", 0, 0},
    {99, "Q8_2_X4", 0, 0},      {133, "Q6_0", 0, 0},        {134, "IQ1_BN", 0, 0},    {135, "IQ2_BN", 0, 0},
    {136, "Q8_K64", 0, 0},      {137, "IQ2_K", 0, 0},       {138, "IQ3_K", 0, 0},     {139, "IQ4_K", 0, 0},
    {140, "IQ5_K", 0, 0},       {141, "IQ6_K", 0, 0},       {144, "IQ4_KS", 0, 0},    {145, "IQ2_KS", 0, 0},
    {146, "IQ4_KSS", 0, 0},     {147, "Q8_K16", 0, 0},      {148, "Q8_K32", 0, 0},    {149, "Q8_KR8", 0, 0},
    {150, "Q8_K128", 0, 0},     {151, "Q8_KV", 0, 0},       {152, "IQ5_KS", 0, 0},    {153, "IQ2_KT", 0, 0},
    {154, "IQ3_KT", 0, 0},      {155, "IQ4_KT", 0, 0},      {156, "IQ3_KS", 0, 0},    {157, "IQ2_KL", 0, 0},
    {158, "IQ1_KT", 0, 0},      {202, "Q4_0_R8", 0, 0},     {206, "Q5_0_R4", 0, 0},   {208, "Q8_0_R8", 0, 0},
    {210, "Q2_K_R4", 0, 0},     {211, "Q3_K_R4", 0, 0},     {212, "Q4_K_R4", 0, 0},   {213, "Q5_K_R4", 0, 0},
    {214, "Q6_K_R4", 0, 0},     {216, "IQ2_XXS_R4", 0, 0},  {217, "IQ2_XS_R4", 0, 0}, {218, "IQ3_XXS_R4", 0, 0},
    {219, "IQ1_S_R4", 0, 0},    {220, "IQ4_NL_R4", 0, 0},   {221, "IQ3_S_R4", 0, 0},  {222, "IQ2_S_R4", 0, 0},
    {223, "IQ4_XS_R8", 0, 0},   {229, "IQ1_M_R4", 0, 0},    {230, "BF16_R16", 0, 0},  {233, "Q6_0_R4", 0, 0},
    {335, "IQ2_BN_R4", 0, 0},   {337, "IQ2_K_R4", 0, 0},    {338, "IQ3_K_R4", 0, 0},  {339, "IQ4_K_R4", 0, 0},
    {340, "IQ5_K_R4", 0, 0},    {344, "IQ4_KS_R4", 0, 0},   {352, "IQ5_KS_R4", 0, 0}, {397, "Q8_K_R16", 0, 0},
    {398, "Q8_KV_R8", 0, 0},    {399, "Q8_K_R8", 0, 0},
};

#define N_KNOWN (sizeof known / sizeof known[0])

const struct quant_type *quant_type(uint32_t id)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (types[i].id == id) return &types[i];
    return NULL;
}

const struct quant_type *quant_type_by_name(const char *name)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (strcasecmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

static const struct known *find_known(uint32_t id)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (known[i].id == id) return &known[i];
    return NULL;
}

const char *quant_type_name(uint32_t id)
{
    const struct known *k = find_known(id);
    return k ? k->name : NULL;
}

bool quant_type_shape(uint32_t id, uint32_t *block_len, uint32_t *block_bytes)
{
    const struct known *k = find_known(id);
    if (!k || k->block_len == 0) return false;
    *block_len = k->block_len;
    *block_bytes = k->block_bytes;
    return true;
}

size_t quant_row_bytes(const struct quant_type *t, size_t n)
{
    BASE_ASSERT(n % t->block_len == 0, "Q1 a row is a whole number of blocks");
    return n / t->block_len * t->block_bytes;
}
