/* The tile instructions as Intel's manual describes them, for one thread, with what a processor would refuse: a tile
 * that is not configured, shapes that do not fit, a configuration that is out of range. A fault ends the program. */
#ifndef TESTS_KERNEL_TILES_H
#define TESTS_KERNEL_TILES_H

#include <stdbool.h>
#include <stddef.h>

void emulated_tile_loadconfig(const void *config);
void emulated_tile_release(void);
void emulated_tile_zero(unsigned t);
void emulated_tile_loadd(unsigned t, const void *at, size_t stride);
void emulated_tile_stored(unsigned t, void *at, size_t stride);
/* c += a b over bytes, four a lane. */
void emulated_tile_dot(unsigned c, unsigned a, unsigned b, bool a_signed, bool b_signed);

/* Whether this thread has tiles now, and how often any thread has set them up. */
bool emulated_tiles_held(void);
size_t emulated_tiles_begun(void);

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbusd
#define _tile_loadconfig(config) emulated_tile_loadconfig(config)
#define _tile_release() emulated_tile_release()
#define _tile_zero(t) emulated_tile_zero(t)
#define _tile_loadd(t, at, stride) emulated_tile_loadd(t, at, stride)
#define _tile_stored(t, at, stride) emulated_tile_stored(t, at, stride)
#define _tile_dpbssd(c, a, b) emulated_tile_dot(c, a, b, true, true)
#define _tile_dpbusd(c, a, b) emulated_tile_dot(c, a, b, false, true)

#endif
