/* One GGUF file: the input is the file. */
#include "fuzz.h"
#include "visit_gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct gguf *g = NULL;
    struct sluice_error err = {0};
    enum sluice_status status = gguf_open_memory(data, bytes, "fuzz.gguf", &g, &err);
    if (status != SLUICE_OK) {
        visit_gguf_error(status, &err, g);
        return 0;
    }
    visit_gguf(g);
    gguf_close(g);
    return 0;
}
