/* What the tests of the cache share: a file of known bytes, a model of it, a reader, a cache, and views that are
 * checked byte for byte. */
#ifndef TESTS_EXPERT_CACHE_RIG_H
#define TESTS_EXPERT_CACHE_RIG_H

#include "expert/cache.h"
#include "expert/verify.h"
#include "fault_os.h"
#include "os/toucher.h"
#include "shape.h"
#include "test_file.h"

#define RIG_LAYERS 7
#define RIG_EXPERTS 16 /* a layer */
#define RIG_USED 3

struct cache_rig {
    struct fault_os fault;
    struct test_file file;
    struct base_log log;
    char lines[16][1024];
    unsigned n_lines;
    struct io *io;
    struct expert_catalog *catalog;
    struct expert_cache *cache;
    struct expert_verify *verify;                 /* of the next cache; the rig's to free */
    struct os_toucher *toucher;                   /* the same; NULL: none */
    bool small_pages;                             /* likewise */
    bool (*may_grow)(void *user, uint64_t bytes); /* of the cache; NULL: it always may */
    struct sluice_error err;
    unsigned threads; /* of that back end; set before rig_open. 1: reads begin in the order of their requests */
    uint32_t n_layers;
    uint32_t layers[RIG_LAYERS]; /* those that have experts */
};

/* A model of 1 or 3 size classes: six layers of experts and a dense one. All offsets are odd multiples of 32, experts
 * of one layer lie scattered (one tensor an expert), and the last expert ends with the file. */
void rig_init(struct cache_rig *r, uint32_t n_classes);
/* Opens the reader (wait_limit_ms 0: the default) and the catalog for its alignment. */
void rig_open(struct cache_rig *r, enum io_backend backend, bool buffered, uint32_t wait_limit_ms);
enum sluice_status rig_cache(struct cache_rig *r, enum policy_kind policy, uint64_t slots_bytes);
void rig_close(struct cache_rig *r); /* cache, catalog and reader */
void rig_end(struct cache_rig *r);
bool rig_logged(const struct cache_rig *r, const char *part);

unsigned rig_backends(enum io_backend out[3]);

/* Are the first n parts of the view the file's bytes? */
bool rig_view_is_right(const struct cache_rig *r, const struct expert_view *view, uint32_t n_parts);
/* Takes, checks, finishes, checks and gives all of a want that was begun. */
void rig_take_all(struct cache_rig *r, uint32_t n);
/* Wants one layer's experts and takes them all. */
void rig_step(struct cache_rig *r, uint32_t layer, const uint32_t *ids, uint32_t n);
/* n distinct ids below n_expert. */
void rig_choose(struct shape_random *random, uint32_t n_expert, uint32_t *ids, uint32_t n);
struct expert_stats rig_stats(const struct cache_rig *r);

#endif
