/* `lru`: the one that was not used for longest. All ratings are 0, so that last use decides. */
#include "expert/policy_private.h"

const struct policy_ops policy_lru_ops = {.name = "lru"};
