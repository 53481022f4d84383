/* The routed feed-forward block: router, experts through the cache, optional shared expert. */
#ifndef MODEL_MOE_H
#define MODEL_MOE_H

#include "model/forward.h"
#include "model/router.h"

/* x += experts(norm(x)) [+ sigmoid(gate . h) * shared(h)]. Outputs are summed in ascending expert id, then the shared
 * expert (E5). */
enum sluice_status moe_block(struct model_run *r, const struct model_step *s, uint32_t layer,
                             const struct router_kind *kind, struct sluice_error *err);

#endif
