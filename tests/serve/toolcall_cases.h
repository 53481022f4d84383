/* Answers as the families of models write them, and what a parser makes of them. */
#ifndef TEST_TOOLCALL_CASES_H
#define TEST_TOOLCALL_CASES_H

#include <stdbool.h>
#include <stddef.h>

struct toolcall_case {
    const char *name, *family, *input;
    /* R(reasoning) T(text) C(name|id|arguments) or, if the arguments are not whole, c(...) */
    const char *expected;
    const char *held; /* with calls held until they are whole; NULL: the same */
    bool opened;      /* the prompt ends with <think> */
    bool brackets;    /* the template says [THINK] */
    bool no_tools;
};
extern const struct toolcall_case toolcall_cases[];
extern const size_t n_toolcall_cases;

#endif
