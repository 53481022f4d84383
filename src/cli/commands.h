/* One function a command; each returns the exit code. main.c calls them. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/options.h"

int command_run(const struct cli_options *o);
int command_chat(const struct cli_options *o);
int command_serve(const struct cli_options *o);
int command_plan(const struct cli_options *o);
int command_inspect(const struct cli_options *o);
int command_tokenize(const struct cli_options *o);
int command_template(const struct cli_options *o);
int command_logits(const struct cli_options *o);
int command_perplexity(const struct cli_options *o);
int command_bench(const struct cli_options *o);
int command_profile(const struct cli_options *o);
int command_doctor(const struct cli_options *o);
int command_quantize(const struct cli_options *o);
int command_checksum(const struct cli_options *o);
int command_verify(const struct cli_options *o);
int command_pack(const struct cli_options *o);
int command_replay(const struct cli_options *o);

#endif
