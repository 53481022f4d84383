#include "cli/line.h"

#include "cli/interrupt.h"

#include <errno.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define HISTORY_LINES_MAX 1000
#define MESSAGE_BYTES_MAX (64u << 20)
#define PLAIN_BYTES_MIN 4096
#define ORDER_BYTES 32       /* of an order that Tab completes */
#define IDLE_YIELD_MS 1      /* between two slices of idle work: not a busy loop, whatever they do */
#define IDLE_AGAIN_MS 10000u /* when there was nothing to do */

struct line_reader {
    EditLine *edit; /* NULL: plain */
    History *history;
    char history_path[PATH_MAX];
    bool continued; /* the prompt shows that a line continues the one before */
    bool begins;    /* no character of this line has been read */
    bool changed;   /* the terminal is not as it was */
    struct termios before;
    const char *const *orders; /* what Tab completes */
    size_t n_orders;
    line_idle_fn *idle; /* may be NULL */
    void *idle_user;
    char *plain; /* what was read of standard input, and not given out yet: [plain_begin, plain_end) */
    size_t plain_begin, plain_end, plain_room;
    char *message;
    size_t message_bytes, message_room;
};

/* ---- history ---- */

static bool make_directories(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        int made = mkdir(path, 0700);
        int error = errno;
        *p = '/';
        if (made != 0 && error != EEXIST) return false;
    }
    return true;
}

static void find_history(struct line_reader *l)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state && state[0] == '/')
        n = snprintf(l->history_path, sizeof l->history_path, "%s/sluice/history", state);
    else if (home && home[0] == '/')
        n = snprintf(l->history_path, sizeof l->history_path, "%s/.local/state/sluice/history", home);
    if (n <= 0 || (size_t)n >= sizeof l->history_path || !make_directories(l->history_path)) l->history_path[0] = '\0';
}

static void load_history(struct line_reader *l)
{
    HistEvent event;
    l->history = history_init();
    if (!l->history) return;
    history(l->history, &event, H_SETSIZE, HISTORY_LINES_MAX);
    history(l->history, &event, H_SETUNIQUE, 1);
    el_set(l->edit, EL_HIST, history, l->history);
    find_history(l);
    if (l->history_path[0]) history(l->history, &event, H_LOAD, l->history_path);
}

static void save_history(struct line_reader *l)
{
    HistEvent event;
    if (!l->history_path[0]) return;
    mode_t before = umask(077);
    history(l->history, &event, H_SAVE, l->history_path);
    umask(before);
}

/* ---- waiting ---- */

/* Until something can be read; meanwhile there is time for other things. False: Ctrl-C. */
static bool wait_for_input(struct line_reader *l)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    int timeout_ms = l->idle ? 0 : -1;
    while (!interrupt_pending()) {
        int n = poll(&input, 1, timeout_ms);
        if (n > 0 || (n < 0 && errno != EINTR)) return true; /* an error is read's to tell */
        if (n < 0) continue;                                 /* another signal, as SIGWINCH */
        bool said = false;
        timeout_ms = l->idle(l->idle_user, &said) ? IDLE_YIELD_MS : (int)IDLE_AGAIN_MS;
        if (said && l->edit) el_set(l->edit, EL_REFRESH);
    }
    errno = EINTR;
    return false;
}

void line_idle(struct line_reader *l, line_idle_fn *idle, void *user)
{
    l->idle = idle;
    l->idle_user = user;
}

void line_orders(struct line_reader *l, const char *const *orders, size_t n)
{
    l->orders = orders;
    l->n_orders = n;
}

/* ---- terminal ---- */

static char *prompt(EditLine *edit)
{
    static char first[] = "> ", more[] = ". ";
    struct line_reader *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    return l && l->continued ? more : first;
}

/* What all orders that begin with the line so far go on with; "": nothing. */
static void order_rest(const struct line_reader *l, const LineInfo *line, char rest[ORDER_BYTES])
{
    const size_t typed = (size_t)(line->cursor - line->buffer);
    bool any = false;
    rest[0] = '\0';
    for (size_t i = 0; i < l->n_orders && typed && line->cursor == line->lastchar; i++) {
        size_t common = 0;
        if (strncmp(l->orders[i], line->buffer, typed) != 0) continue;
        const char *more = l->orders[i] + typed;
        if (!any) snprintf(rest, ORDER_BYTES, "%s", more);
        while (rest[common] && rest[common] == more[common]) common++;
        rest[common] = '\0';
        any = true;
    }
}

