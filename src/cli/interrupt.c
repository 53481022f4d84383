#include "cli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* A signal handler has no argument to find these by. */
static volatile sig_atomic_t interrupts;
static _Atomic(sluice_engine *) computing;
static _Atomic(const struct termios *) leave_as;

static void end_at_once(void)
{
    const struct termios *terminal = atomic_load(&leave_as);
    if (terminal) tcsetattr(STDIN_FILENO, TCSANOW, terminal);
    _exit(130);
}

static void on_interrupt(int signal_number)
{
    if (interrupts >= 1) end_at_once();
    interrupts = 1;
    sluice_engine *engine = atomic_load(&computing);
    if (engine) sluice_cancel(engine);
}

void interrupt_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_interrupt; /* without SA_RESTART: a read from the terminal returns */
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = SIG_IGN; /* a closed pipe is an error of write, see out.h */
    sigaction(SIGPIPE, &action, NULL);
}

bool interrupt_pending(void) { return interrupts != 0; }

void interrupt_clear(void) { interrupts = 0; }

void interrupt_cancels(sluice_engine *engine) { atomic_store(&computing, engine); }

void interrupt_leaves(const struct termios *terminal) { atomic_store(&leave_as, terminal); }
