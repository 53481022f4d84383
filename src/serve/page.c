#include "serve/page.h"

#include <string.h>

const struct page_file *page_find(const char *path)
{
    for (size_t i = 0; i < page_n_files; i++)
        if (!strcmp(page_files[i].path, path)) return &page_files[i];
    return NULL;
}
