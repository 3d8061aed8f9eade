/*
 * A process a rank. They share one page: the id by which NCCL finds its ranks, and a word that says
 * to stop.
 *
 * When a rank dies, the others find out by themselves (NCCL tells them) and have a while to do so;
 * who is still there after that is ended. Nobody outlives this process: the kernel ends the ranks
 * of a parent that is killed.
 */
#define _GNU_SOURCE /* strsignal */
#include "cli/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ID_BYTES = 128, NOT_YET = 0, READY = 1, FAILED = 2 };
#define DEFAULT_GRACE_S 90.0 /* longer than a rank waits for one that is gone */
#define KILL_AFTER_S    5.0

struct launch_shared {
    _Atomic int id_state;
    _Atomic int stop;
    char id[ID_BYTES];
};

struct child {
    pid_t pid;
    bool running;
};

struct family {
    const char *program;
    struct child *children;
    int ranks, running;
    struct launch_shared *shared;
    int result; /* of the first that failed */
    double failed_at;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    interrupted = number;
}

static double clock_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_ms(long ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

bool launch_share_id(const struct launch *l, bool (*make)(void *ctx, void *id), void *ctx,
                     void *id) {
    struct launch_shared *s = l->shared;
    if (!s) {
        return make(ctx, id);
    }
    if (l->rank == 0) {
        bool ok = make(ctx, s->id);
        atomic_store(&s->id_state, ok ? READY : FAILED);
    }
    while (atomic_load(&s->id_state) == NOT_YET && !atomic_load(&s->stop)) {
        pause_ms(1);
    }
    memcpy(id, s->id, ID_BYTES);
    return atomic_load(&s->id_state) == READY;
}

/* ---- the parent ---- */

static void signal_all(const struct family *f, int number) {
    for (int r = 0; r < f->ranks; r++) {
        if (f->children[r].running) {
            kill(f->children[r].pid, number);
        }
    }
}

/* One rank has ended. The first failure counts; all are told, but for those that we ended. */
static void rank_ended(struct family *f, int rank, int status, bool by_us) {
    f->children[rank].running = false;
    f->running--;
    int code = WIFSIGNALED(status) ? LAUNCH_DIED : WEXITSTATUS(status);
    if (code == 0 || by_us) {
        return;
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "%s: error: rank %d (process %ld) was ended by signal %d (%s)\n",
                f->program, rank, (long)f->children[rank].pid, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    } else {
        fprintf(stderr, "%s: error: rank %d (process %ld) left with exit status %d\n", f->program,
                rank, (long)f->children[rank].pid, code);
    }
    if (f->result == 0) {
        f->result = code;
        f->failed_at = clock_s();
        atomic_store(&f->shared->stop, 1);
    }
}

static void wait_for_all(struct family *f, double grace_s) {
    int sent = 0;
    double sent_at = 0;
    while (f->running > 0) {
        for (int r = 0; r < f->ranks; r++) {
            int status;
            if (f->children[r].running &&
                waitpid(f->children[r].pid, &status, WNOHANG) == f->children[r].pid) {
                rank_ended(f, r, status, sent != 0);
            }
        }
        double now = clock_s();
        if (interrupted && f->result == 0) {
            f->result = 128 + interrupted;
            f->failed_at = now - grace_s;
        }
        if (f->result != 0 && !sent && f->running > 0 && now - f->failed_at >= grace_s) {
            signal_all(f, sent = SIGTERM);
            sent_at = now;
        } else if (sent == SIGTERM && now - sent_at >= KILL_AFTER_S) {
            signal_all(f, sent = SIGKILL);
        }
        pause_ms(5);
    }
}

/* ---- the children ---- */

static void be_rank(const struct launch_options *o, const struct launch *l, pid_t parent,
                    int (*body)(const struct launch *l, void *ctx), void *ctx) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(LAUNCH_FAILED); /* it died before the line above */
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    launch_set_environment(l, o);
    int code = body(l, ctx);
    fflush(NULL);
    /* No destructors: the CUDA library's own threads may still be at work after an abort. */
    _exit(code);
}

static bool start_all(struct family *f, const struct launch_options *o,
                      int (*body)(const struct launch *l, void *ctx), void *ctx) {
    pid_t parent = getpid();
    fflush(NULL);
    for (int r = 0; r < f->ranks; r++) {
        struct launch l = {.rank = r,
                           .ranks = f->ranks,
                           .local_rank = r,
                           .oversubscribe = o->oversubscribe,
                           .shared = f->shared};
        pid_t pid = fork();
        if (pid == 0) {
            be_rank(o, &l, parent, body, ctx);
        }
        if (pid < 0) {
            fprintf(stderr, "%s: error: cannot start rank %d: %s\n", f->program, r,
                    strerror(errno));
            f->result = LAUNCH_FAILED;
            f->failed_at = clock_s();
            atomic_store(&f->shared->stop, 1);
            return false;
        }
        f->children[r] = (struct child){.pid = pid, .running = true};
        f->running++;
    }
    return true;
}

static int run_family(struct family *f, const struct launch_options *o,
                      int (*body)(const struct launch *l, void *ctx), void *ctx) {
    struct sigaction action = {.sa_handler = on_interrupt}, was_int, was_term;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &was_int);
    sigaction(SIGTERM, &action, &was_term);
    bool all = start_all(f, o, body, ctx);
    wait_for_all(f, all ? (o->grace_s > 0 ? o->grace_s : DEFAULT_GRACE_S) : 0);
    sigaction(SIGINT, &was_int, NULL);
    sigaction(SIGTERM, &was_term, NULL);
    return f->result;
}

static int launch_here(const char *program, const struct launch_options *o,
                       int (*body)(const struct launch *l, void *ctx), void *ctx) {
    struct launch_mps mps = {0};
    struct family f = {.program = program, .ranks = o->ranks};
    f.children = calloc((size_t)o->ranks, sizeof *f.children);
    f.shared =
        mmap(NULL, sizeof *f.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!f.children || f.shared == MAP_FAILED) {
        fprintf(stderr, "%s: error: no memory\n", program);
        free(f.children);
        return LAUNCH_FAILED;
    }
    if (o->oversubscribe && !o->apart && !launch_mps_start(&mps)) {
        fprintf(stderr, "%s: note: MPS is not to be had; the ranks take turns on the GPU\n",
                program);
    }
    int result = run_family(&f, o, body, ctx);
    launch_mps_stop(&mps);
    munmap(f.shared, sizeof *f.shared);
    free(f.children);
    return result;
}

int launch_ranks(const char *program, const struct launch_options *o,
                 int (*body)(const struct launch *l, void *ctx), void *ctx) {
    struct launch l;
    char err[256];
    if (launch_from_environment(&l, err, sizeof err)) {
        if (o->ranks > 0 && o->ranks != l.ranks) {
            fprintf(stderr, "%s: error: %d ranks were asked for, but %d were started\n", program,
                    o->ranks, l.ranks);
            return LAUNCH_FAILED;
        }
        l.oversubscribe = o->oversubscribe;
        launch_set_environment(&l, o);
        return body(&l, ctx);
    }
    if (err[0]) {
        fprintf(stderr, "%s: error: %s\n", program, err);
        return LAUNCH_FAILED;
    }
    return launch_here(program, o, body, ctx);
}
