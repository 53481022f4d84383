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

struct line_reader {
    EditLine *edit; /* NULL: plain */
    History *history;
    char history_path[PATH_MAX];
    bool continued; /* the prompt shows that a line continues the one before */
    bool begins;    /* no character of this line has been read */
    bool changed;   /* the terminal is not as it was */
    struct termios before;
    char *plain; /* getline's buffer */
    size_t plain_room;
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

/* ---- terminal ---- */

static char *prompt(EditLine *edit)
{
    static char first[] = "> ", more[] = ". ";
    struct line_reader *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    return l && l->continued ? more : first;
}

/* libedit's own reading takes up again after a signal; this one lets Ctrl-C end the line. */
static int read_character(EditLine *edit, wchar_t *out)
{
    char bytes[MB_LEN_MAX];
    size_t n = 0;
    struct line_reader *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    struct pollfd waiting = {STDIN_FILENO, POLLIN, 0};
    bool typed_before = l && l->begins && poll(&waiting, 1, 0) == 1;
    if (l) l->begins = false;
    for (;;) {
        if (interrupt_pending()) {
            errno = EINTR;
            return -1;
        }
        ssize_t got = read(STDIN_FILENO, bytes + n, 1);
        if (got == 0) return 0;
        if (got < 0) {
            if (errno == EINTR && !interrupt_pending()) continue; /* another signal, as SIGWINCH */
            return -1;
        }
        /* libedit passes through line mode on its way to the prompt: the kernel marks a Ctrl-D of that moment so. */
        if (typed_before && n == 0 && bytes[0] == '\0') bytes[0] = 'D' & 0x1f;
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
    } else {
        ssize_t n = getline(&l->plain, &l->plain_room, stdin);
        if (n >= 0) {
            *text = l->plain;
            *bytes = (size_t)n;
            return LINE_READ;
        }
    }
    if (interrupt_pending()) {
        clearerr(stdin);
        return LINE_INTERRUPTED;
    }
    if (errno && errno != EINTR && !feof(stdin) && ferror(stdin)) {
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
