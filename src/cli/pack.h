/* sluice pack by given system calls: tests see to it that the disk does wrong. */
#ifndef CLI_PACK_H
#define CLI_PACK_H

#include "cli/options.h"
#include "os/os.h"

int pack_run(const struct os_calls *os, const struct cli_options *o); /* the exit code */

#endif
