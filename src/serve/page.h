/* The page at "/": files of src/serve/page/, which the build puts into the program (page/embed.py). */
#ifndef SERVE_PAGE_H
#define SERVE_PAGE_H

#include <stddef.h>

struct page_file {
    const char *path; /* "/" or "/page/NAME" */
    const char *type; /* Content-Type */
    const char *etag; /* in quotes; of the bytes */
    const unsigned char *bytes;
    size_t n;
};

/* By path; made by the build. */
extern const struct page_file page_files[];
extern const size_t page_n_files;

/* The page runs and loads nothing but its own files, and no other site may frame it. */
#define PAGE_POLICY                                                                                                  \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " \
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

const struct page_file *page_find(const char *path); /* NULL: none */

#endif
