/* Walks over everything that an opened GGUF offers and checks what README.md of src/gguf promises. */
#ifndef FUZZ_VISIT_GGUF_H
#define FUZZ_VISIT_GGUF_H

#include "gguf/gguf.h"

void visit_gguf(const struct gguf *g);
/* After a failed open: the error must be complete. */
void visit_gguf_error(enum sluice_status status, const struct sluice_error *err, const struct gguf *g);

#endif
