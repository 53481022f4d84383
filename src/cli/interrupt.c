#include "cli/interrupt.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define FILES_MAX 4

/* A signal handler has no argument to find these by. */
static volatile sig_atomic_t interrupts, ends_at_once;
static _Atomic(sluice_engine *) computing;
static _Atomic(const struct termios *) leave_as;
static char files[FILES_MAX][PATH_MAX];
static atomic_bool registered[FILES_MAX];

/* Of the handlers: only what POSIX allows there. */
static void clean_up(void)
{
    for (size_t i = 0; i < FILES_MAX; i++)
        if (atomic_load(&registered[i])) unlink(files[i]);
    const struct termios *terminal = atomic_load(&leave_as);
    if (terminal) tcsetattr(STDIN_FILENO, TCSANOW, terminal);
}

static void on_interrupt(int signal_number)
{
    static const char word[] = "sluice: interrupted\n";
    if (interrupts >= 1 || ends_at_once) {
        clean_up();
        if (ends_at_once) (void)!write(STDERR_FILENO, word, sizeof word - 1);
        _exit(130);
    }
    interrupts = 1;
    sluice_engine *engine = atomic_load(&computing);
    if (engine) sluice_cancel(engine);
}

static void on_end(int signal_number)
{
    clean_up();
    signal(signal_number, SIG_DFL);
    raise(signal_number); /* held back until this handler returns */
}

static void handle(int signal_number, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    action.sa_handler = handler; /* without SA_RESTART: a read from the terminal returns */
    sigaction(signal_number, &action, NULL);
}

void interrupt_install(void)
{
    static const int ends[] = {SIGTERM, SIGHUP};
    struct sigaction before;
    handle(SIGINT, on_interrupt);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) /* nohup's choice stands */
        if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) handle(ends[i], on_end);
    handle(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write, see out.h */
    handle(SIGXFSZ, SIG_IGN); /* and so is a file that may not grow */
}

bool interrupt_pending(void) { return interrupts != 0; }

void interrupt_clear(void) { interrupts = 0; }

void interrupt_cancels(sluice_engine *engine) { atomic_store(&computing, engine); }

void interrupt_ends(bool at_once) { ends_at_once = at_once; }

void interrupt_leaves(const struct termios *terminal) { atomic_store(&leave_as, terminal); }

int interrupt_removes(const char *path)
{
    size_t bytes = strlen(path) + 1;
    if (bytes > PATH_MAX) return -1;
    for (int i = 0; i < FILES_MAX; i++) {
        if (atomic_load(&registered[i])) continue;
        memcpy(files[i], path, bytes);
        atomic_store(&registered[i], true);
        return i;
    }
    return -1;
}

void interrupt_keeps(int slot)
{
    if (slot >= 0) atomic_store(&registered[slot], false);
}

void interrupt_hold(bool hold)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}
