/* The families of models whose calls are known, one file each. */
#ifndef SERVE_TOOLCALL_FAMILIES_H
#define SERVE_TOOLCALL_FAMILIES_H

#include "serve/toolcall_parser.h"

extern const struct serve_family serve_harmony;     /* gpt-oss */
extern const struct serve_family serve_dsml;        /* DeepSeek V3.2, V4 */
extern const struct serve_family serve_deepseek;    /* DeepSeek V3, R1, V3.1 */
extern const struct serve_family serve_kimi;        /* Kimi K2 */
extern const struct serve_family serve_minimax;     /* MiniMax M2 */
extern const struct serve_family serve_glm;         /* GLM 4.5 and later */
extern const struct serve_family serve_mistral;     /* both ways */
extern const struct serve_family serve_nemotron;    /* Nemotron Nano v2 */
extern const struct serve_family serve_qwen3_coder; /* Qwen3-Coder, Qwen3.5, Step 3.5, Nemotron 3 */
extern const struct serve_family serve_llama3;
extern const struct serve_family serve_hermes; /* Qwen2.5, Qwen3, Hermes */

/* Harmony: the next text is the answer's. */
bool serve_harmony_answers(const struct serve_parser *p);

#endif
