/* The environment of ranks: what starters tell us, and what we tell NCCL. */
#define _GNU_SOURCE /* setenv */
#include "cli/launch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct starter {
    const char *rank, *world, *local, *local_world;
};
static const struct starter starters[] = {
#define STARTER(rank, world, local, local_world) {rank, world, local, local_world},
#include "cli/launch.def"
};

/* The number in a variable; -1: it is not set, or holds none. */
static int number_of(const char *variable) {
    const char *text = getenv(variable);
    char *end;
    errno = 0;
    long n = text ? strtol(text, &end, 10) : -1;
    return text && end != text && errno == 0 && n >= 0 && n <= INT_MAX ? (int)n : -1;
}

/* Where ranks of one machine meet when nobody says: a port that follows from what only they share.
 */
static unsigned port_of_job(void) {
    static const char *const names[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID",
                                        "PMI_JOBID"};
    unsigned hash = 5381;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (const char *c = getenv(names[i]); c && *c; c++) {
            hash = hash * 33 + (unsigned char)*c;
        }
    }
    return 20000 + hash % 10000;
}

/* NCCL_COMM_ID, from what else there is. */
static bool find_meeting_point(const struct launch *l, int local_world, char *err,
                               size_t err_bytes) {
    char where[256];
    const char *host = getenv("MASTER_ADDR");
    int port = number_of("MASTER_PORT");
    if (getenv("NCCL_COMM_ID")) {
        return true;
    }
    if (host && port > 0) {
        /* the port itself is torchrun's */
        snprintf(where, sizeof where, "%s:%d", host, port + 1);
    } else if (getenv("SLURM_LAUNCH_NODE_IPADDR")) {
        snprintf(where, sizeof where, "%s:%u", getenv("SLURM_LAUNCH_NODE_IPADDR"), port_of_job());
    } else if (local_world == l->ranks) {
        snprintf(where, sizeof where, "127.0.0.1:%u", port_of_job());
    } else {
        snprintf(err, err_bytes,
                 "%d ranks on several machines: set NCCL_COMM_ID=HOST:PORT to an address of the "
                 "machine of rank 0",
                 l->ranks);
        return false;
    }
    return setenv("NCCL_COMM_ID", where, 1) == 0;
}

bool launch_from_environment(struct launch *l, char *err, size_t err_bytes) {
    err[0] = 0;
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        const struct starter *s = &starters[i];
        int rank = number_of(s->rank), world = number_of(s->world), local = number_of(s->local);
        if (rank < 0 || world <= 1) {
            continue;
        }
        if (rank >= world) {
            snprintf(err, err_bytes, "%s is %d, but %s is %d", s->rank, rank, s->world, world);
            return false;
        }
        *l = (struct launch){.rank = rank, .ranks = world, .local_rank = local < 0 ? rank : local};
        return find_meeting_point(l, number_of(s->local_world), err, err_bytes);
    }
    return false;
}

static bool over_sockets(const struct launch *l) {
    const char *no_ib = getenv("NCCL_IB_DISABLE"), *net = getenv("NCCL_NET");
    return l->oversubscribe || (no_ib && strcmp(no_ib, "1") == 0) ||
           (net && strcmp(net, "Socket") == 0);
}

void launch_set_environment(const struct launch *l, const struct launch_options *o) {
    char text[64];
    if (l->oversubscribe) {
        snprintf(text, sizeof text, "sluice-%ld-%d", (long)getpid(), l->rank);
        setenv("NCCL_HOSTID", text, 1);
#define ALONE(name, value) setenv(#name, value, 0);
#include "cli/launch.def"
    }
    if (o->apart) {
        setenv("CUDA_MPS_PIPE_DIRECTORY", "/nowhere", 1);
    }
    if (o->ranks_per_node > 0) {
        snprintf(text, sizeof text, "node-%d", l->rank / o->ranks_per_node);
        setenv("SLUICE_HOSTID", text, 1);
    }
    if (over_sockets(l)) {
#define SETTING(name, value, why) setenv(#name, value, 0);
#include "cli/launch.def"
    }
}

bool launch_setting(size_t index, char *text, size_t text_bytes) {
    static const char *const names[] = {
#define ALONE(name, value) #name,
#include "cli/launch.def"
#define SETTING(name, value, why) #name,
#include "cli/launch.def"
        "NCCL_BUFFSIZE", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_ALGO", "NCCL_PROTO"};
    text[0] = 0;
    if (index >= sizeof names / sizeof *names) {
        return false;
    }
    const char *value = getenv(names[index]);
    if (value) {
        snprintf(text, text_bytes, "%s=%s", names[index], value);
    }
    return true;
}
