/* What the expert cache did, from struct sluice_stats: lines for people, an object for programs. A figure that a run
 * does not have is not shown. */
#ifndef CLI_FIGURES_H
#define CLI_FIGURES_H

#include "sluice.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* From `before` to `after`. Sizes, limits, what is locked, pinned or switched on, and what other sizes would give are
 * levels: those at the end. */
struct sluice_stats figures_difference(const struct sluice_stats *before, const struct sluice_stats *after);

/* d: a difference. ledger: of the engine. Without verbose: only what was locked, that memory was short, and
 * what other sizes would have given. */
void figures_print(FILE *out, const struct sluice_stats *d, const struct sluice_ledger *ledger, bool verbose);
/* All of it, as the object `stats` of --json (src/cli/README.md lists it). A new reference. */
json_t *figures_json(const struct sluice_stats *d);

#endif
