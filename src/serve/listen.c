/* Where the server listens, and who may ask. */
#include "serve/link.h"
#include "serve/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEND_BYTES (128 << 10)
#define DESCRIPTORS_BESIDES 128 /* of the engine: files, rings, epoll */

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

bool listen_is_loopback(const char *address)
{
    struct in_addr a;
    return inet_pton(AF_INET, address, &a) == 1 && ntohl(a.s_addr) >> 24 == 127;
}

static enum sluice_status bind_to(struct server *s, const struct addrinfo *a, int *out, struct sluice_error *err)
{
    const int one = 1, send_bytes = SEND_BYTES;
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    char address[INET6_ADDRSTRLEN + 8], port[16];
    if (fd < 0) return base_fail(err, SLUICE_ERR_IO, NULL, "cannot make a socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    /* Of the connections too: what a slow reader has not taken is ours to hold back, not the system's to store. */
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&bound, &bytes) ||
        getnameinfo((struct sockaddr *)&bound, bytes, address, sizeof address, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV)) {
        const int code = errno;
        close(fd);
        return base_fail(err, SLUICE_ERR_IO, "another port may be free: --port 0 takes any", "%s, port %u: %s",
                         s->options.host, s->options.port, strerror(code));
    }
    s->port = (uint16_t)atoi(port);
    snprintf(s->url, sizeof s->url, a->ai_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s", address, port);
    *out = fd;
    return SLUICE_OK;
}

enum sluice_status listen_open(struct server *s, int *fd, struct sluice_error *err)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[16];
    snprintf(port, sizeof port, "%u", s->options.port);
    const int code = getaddrinfo(s->options.host, port, &hints, &found);
    if (code)
        return base_fail(err, SLUICE_ERR_USAGE, "127.0.0.1 is this machine alone, 0.0.0.0 every address it has",
                         "--host %.200s: %s", s->options.host, gai_strerror(code));
    const struct addrinfo *a = found; /* IPv4 first: what clients try */
    for (const struct addrinfo *i = found; i; i = i->ai_next)
        if (i->ai_family == AF_INET) {
            a = i;
            break;
        }
    s->loopback = is_loopback(a->ai_addr);
    enum sluice_status st;
    if (!s->loopback && !s->n_keys && !s->options.insecure)
        st = base_fail(err, SLUICE_ERR_USAGE, "give --api-key-file FILE, or --insecure if that is meant",
                       "--host %.200s: others could reach this address, and no key is asked for", s->options.host);
    else
        st = bind_to(s, a, fd, err);
    freeaddrinfo(found);
    return st;
}

/* ---- keys ---- */

static bool add_key(struct server *s, const char *text, size_t bytes)
{
    char(*more)[SERVE_KEY_BYTES_MAX] = realloc(s->keys, (s->n_keys + 1) * sizeof *more);
    if (!more) return false;
    s->keys = more;
    memset(more[s->n_keys], 0, sizeof *more);
    memcpy(more[s->n_keys++], text, bytes);
    return true;
}

enum sluice_status listen_keys(struct server *s, struct sluice_error *err)
{
    const char *path = s->options.api_key_path;
    char line[SERVE_KEY_BYTES_MAX + 2];
    if (!path) return SLUICE_OK;
    FILE *file = fopen(path, "re");
    if (!file) return base_fail(err, SLUICE_ERR_IO, NULL, "--api-key-file %.300s: %s", path, strerror(errno));
    enum sluice_status st = SLUICE_OK;
    while (!st && fgets(line, sizeof line, file)) {
        size_t n = strcspn(line, "\r\n");
        if (n >= SERVE_KEY_BYTES_MAX || s->n_keys == SERVE_KEYS_MAX)
            st = base_fail(err, SLUICE_ERR_USAGE, NULL, "--api-key-file %.300s: at most %d keys of %d bytes", path,
                           SERVE_KEYS_MAX, SERVE_KEY_BYTES_MAX - 1);
        else if (n && line[0] != '#' && !add_key(s, line, n))
            st = base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for keys");
    }
    if (!st && ferror(file)) st = base_fail(err, SLUICE_ERR_IO, NULL, "--api-key-file %.300s: cannot be read", path);
    fclose(file);
    if (!st && !s->n_keys)
        st = base_fail(err, SLUICE_ERR_USAGE, "one key a line", "--api-key-file %.300s: no key is in it", path);
    return st;
}

bool listen_key_good(const struct server *s, const char *text)
{
    unsigned char given[SERVE_KEY_BYTES_MAX] = {0};
    const size_t n = strlen(text);
    unsigned good = 0;
    memcpy(given, text, n < sizeof given ? n : sizeof given);
    for (size_t k = 0; k < s->n_keys; k++) {
        unsigned different = 0;
        for (size_t i = 0; i < sizeof given; i++) different |= given[i] ^ (unsigned char)s->keys[k][i];
        good |= different == 0;
    }
    return good != 0 && n > 0 && n < sizeof given;
}

enum sluice_status listen_descriptors(struct server *s, struct sluice_error *err)
{
    struct rlimit limit;
    const rlim_t want = (rlim_t)s->options.connections_max + LINK_SPARE + DESCRIPTORS_BESIDES;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= want) return SLUICE_OK;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < want)
        return base_fail(err, SLUICE_ERR_USAGE, "raise the limit (ulimit -n), or give a smaller --max-connections",
                         "%u connections need %llu file descriptors; at most %llu are allowed",
                         s->options.connections_max, (unsigned long long)want, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = want;
    setrlimit(RLIMIT_NOFILE, &limit);
    return SLUICE_OK;
}
