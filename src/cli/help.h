/* What the option table says to people and shells: --help, the manual page, completions. All of it is made from the
 * table; man/ and completions/ hold what these functions print, and a test compares. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/options.h"

#include <stdio.h>

void help_overview(FILE *out);                          /* sluice --help */
void help_command(FILE *out, enum cli_command command); /* sluice COMMAND --help */
void help_man(FILE *out);
bool help_completion(FILE *out, const char *shell); /* false: not a known shell */

#endif
