/* Runs a fuzz target over every file of the folders and files named on the command line: yesterday's findings stay
 * fixed. Exit: 0, 1 if there was nothing to run, or by abort() in the target. */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES_MAX 4096
#define INPUT_BYTES_MAX ((size_t)1 << 24)

static unsigned n_run;

static void run_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_BYTES_MAX);
    if (!in || !data) {
        fprintf(stderr, "%s: cannot read\n", path);
        exit(1);
    }
    size_t bytes = fread(data, 1, INPUT_BYTES_MAX, in);
    fclose(in);
    /* exact length, so that a sanitizer sees any byte read past the end */
    uint8_t *exact = malloc(bytes ? bytes : 1);
    if (!exact) exit(1);
    memcpy(exact, data, bytes);
    free(data);
    printf("%s (%zu bytes)\n", path, bytes);
    fflush(stdout);
    LLVMFuzzerTestOneInput(exact, bytes);
    free(exact);
    n_run++;
}

static void run(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        run_file(path);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        char below[PATH_BYTES_MAX];
        if (e->d_name[0] == '.') continue;
        if ((size_t)snprintf(below, sizeof below, "%s/%s", path, e->d_name) >= sizeof below) exit(1);
        run_file(below);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) run(argv[i]);
    printf("%u inputs\n", n_run);
    return n_run == 0;
}