/* Tab. Not as a function of libedit's (EL_ADDFN), for it never frees their names. */
static void complete(const struct line_reader *l, EditLine *edit)
{
    char rest[ORDER_BYTES];
    order_rest(l, el_line(edit), rest);
    if (rest[0] && el_insertstr(edit, rest) == 0)
        el_set(edit, EL_REFRESH);
    else
        el_beep(edit);
}

/* libedit's own reading takes up again after a signal; this one lets Ctrl-C end the line. */
static int read_character(EditLine *edit, wchar_t *out)
{
    char bytes[MB_LEN_MAX];
    size_t n = 0;
    struct line_reader *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    struct pollfd waiting = {STDIN_FILENO, POLLIN, 0};
    bool typed_before = l->begins && poll(&waiting, 1, 0) == 1;
    l->begins = false;
    for (;;) {
        if (!wait_for_input(l)) return -1;
        ssize_t got = read(STDIN_FILENO, bytes + n, 1);
        if (got == 0) return 0;
        if (got < 0) {
            if (errno == EINTR && !interrupt_pending()) continue; /* another signal, as SIGWINCH */
            return -1;
        }
        /* libedit passes through line mode on its way to the prompt: the kernel marks a Ctrl-D of that moment so. */
        if (typed_before && n == 0 && bytes[0] == '\0') bytes[0] = 'D' & 0x1f;
        if (n == 0 && bytes[0] == '\t') {
            complete(l, edit);
            continue;
        }
        n++;
        mbstate_t state;
        memset(&state, 0, sizeof state);
        size_t used = mbrtowc(out, bytes, n, &state);
        if (used == (size_t)-2 && n < sizeof bytes) continue; /* an unfinished character */
        if (used == (size_t)-1 || used == (size_t)-2) {
            n = 0; /* not a character in this locale: left out */
            continue;
        }
        return 1;
    }
}

/* Between its lines libedit gives the terminal back to line mode, in which the kernel takes a Ctrl-D for itself: one
 * typed while an answer is written, or just before the prompt, would be lost. So line mode is off for as long as the
 * reader is open; Ctrl-C still interrupts. */
static void leave_line_mode(struct line_reader *l)
{
    if (tcgetattr(STDIN_FILENO, &l->before)) return;
    struct termios now = l->before;
    now.c_lflag &= ~(tcflag_t)ICANON;
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    l->changed = tcsetattr(STDIN_FILENO, TCSADRAIN, &now) == 0;
    if (l->changed) interrupt_leaves(&l->before);
}

static void open_terminal(struct line_reader *l)
{
    leave_line_mode(l);
    /* Characters, not numbers or dates, follow the user's locale. A C locale would lose every letter that is not
     * ASCII. */
    const char *locale = setlocale(LC_CTYPE, "");
    if (!locale || strcmp(locale, "C") == 0 || strcmp(locale, "POSIX") == 0) setlocale(LC_CTYPE, "C.UTF-8");
    l->edit = el_init("sluice", stdin, stderr, stderr);
    if (!l->edit) return; /* an unusable terminal: plain lines */
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, prompt);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_SIGNAL, 0);
    el_wset(l->edit, EL_GETCFN, read_character);
    el_source(l->edit, NULL);
    load_history(l);
}

enum sluice_status line_open(bool terminal, struct line_reader **out, struct sluice_error *err)
{
    struct line_reader *l = calloc(1, sizeof *l);
    if (!l) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    if (terminal) open_terminal(l);
    *out = l;
    return SLUICE_OK;
}

void line_close(struct line_reader *l)
{
    if (!l) return;
    if (l->history) save_history(l);
    if (l->edit) el_end(l->edit);
    if (l->changed) {
        interrupt_leaves(NULL);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &l->before);
    }
    if (l->history) history_end(l->history);
    free(l->plain);
    free(l->message);
    free(l);
}

/* ---- reading ---- */

static bool plain_reserve(struct line_reader *l)
{
    size_t held = l->plain_end - l->plain_begin;
    if (l->plain_end < l->plain_room) return true;
    if (l->plain_begin >= l->plain_room / 2 && l->plain_room) {
        memmove(l->plain, l->plain + l->plain_begin, held);
    } else {
        size_t room = l->plain_room ? l->plain_room * 2 : PLAIN_BYTES_MIN;
        char *more = room > 2 * (size_t)MESSAGE_BYTES_MAX ? NULL : malloc(room);
        if (!more) return false;
        if (held) memcpy(more, l->plain + l->plain_begin, held);
        free(l->plain);
        l->plain = more;
        l->plain_room = room;
    }
    l->plain_begin = 0;
    l->plain_end = held;
    return true;
}

