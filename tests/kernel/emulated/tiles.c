#include "tiles.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tile {
    unsigned rows, row_bytes; /* 0: not configured */
    uint8_t bytes[16][64];
};

static _Thread_local struct {
    bool held;
    struct tile tile[8];
} state;

static atomic_size_t begun;

static void require(bool fits, const char *what)
{
    if (fits) return;
    fprintf(stderr, "tiles: a processor would have refused: %s\n", what);
    abort();
}

static struct tile *tile(unsigned t)
{
    require(state.held, "no configuration");
    require(t < 8, "tile number");
    require(state.tile[t].rows > 0, "a tile that is not configured");
    return &state.tile[t];
}

void emulated_tile_loadconfig(const void *config)
{
    uint8_t c[64];
    memcpy(c, config, sizeof c);
    require(c[0] == 1, "palette");
    require(c[1] == 0, "start row");
    for (int i = 2; i < 16; i++) require(c[i] == 0, "reserved bytes");
    memset(&state, 0, sizeof state);
    for (int t = 0; t < 16; t++) {
        unsigned row_bytes = c[16 + 2 * t] | (unsigned)c[17 + 2 * t] << 8, rows = c[48 + t];
        require(t < 8 ? row_bytes <= 64 && rows <= 16 : row_bytes == 0 && rows == 0, "a tile's size");
        require((rows == 0) == (row_bytes == 0), "a tile with one side");
        if (t < 8) {
            state.tile[t].rows = rows;
            state.tile[t].row_bytes = row_bytes;
        }
    }
    state.held = true;
    atomic_fetch_add(&begun, 1);
}

void emulated_tile_release(void) { memset(&state, 0, sizeof state); }

void emulated_tile_zero(unsigned t)
{
    struct tile *d = tile(t);
    memset(d->bytes, 0, sizeof d->bytes);
}

void emulated_tile_loadd(unsigned t, const void *at, size_t stride)
{
    struct tile *d = tile(t);
    memset(d->bytes, 0, sizeof d->bytes);
    for (unsigned r = 0; r < d->rows; r++) memcpy(d->bytes[r], (const char *)at + r * stride, d->row_bytes);
}

void emulated_tile_stored(unsigned t, void *at, size_t stride)
{
    struct tile *s = tile(t);
    for (unsigned r = 0; r < s->rows; r++) memcpy((char *)at + r * stride, s->bytes[r], s->row_bytes);
}

void emulated_tile_dot(unsigned c, unsigned a, unsigned b, bool a_signed, bool b_signed)
{
    struct tile *tc = tile(c), *ta = tile(a), *tb = tile(b);
    require(c != a && c != b && a != b, "a tile twice");
    require(tc->rows == ta->rows && tc->row_bytes == tb->row_bytes && ta->row_bytes == 4 * tb->rows, "shapes");
    int32_t w[64][16]; /* b's bytes: [4 k + i][lane] */
    for (unsigned k = 0; k < tb->rows; k++)
        for (unsigned j = 0; j < 64; j++) {
            uint8_t v = tb->bytes[k][j];
            w[4 * k + j % 4][j / 4] = b_signed ? (int8_t)v : v;
        }
    for (unsigned m = 0; m < tc->rows; m++) {
        uint32_t sums[16];
        memcpy(sums, tc->bytes[m], sizeof sums);
        for (unsigned k = 0; k < 4 * tb->rows; k++) {
            uint8_t v = ta->bytes[m][k];
            int32_t x = a_signed ? (int8_t)v : v;
            for (unsigned n = 0; n < 16; n++) sums[n] += (uint32_t)(x * w[k][n]); /* modulo 2^32 */
        }
        memcpy(tc->bytes[m], sums, tc->row_bytes);
    }
}

bool emulated_tiles_held(void) { return state.held; }
size_t emulated_tiles_begun(void) { return atomic_load(&begun); }
