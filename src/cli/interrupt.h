/* Ctrl-C. The first one asks what runs to stop, a second one before it has stopped ends the program with 130. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "sluice.h"

void interrupt_install(void);
bool interrupt_pending(void);
void interrupt_clear(void); /* what was asked for has been done */
/* While an engine is set, Ctrl-C also cancels its running call. Set it around calls that compute, else NULL. */
void interrupt_cancels(sluice_engine *engine);
/* How standard input's terminal is to be left when Ctrl-C ends the program; NULL: as it is. */
struct termios;
void interrupt_leaves(const struct termios *terminal);

#endif
