/* sluice chat on a terminal: editing, Ctrl-C at the prompt and in an answer, Ctrl-D, history, idle work. Runs the
 * program that SLUICE_FAKE names (the one with the scripted library) on a pseudo-terminal. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 20000 /* only a program that hangs takes so long */

struct terminal {
    int fd;
    pid_t pid;
    char seen[1 << 16];
    size_t n, from; /* from: where the next search begins */
    char folder[64], model[96];
};

static void start(struct terminal *t, const char *script)
{
    const char *program = getenv("SLUICE_FAKE");
    assert_non_null(program);
    memset(t, 0, sizeof *t);
    snprintf(t->folder, sizeof t->folder, "/tmp/sluice-terminal-XXXXXX");
    assert_non_null(mkdtemp(t->folder));
    snprintf(t->model, sizeof t->model, "%s/model", t->folder);
    FILE *f = fopen(t->model, "w");
    fputs(script, f);
    fclose(f);
    t->pid = forkpty(&t->fd, NULL, NULL, NULL);
    assert_true(t->pid >= 0);
    if (t->pid == 0) {
        setenv("XDG_STATE_HOME", t->folder, 1);
        setenv("TERM", "xterm", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        unsetenv("EDITRC");
        execl(program, "sluice", "chat", "-m", t->model, "--seed", "1", (char *)NULL);
        _exit(99);
    }
}

static void expect(struct terminal *t, const char *text)
{
    for (;;) {
        char *at = strstr(t->seen + t->from, text);
        if (at) {
            t->from = (size_t)(at - t->seen) + strlen(text);
            return;
        }
        struct pollfd p = {t->fd, POLLIN, 0};
        ssize_t got = poll(&p, 1, WAIT_MS) == 1 ? read(t->fd, t->seen + t->n, sizeof t->seen - 1 - t->n) : -1;
        if (got <= 0) fail_msg("'%s' did not come after:\n%s", text, t->seen + t->from);
        t->n += (size_t)got;
        t->seen[t->n] = '\0';
    }
}

static void type(struct terminal *t, const char *keys)
{
    assert_int_equal(write(t->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* Reads what still comes; returns the exit code. */
static int finish(struct terminal *t)
{
    int status;
    struct pollfd p = {t->fd, POLLIN, 0};
    for (;;) {
        if (poll(&p, 1, WAIT_MS) != 1) {
            kill(t->pid, SIGKILL);
            fail_msg("the program does not end after:\n%s", t->seen);
        }
        ssize_t got = read(t->fd, t->seen + t->n, sizeof t->seen - 1 - t->n);
        if (got <= 0) break;
        t->n += (size_t)got;
        t->seen[t->n] = '\0';
    }
    assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
    close(t->fd);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void clean(struct terminal *t)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", t->folder);
    assert_int_equal(system(command), 0);
}

static void talks_edits_and_remembers(void **state)
{
    struct terminal t;
    char path[128], history[512] = "";
    start(&t, "\nI am well.");
    expect(&t, "> ");
    type(&t, "how are yuo\b\bou?\r");
    expect(&t, "I am well.");
    expect(&t, "> ");
    type(&t, "\033[A\r"); /* the line before, once more */
    expect(&t, "I am well.");
    expect(&t, "> ");
    type(&t, "first\\\r");
    expect(&t, ". ");
    type(&t, "second\r");
    expect(&t, "I am well.");
    expect(&t, "> ");
    type(&t, "/stats\r");
    expect(&t, "tokens/s");
    type(&t, "\004"); /* at once, whether the prompt is there yet or not */
    assert_int_equal(finish(&t), 0);
    snprintf(path, sizeof path, "%s/sluice/history", t.folder);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 077, 0); /* what one says to a model is private */
    FILE *f = fopen(path, "r");
    assert_true(fread(history, 1, sizeof history - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(history, "how\\040are\\040you?"));
    clean(&t);
}

static void interrupt_stops_the_answer_only(void **state)
{
    struct terminal t;
    start(&t, "slow forever\nla ");
    expect(&t, "> ");
    type(&t, "half a line\003"); /* at the prompt: the line is dropped */
    expect(&t, "> ");
    type(&t, "sing\r");
    expect(&t, "la la la");
    type(&t, "\003");
    expect(&t, "stopped");
    expect(&t, "> ");
    type(&t, "again\r");
    expect(&t, "la la la");
    type(&t, "\003");
    expect(&t, "stopped");
    expect(&t, "> ");
    type(&t, "\004");
    assert_int_equal(finish(&t), 0);
    clean(&t);
}

/* Tab goes on as far as there is one way; what is no order it leaves alone. */
static void tab_completes_orders(void **state)
{
    struct terminal t;
    start(&t, "\nI am well.");
    expect(&t, "> ");
    type(&t, "/s\tt\t\r"); /* /stats or /save: nothing; then /stats */
    expect(&t, "ats");
    expect(&t, "context  0 of");
    expect(&t, "> ");
    type(&t, "he\tllo\r");
    expect(&t, "llo");
    expect(&t, "I am well.");
    expect(&t, "> ");
    type(&t, "/q\t\r");
    assert_int_equal(finish(&t), 0);
    assert_null(strstr(t.seen, "unknown command"));
    clean(&t);
}

/* While nothing is typed other things are done; they may say a line, after which the prompt stands there again. */
static void idle_work_leaves_the_line_alone(void **state)
{
    struct terminal t;
    start(&t, "idle=1000000\nI am well.");
    expect(&t, "> ");
    expect(&t, "a line while idle\r\n");
    expect(&t, "> ");
    type(&t, "how are yuo\b\bou?\r");
    expect(&t, "I am well.");
    expect(&t, "> ");
    type(&t, "half a line\003");
    expect(&t, "> ");
    type(&t, "\004");
    assert_int_equal(finish(&t), 0);
    clean(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(talks_edits_and_remembers),
        cmocka_unit_test(interrupt_stops_the_answer_only),
        cmocka_unit_test(tab_completes_orders),
        cmocka_unit_test(idle_work_leaves_the_line_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
