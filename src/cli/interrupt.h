/* Signals. The first Ctrl-C asks what runs to stop, a second one before it has stopped ends the program with 130.
 * SIGTERM and SIGHUP end it as they would anyway. However it ends, the files that are registered here are removed and
 * the terminal is left as it was. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "sluice.h"

void interrupt_install(void);
bool interrupt_pending(void);
void interrupt_clear(void); /* what was asked for has been done */
/* While an engine is set, Ctrl-C also cancels its running call. Set it around calls that compute, else NULL. */
void interrupt_cancels(sluice_engine *engine);
/* Around a long call that nothing can stop: already the first Ctrl-C ends the program. */
void interrupt_ends(bool at_once);
/* How standard input's terminal is to be left when a signal ends the program; NULL: as it is. */
struct termios;
void interrupt_leaves(const struct termios *terminal);

/* An unfinished file that a signal's end of the program removes, until it is kept. The slot, or -1 if there is none
 * left (then it stays behind). */
int interrupt_removes(const char *path);
void interrupt_keeps(int slot); /* -1: nothing */
/* Holds signals back, so that one cannot come between creating a file and registering it. */
void interrupt_hold(bool hold);

#endif
