#include "data.h"

#include "memory.h"

#include <dirent.h>
#include <string.h>

static int *read_ids(const char *folder, const char *name, const char *ending, int n_vocab, long *n)
{
    char path[1024];
    int *ids = NULL;
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) goto fail;
    *n = ftell(f) / (long)sizeof(int);
    rewind(f);
    ids = memory_ints(*n);
    if (fread(ids, sizeof(int), *n, f) != (size_t)*n) goto fail;
    for (long i = 0; i < *n; i++)
        if (ids[i] < 0 || ids[i] >= n_vocab) {
            fprintf(stderr, "train: %s: id %d at %ld is not in a vocabulary of %d\n", path, ids[i], i, n_vocab);
            goto fail;
        }
    fclose(f);
    return ids;
fail:
    fprintf(stderr, "train: cannot use %s\n", path);
    free(ids);
    if (f) fclose(f);
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct text *)a)->name, ((const struct text *)b)->name);
}

static bool load_text(struct text *t, const char *folder, int n_window, int n_vocab)
{
    t->train = read_ids(folder, t->name, "tr", n_vocab, &t->n_train);
    t->held_out = read_ids(folder, t->name, "va", n_vocab, &t->n_held_out);
    if (!t->train || !t->held_out) return false;
    if (t->n_train <= n_window + 1) {
        fprintf(stderr, "train: %s/%s.tr has %ld ids, a window needs %d\n", folder, t->name, t->n_train, n_window + 2);
        return false;
    }
    t->weight = pow((double)t->n_train, 0.7);
    return true;
}

bool data_load(struct data *d, const char *folder, int n_window, int n_vocab)
{
    *d = (struct data){.n_texts = 0};
    DIR *directory = opendir(folder);
    if (!directory) {
        fprintf(stderr, "train: cannot open the folder %s\n", folder);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(directory)) && d->n_texts < DATA_TEXTS_MAX;) {
        size_t length = strlen(entry->d_name);
        struct text *t = &d->text[d->n_texts];
        if (length < 4 || length - 3 >= sizeof t->name || strcmp(entry->d_name + length - 3, ".tr")) continue;
        memcpy(t->name, entry->d_name, length - 3);
        d->n_texts++;
    }
    closedir(directory);
    if (!d->n_texts) fprintf(stderr, "train: no .tr files in %s\n", folder);
    /* A folder lists its files in any order; a run must not depend on it. */
    qsort(d->text, d->n_texts, sizeof *d->text, by_name);
    for (int i = 0; i < d->n_texts; i++) {
        if (!load_text(&d->text[i], folder, n_window, n_vocab)) return false;
        d->weights_sum += d->text[i].weight;
    }
    return d->n_texts > 0;
}

void data_free(struct data *d)
{
    for (int i = 0; i < d->n_texts; i++) {
        free(d->text[i].train);
        free(d->text[i].held_out);
    }
}

void data_draw(const struct data *d, const struct shape *s, struct random *random, int *tokens, int *next)
{
    size_t t = s->n_window;
    for (int b = 0; b < s->n_batch; b++) {
        double u = random_uniform(random) * d->weights_sum;
        int i = 0;
        while (i < d->n_texts - 1 && u > d->text[i].weight) u -= d->text[i++].weight;
        const struct text *text = &d->text[i];
        const int *at = text->train + random_next(random) % (uint64_t)(text->n_train - (long)t - 1);
        memcpy(tokens + b * t, at, t * sizeof(int));
        memcpy(next + b * t, at + 1, t * sizeof(int));
    }
}
