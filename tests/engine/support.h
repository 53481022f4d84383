/* What the engine's tests share: finding golden files, running a model over tokens, comparing logits. */
#ifndef TESTS_ENGINE_SUPPORT_H
#define TESTS_ENGINE_SUPPORT_H

#include "engine/engine.h"

#define SUPPORT_PATH_MAX 1024

/* $SLUICE_SHARED/oracle/NAME if it exists, else SOURCE/tests/golden/NAME. False, with a line, if neither does; where
 * the oracle is, that ends the test. */
bool support_golden(const char *name, char path[SUPPORT_PATH_MAX]);
/* SOURCE/NAME */
void support_source(const char *name, char path[SUPPORT_PATH_MAX]);

/* malloc'ed; the test fails if the file cannot be read. */
int32_t *support_tokens(const char *path, size_t *n);
float *support_floats(const char *path, size_t *n);

/* Default options for a model, quiet; lines of the log go to stderr if SLUICE_TEST_VERBOSE is set. */
struct sluice_options support_options(const char *model_path);
/* Opens, evaluates all tokens (logits of each), closes. logits: malloc'ed [n][n_vocab]. os NULL: the system's. */
enum sluice_status support_logits(const struct os_calls *os, const struct sluice_options *o, const int32_t *ids,
                                  size_t n, float **logits, size_t *n_vocab, struct sluice_error *err);

/* In a session of its own: two prompts, tokens 0 and 1000 on, with decode behind each. Returns the first of the last
 * logits. */
float support_two_prompts(sluice_engine *e, int32_t (*token)(uint32_t i), uint32_t n_prompt, uint32_t n_decode);

/* The system's calls, in a machine whose memory nobody else uses: kept prefixes do not leave because others need it, so
 * that their tokens can be counted. */
const struct os_calls *support_steady(void);

/* Sum of squared differences over sum of squares of `want`. */
/* Of a prompt alone the last logits, then those of two tokens more, and of all at once: the bits of `want`
 * [n][n_vocab]. The session is rewound; the last layer computes what those need and no more. */
void support_last_rows(sluice_session *s, const int32_t *ids, size_t n, const float *want, size_t n_vocab);
double support_nmse(const float *got, const float *want, size_t n);
/* Rows where want's best leads its second by more than gap but got's best is another. */
size_t support_argmax_faults(const float *got, const float *want, size_t n_rows, size_t n_vocab, double gap);

/* A log for options.log that is kept: was a line with this in it said since the last support_forget_lines? */
void support_keep_line(void *user, enum sluice_log_level level, const char *line);
bool support_said(const char *part);
void support_forget_lines(void);

#endif