/* The next line, with its newline; the last one may have none. Not stdio's: what it has read ahead cannot be seen, and
 * waiting for more while a line lies there would be waiting for nothing. False: the end, or errno. */
static bool read_plain(struct line_reader *l, const char **text, size_t *bytes)
{
    size_t searched = 0;
    for (;;) {
        const char *begin = l->plain ? l->plain + l->plain_begin : "", *end = NULL; /* nothing was read yet */
        size_t held = l->plain_end - l->plain_begin;
        if (held > searched) end = memchr(begin + searched, '\n', held - searched);
        searched = held;
        if (!end) {
            if (!plain_reserve(l)) {
                errno = ENOMEM;
                return false;
            }
            if (!wait_for_input(l)) return false;
            errno = 0;
            ssize_t got = read(STDIN_FILENO, l->plain + l->plain_end, l->plain_room - l->plain_end);
            if (got < 0 && errno == EINTR) continue; /* a Ctrl-C is noticed by the next wait */
            if (got < 0 || (got == 0 && held == 0)) return false;
            l->plain_end += (size_t)got;
            if (got > 0) continue;
            begin = l->plain + l->plain_begin; /* it may have moved */
        }
        *text = begin;
        *bytes = end ? (size_t)(end - begin) + 1 : held;
        l->plain_begin += *bytes;
        return true;
    }
}

static enum line_end read_line(struct line_reader *l, const char **text, size_t *bytes, struct sluice_error *err)
{
    errno = 0;
    if (l->edit) {
        int n = 0;
        l->begins = true;
        *text = el_gets(l->edit, &n);
        if (*text && n > 0) {
            *bytes = (size_t)n;
            return LINE_READ;
        }
    } else if (read_plain(l, text, bytes)) {
        return LINE_READ;
    }
    if (interrupt_pending()) {
        clearerr(stdin);
        return LINE_INTERRUPTED;
    }
    if (!l->edit && errno == ENOMEM) {
        base_fail(err, SLUICE_ERR_MEMORY, NULL, "the message is too long (over %u bytes)", MESSAGE_BYTES_MAX);
        return LINE_FAILED;
    }
    if (errno && errno != EINTR && (!l->edit || (!feof(stdin) && ferror(stdin)))) {
        base_fail(err, SLUICE_ERR_IO, NULL, "standard input: %s", strerror(errno));
        return LINE_FAILED;
    }
    return LINE_END;
}

static bool append(struct line_reader *l, const char *text, size_t bytes)
{
    size_t need = l->message_bytes + bytes + 2;
    if (need > l->message_room) {
        size_t room = need * 2;
        char *more = need > MESSAGE_BYTES_MAX ? NULL : realloc(l->message, room);
        if (!more) return false;
        l->message = more;
        l->message_room = room;
    }
    memcpy(l->message + l->message_bytes, text, bytes);
    l->message_bytes += bytes;
    l->message[l->message_bytes] = '\0';
    return true;
}

enum line_end line_read(struct line_reader *l, const char **text, struct sluice_error *err)
{
    HistEvent event;
    enum line_end end;
    bool more = true, nul = false;
    l->message_bytes = 0;
    l->continued = false;
    while (more) {
        const char *line;
        size_t bytes;
        end = read_line(l, &line, &bytes, err);
        if (end == LINE_END && l->continued) break; /* the end after a backslash: what was written so far */
        if (end != LINE_READ) return end;
        if (l->history && bytes > 1) history(l->history, &event, H_ENTER, line);
        while (bytes && (line[bytes - 1] == '\n' || line[bytes - 1] == '\r')) bytes--;
        more = bytes > 0 && line[bytes - 1] == '\\';
        nul = nul || memchr(line, '\0', bytes);
        if (!append(l, line, more ? bytes - 1 : bytes) || (more && !append(l, "\n", 1))) {
            base_fail(err, SLUICE_ERR_MEMORY, NULL, "the message is too long (over %u bytes)", MESSAGE_BYTES_MAX);
            return LINE_FAILED;
        }
        l->continued = more;
    }
    l->continued = false;
    if (nul) {
        base_fail(err, SLUICE_ERR_USAGE, "is it a text?", "the message holds a NUL byte and is left out");
        return LINE_REFUSED;
    }
    *text = l->message;
    return LINE_READ;
}
