/* Where this process stands in the control groups.
 *
 * /proc/self/cgroup names the group of each hierarchy ("4:memory:/a/b", and "0::/a/b" for the unified one), and
 * /proc/self/mountinfo tells where that hierarchy is mounted and which part of it (its root: in a container the mount
 * often shows a subtree only). The folder of the group is mount point + (group - root). Where the two do not fit, the
 * mount point is the best that can be seen. Format: cgroups(7), proc(5). */
#include "os/linux/linux.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls one(line, user) for each line of a file until it returns false. False: the file cannot be read. */
static bool each_line(const char *path, bool (*one)(char *line, void *user), void *user)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, f)) >= 0;) {
        if (n > 0 && line[n - 1] == '\n') line[n - 1] = 0;
        if (!one(line, user)) break;
    }
    free(line);
    fclose(f);
    return true;
}

/* Is `word` one of a comma-separated list? */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == 0 || at[n] == ',')) return true;
    return false;
}

/* mountinfo writes blanks and backslashes of a path as \ooo. In place. */
static void unescape(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' && in[3] >= '0' &&
            in[3] <= '7') {
            *out++ = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
            in += 3;
        } else {
            *out++ = *in;
        }
    }
    *out = 0;
}

struct search {
    const char *root, *controller;
    bool v2;
    bool have_group, have_mount;
    char group[LINUX_PATH_BYTES]; /* as /proc/self/cgroup names it */
    char mount[LINUX_PATH_BYTES], mount_root[LINUX_PATH_BYTES];
};

static bool group_line(char *line, void *user)
{
    struct search *s = user;
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return true;
    *controllers++ = 0;
    *path++ = 0;
    bool match = s->v2 ? strcmp(line, "0") == 0 && *controllers == 0 : has_word(controllers, s->controller);
    if (!match || strlen(path) >= sizeof s->group) return true;
    snprintf(s->group, sizeof s->group, "%s", path);
    s->have_group = true;
    return false;
}

/* id parent major:minor root mount-point options [optional...] - type source super-options */
static bool mount_line(char *line, void *user)
{
    struct search *s = user;
    char *separator = strstr(line, " - ");
    if (!separator) return true;
    *separator = 0;
    char *save = NULL;
    char *type = strtok_r(separator + 3, " ", &save);
    char *source = strtok_r(NULL, " ", &save);
    char *super = strtok_r(NULL, " ", &save);
    if (!type || !source || strcmp(type, s->v2 ? "cgroup2" : "cgroup") != 0) return true;
    if (!s->v2 && (!super || !has_word(super, s->controller))) return true;
    char *field[5] = {NULL};
    save = NULL;
    for (unsigned i = 0; i < 5; i++) {
        field[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
        if (!field[i]) return true;
    }
    unescape(field[3]);
    unescape(field[4]);
    if (strlen(field[3]) >= sizeof s->mount_root || strlen(s->root) + strlen(field[4]) >= sizeof s->mount) return true;
    /* A hierarchy can be mounted more than once: the mount that shows the most is the one whose root is shortest. */
    if (s->have_mount && strlen(s->mount_root) <= strlen(field[3])) return true;
    snprintf(s->mount_root, sizeof s->mount_root, "%s", field[3]);
    snprintf(s->mount, sizeof s->mount, "%s%s", s->root, field[4]);
    s->have_mount = true;
    return true;
}

static void cut_slashes(char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/') path[--n] = 0;
}

/* The part of the group's path that lies below the mount: "" where the group lies outside of what is mounted. */
static const char *below_mount(const struct search *s)
{
    const char *group = s->group;
    if (strncmp(group, "/..", 3) == 0) return ""; /* outside of this cgroup namespace */
    size_t n = strlen(s->mount_root);
    if (n == 1) return group; /* root "/": all is shown */
    if (strncmp(group, s->mount_root, n) == 0 && (group[n] == '/' || group[n] == 0)) return group + n;
    return "";
}

static bool find_one(struct search *s, struct linux_cgroup *out)
{
    char path[LINUX_PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", s->root);
    if (!each_line(path, group_line, s) || !s->have_group) return false;
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", s->root);
    if (!each_line(path, mount_line, s) || !s->have_mount) return false;
    cut_slashes(s->mount);
    out->v2 = s->v2;
    snprintf(out->mount, sizeof out->mount, "%s", s->mount);
    const char *below = below_mount(s);
    if (strlen(out->mount) + strlen(below) >= sizeof out->group) below = "";
    snprintf(out->group, sizeof out->group, "%s%s", out->mount, below);
    cut_slashes(out->group);
    return true;
}

unsigned linux_cgroups(const char *root, const char *controller, struct linux_cgroup *out)
{
    unsigned n = 0;
    for (int v2 = 0; v2 <= 1; v2++) {
        struct search s = {.root = root, .controller = controller, .v2 = v2};
        if (find_one(&s, &out[n])) n++;
    }
    return n;
}

bool linux_cgroup_up(struct linux_cgroup *c)
{
    size_t least = strlen(c->mount);
    if (strlen(c->group) <= least) return false;
    char *slash = strrchr(c->group + least, '/');
    if (!slash) return false;
    *slash = 0;
    return true;
}

struct number {
    const char *key; /* NULL: the first number of the file */
    bool found;
    uint64_t value;
};

static bool number_line(char *line, void *user)
{
    struct number *n = user;
    const char *at = line;
    if (n->key) {
        size_t length = strlen(n->key);
        if (strncmp(line, n->key, length) != 0 || line[length] != ' ') return true;
        at = line + length + 1;
    }
    if (*at >= '0' && *at <= '9') n->found = sscanf(at, "%" SCNu64, &n->value) == 1;
    return false;
}

static bool read_number(const char *folder, const char *file, const char *key, uint64_t *out)
{
    char path[LINUX_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    struct number n = {.key = key};
    if (!each_line(path, number_line, &n) || !n.found) return false;
    *out = n.value;
    return true;
}

bool linux_cgroup_number(const char *folder, const char *file, uint64_t *out)
{
    return read_number(folder, file, NULL, out);
}

bool linux_cgroup_stat(const char *folder, const char *file, const char *key, uint64_t *out)
{
    return read_number(folder, file, key, out);
}
