/* What other programs call options, commands and orders of a chat, for those who type them here. */
#ifndef CLI_ELSEWHERE_H
#define CLI_ELSEWHERE_H

/* The way out, as a hint, or NULL. word: as it was typed, "-ngl" or "--ctx-size=4096". */
const char *elsewhere_option(const char *word);
const char *elsewhere_command(const char *word);
/* line: "/clear", or "/set seed 1". */
const char *elsewhere_order(const char *line);

#endif
