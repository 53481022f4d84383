/* Attention of DeepSeek-V4: one row a position that is key and value of all heads, a window of them, and beside it
 * rows that each stand for 4 or 128 positions; of the former an indexer chooses. */
#ifndef MODEL_ATTENTION_COMPRESSED_H
#define MODEL_ATTENTION_COMPRESSED_H

#include "model/forward.h"

#define COMPRESS_OVERLAP 4 /* with this ratio a row sees the block before too, and an indexer chooses */

/* scratch.y = attention(norm(scratch.x)). The unfinished blocks are the layer's recurrent state. */
void attention_compressed(struct model_run *r, const struct model_step *s, uint32_t layer);
/* Sets the layer's cache and state sizes, and raises hp's sizes of scratch. */
void compressed_room(struct model_hparams *hp, struct model_layer_hparams *l);

#endif
