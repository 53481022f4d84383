/* peak FILE PROGRAM ARGUMENT...: runs the program, and writes the most memory that it held, in bytes, to FILE.
 *
 * Whoever measures must be small: what a process held before it became another program counts as held by that. */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct rusage used;
    int status;
    if (argc < 3) return 125;
    const pid_t pid = fork();
    if (pid == 0) {
        execv(argv[2], argv + 2);
        _exit(127);
    }
    while (pid < 0 || wait4(pid, &status, 0, &used) < 0)
        if (pid < 0 || errno != EINTR) return 125;
    FILE *f = fopen(argv[1], "w");
    if (!f || fprintf(f, "%llu\n", (unsigned long long)used.ru_maxrss * 1024) < 0 || fclose(f)) return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
