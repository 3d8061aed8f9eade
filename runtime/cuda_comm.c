/*
 * cuda_comm.c: sluice_comm, the owner of a transport; what is said where SLUICE_LOG asks for it.
 */
#include "runtime/transport.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- the log ---- */

static enum log_level level_of(const char *word) {
    static const char *const names[] = {
        [LOG_NOTHING] = "none", [LOG_ERROR] = "error", [LOG_WARN] = "warn",
        [LOG_INFO] = "info",    [LOG_TRACE] = "trace",
    };
    for (size_t i = 0; word && i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(word, names[i]) || (word[0] == '0' + (char)i && !word[1]))
            return (enum log_level)i;
    return LOG_NOTHING;
}

void comm_log(const struct transport *x, enum log_level level, const char *format, ...) {
    static const char *const prefix[] = {"", "error: ", "warning: ", "", ""};
    char text[400];
    if ((int)level > x->log_level)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (x->ranks == x->local_ranks)
        fprintf(stderr, "sluice: %s%s\n", prefix[level], text);
    else
        fprintf(stderr, "sluice: rank %d: %s%s\n", x->first_rank, prefix[level], text);
}

/* ---- the communicator ---- */

struct sluice_comm *comm_new(struct transport *x) {
    struct sluice_comm *c = calloc(1, sizeof *c);
    if (!c) {
        x->ops->free(x);
        return NULL;
    }
    c->x = x;
    atomic_store(&c->owners, 1);
    pthread_mutex_init(&c->lock, NULL);
    x->log_level = (int)level_of(getenv("SLUICE_LOG"));
    comm_log(x, LOG_INFO, "%d ranks over %s, %d of them here, device %d", x->ranks, x->ops->name,
             x->local_ranks, x->device);
    return c;
}

void comm_keep(struct sluice_comm *c) {
    atomic_fetch_add(&c->owners, 1);
}

void comm_release(struct sluice_comm *c) {
    if (!c || atomic_fetch_sub(&c->owners, 1) != 1)
        return;
    c->x->ops->free(c->x);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

uint64_t comm_ticket(struct sluice_comm *c) {
    pthread_mutex_lock(&c->lock);
    uint64_t ticket = ++c->tickets;
    pthread_mutex_unlock(&c->lock);
    return ticket;
}

bool device_enter(const struct transport *x, struct device_guard *g, struct failure *f) {
    g->device = -1;
    int now;
    (void)
        cudaGetLastError(); /* what the caller left must not be taken for a failed launch of ours */
    if (!CUDA_OK(f, cudaGetDevice(&now)))
        return false;
    if (now == x->device)
        return true;
    g->device = now;
    return CUDA_OK(f, cudaSetDevice(x->device));
}

void device_leave(const struct device_guard *g) {
    if (g->device >= 0)
        cudaSetDevice(g->device);
}

/* ---- the public part ---- */

sluice_status sluice_comm_local(sluice_comm **comm, int ranks) {
    if (!comm)
        return SLUICE_INVALID_ARGUMENT;
    *comm = NULL;
    if (ranks < 1 || ranks > 65536)
        return SLUICE_INVALID_ARGUMENT;
    struct failure f = {0};
    struct transport *x = transport_local_new(ranks, &f);
    if (!x)
        return public_status(f.status);
    *comm = comm_new(x);
    return *comm ? SLUICE_OK : SLUICE_OUT_OF_MEMORY;
}

int sluice_comm_ranks(const sluice_comm *comm) {
    return comm ? comm->x->ranks : 0;
}
int sluice_comm_first_rank(const sluice_comm *comm) {
    return comm ? comm->x->first_rank : 0;
}
int sluice_comm_local_ranks(const sluice_comm *comm) {
    return comm ? comm->x->local_ranks : 0;
}
const char *sluice_comm_error(const sluice_comm *comm) {
    return comm ? comm->failure.words : "";
}
void sluice_comm_destroy(sluice_comm *comm) {
    comm_release(comm);
}
