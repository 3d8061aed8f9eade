/*
 * pool.c: threads that wait between runs, so that a run starts none.
 *
 * A run is a generation: the caller raises the number, everyone whose own number is behind takes
 * part once, and the caller waits until all have left. A machine that gives fewer threads than
 * asked for, or none, makes a smaller pool; the caller's own thread is always in it. Signals of
 * the process are left to the caller's threads.
 */
#include "runtime/engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct pool_thread {
    struct pool *pool;
    int index;
    pthread_t thread;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t go, left;
    uint64_t generation;
    int busy; /* started threads that have not left this generation */
    bool ending;
    void (*body)(void *ctx, int worker);
    void *ctx;
    int started;
    struct pool_thread threads[]; /* without the caller's */
};

static void *pool_body(void *arg) {
    struct pool_thread *self = arg;
    struct pool *p = self->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->generation == seen && !p->ending)
            pthread_cond_wait(&p->go, &p->lock);
        if (p->ending)
            break;
        seen = p->generation;
        pthread_mutex_unlock(&p->lock);
        p->body(p->ctx, self->index);
        pthread_mutex_lock(&p->lock);
        if (--p->busy == 0)
            pthread_cond_signal(&p->left);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int start_posix(void *thread, void *(*body)(void *), void *arg) {
    return pthread_create(thread, NULL, body, arg);
}

struct pool *pool_new(int threads, int (*start)(void *thread, void *(*body)(void *), void *arg)) {
    size_t others = threads > 1 ? (size_t)threads - 1 : 0;
    struct pool *p = calloc(1, sizeof *p + others * sizeof p->threads[0]);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->go, NULL);
    pthread_cond_init(&p->left, NULL);
    if (!start)
        start = start_posix;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < others; i++) {
        struct pool_thread *t = &p->threads[p->started];
        *t = (struct pool_thread){.pool = p, .index = p->started + 1};
        if (start(&t->thread, pool_body, t) == 0)
            p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return p;
}

int pool_threads(const struct pool *p) {
    return p->started + 1;
}

void pool_run(struct pool *p, void (*body)(void *ctx, int worker), void *ctx) {
    pthread_mutex_lock(&p->lock);
    p->body = body;
    p->ctx = ctx;
    p->busy = p->started;
    p->generation++;
    pthread_cond_broadcast(&p->go);
    pthread_mutex_unlock(&p->lock);
    body(ctx, 0);
    pthread_mutex_lock(&p->lock);
    while (p->busy)
        pthread_cond_wait(&p->left, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void pool_free(struct pool *p) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->go);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->threads[i].thread, NULL);
    pthread_cond_destroy(&p->left);
    pthread_cond_destroy(&p->go);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
