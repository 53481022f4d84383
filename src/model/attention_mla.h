/* Attention whose keys and values come from one latent row a position. */
#ifndef MODEL_ATTENTION_MLA_H
#define MODEL_ATTENTION_MLA_H

#include "model/forward.h"

/* x += wo attention(norm(x)) as hp.mla says. One formulation for every size of a step: with hp.mla.absorbed the cache
 * holds latent rows and queries are taken into the latent space (k_b), values out of it (v_b); else (files with kv_b)
 * it holds the keys and values of each head. */
enum sluice_status attention_mla(struct model_run *r, const struct model_step *s, uint32_t layer,
                                 struct sluice_error *err);
/* Raises hp's sizes of scratch to what the layer needs. */
void mla_room(struct model_hparams *hp, const struct model_layer_hparams *l);

#endif
