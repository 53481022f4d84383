#include "model/window.h"

#include "base/assert.h"

uint64_t model_window_rows(uint32_t window, uint32_t chunk)
{
    const uint64_t block = KERNEL_ATTENTION_BLOCK, least = (uint64_t)window - 1 + chunk + MODEL_WINDOW_SLACK;
    return (least + block - 1) / block * block;
}

void model_window_each(const struct model_window *w, size_t at, model_piece_fn *visit, void *user)
{
    if (!w->rows) return;
    const size_t first = model_window_needs(w, at), row = first % w->rows, n = at - first;
    const size_t n_high = n < w->rows - row ? n : w->rows - row; /* up to the ring's end; the others begin anew */
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const size_t bytes = w->part[i].row_bytes;
        if (n_high) visit(user, w->part[i].at + row * bytes, n_high * bytes);
        if (n > n_high) visit(user, w->part[i].at, (n - n_high) * bytes);
    }
}

void model_window_advance(struct model_window *w, size_t at, size_t n)
{
    if (!w->rows) return;
    BASE_ASSERT(n + w->back <= w->rows, "M8 a step leaves the rows that its queries look at");
    if (at + n > w->rows && at + n - w->rows > w->low) w->low = at + n - w->rows;
}
