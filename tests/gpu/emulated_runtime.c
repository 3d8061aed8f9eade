/*
 * emulated_runtime.c: the calls of the CUDA runtime that Sluice and its tests make, see emulated.h.
 * Device memory is the host's. One lock makes all of it safe for threads.
 */
#include "tests/gpu/emulated.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STREAMS 512u

struct CUgraphNode_st {
    void (*body)(void *args);
    void *args;
    size_t bytes;
};

struct kept {
    cudaUserObject_t object;
    struct kept *next;
};

struct CUuserObject_st {
    void *ptr;
    cudaHostFn_t destroy;
    unsigned owners;
};

struct CUgraph_st {
    struct CUgraphNode_st **nodes;
    size_t count, room;
    struct kept *kept;
};

struct CUgraphExec_st {
    struct CUgraph_st own;      /* nodes of its own */
    struct CUgraphNode_st **of; /* [count] the nodes they were made of */
};

/* How far each stream of a capture is sure to be. */
struct clock {
    uint32_t at[MOST_STREAMS];
};

struct access {
    const char *from, *to;
    enum touch_kind kind;
    uint32_t stream, at;
};

struct capture {
    uint64_t id; /* from 1 */
    struct CUgraph_st *graph;
    struct access *accesses;
    size_t count, room;
};

struct CUstream_st {
    uint32_t number;
    struct capture *capture;
    struct clock clock;
    cudaGraphNode_t last;
    struct CUstream_st *next; /* of all */
};

struct CUevent_st {
    struct capture *capture;
    uint64_t capture_id; /* 0: it was recorded outside of any */
    struct clock clock;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool number_used[MOST_STREAMS];
static struct CUstream_st default_stream, *all_streams;
static uint64_t captures;

static struct CUstream_st *stream_of(cudaStream_t s) {
    return s ? s : &default_stream;
}

static void *must_alloc(size_t bytes) {
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        abort();
    return p;
}

/* ---- launches ---- */

static void complain(const struct access *a, const struct access *b) {
    fprintf(stderr,
            "race: %s of %p .. %p on stream %u is not ordered behind %s of %p .. %p on stream %u\n",
            b->kind == TOUCH_READ ? "a read" : "a write", (const void *)b->from,
            (const void *)b->to, b->stream, a->kind == TOUCH_READ ? "a read" : "a write",
            (const void *)a->from, (const void *)a->to, a->stream);
    abort();
}

static void note_access(struct capture *c, const struct CUstream_st *s, struct access a) {
    for (size_t i = 0; i < c->count; i++) {
        const struct access *b = &c->accesses[i];
        bool both_mild = a.kind != TOUCH_WRITE && b->kind != TOUCH_WRITE &&
                         (a.kind == b->kind || a.kind == TOUCH_READ || b->kind == TOUCH_READ);
        if (a.from < b->to && b->from < a.to && !both_mild && s->clock.at[b->stream] < b->at)
            complain(b, &a);
    }
}

static void keep_access(struct capture *c, struct access a) {
    if (c->count == c->room) {
        c->room = c->room * 2 + 256;
        c->accesses = realloc(c->accesses, c->room * sizeof *c->accesses);
        if (!c->accesses)
            abort();
    }
    c->accesses[c->count++] = a;
}

static void add_node(struct CUgraph_st *g, struct CUgraphNode_st *n) {
    if (g->count == g->room) {
        g->room = g->room * 2 + 64;
        g->nodes = realloc(g->nodes, g->room * sizeof *g->nodes);
        if (!g->nodes)
            abort();
    }
    g->nodes[g->count++] = n;
}

static struct CUgraphNode_st *new_node(void (*body)(void *), const void *args, size_t bytes) {
    struct CUgraphNode_st *n = must_alloc(sizeof *n);
    *n = (struct CUgraphNode_st){body, must_alloc(bytes), bytes};
    memcpy(n->args, args, bytes);
    return n;
}

cudaError_t emulated_launch(cudaStream_t stream, void (*body)(void *args), const void *args,
                            size_t bytes, const struct touch *touches, size_t count) {
    struct CUstream_st *s = stream_of(stream);
    struct CUgraphNode_st *n = new_node(body, args, bytes);
    if (!s->capture) {
        body(n->args);
        free(n->args);
        free(n);
        return cudaSuccess;
    }
    pthread_mutex_lock(&lock);
    uint32_t at = s->clock.at[s->number] + 1;
    for (int keep = 0; keep < 2; keep++)
        for (size_t i = 0; i < count; i++) {
            const char *from = touches[i].at;
            struct access a = {from, from + touches[i].bytes, touches[i].kind, s->number, at};
            if (!from || touches[i].bytes == 0)
                continue;
            if (keep)
                keep_access(s->capture, a);
            else
                note_access(s->capture, s, a);
        }
    s->clock.at[s->number] = at;
    s->last = n;
    add_node(s->capture->graph, n);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    (void)flags;
    struct CUstream_st *s = *out = must_alloc(sizeof *s);
    pthread_mutex_lock(&lock);
    s->number = 1;
    while (number_used[s->number])
        s->number++; /* past the end: the sanitizer's */
    number_used[s->number] = true;
    s->next = all_streams;
    all_streams = s;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    pthread_mutex_lock(&lock);
    number_used[s->number] = false;
    struct CUstream_st **at = &all_streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    pthread_mutex_unlock(&lock);
    free(s);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    return stream_of(s)->capture ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
    return cudaStreamSynchronize(s);
}
cudaError_t cudaDeviceSynchronize(void) {
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status) {
    *status = stream_of(s)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    (void)flags;
    *out = must_alloc(sizeof(struct CUevent_st));
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    free(e);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream) {
    struct CUstream_st *s = stream_of(stream);
    e->capture = s->capture;
    e->capture_id = s->capture ? s->capture->id : 0;
    e->clock = s->clock;
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned flags) {
    struct CUstream_st *s = stream_of(stream);
    (void)flags;
    if (e->capture_id && !s->capture) { /* joins the capture, which must be going on */
        s->capture = e->capture;
        memset(&s->clock, 0, sizeof s->clock);
        s->last = NULL;
    }
    if (s->capture && s->capture->id != e->capture_id)
        return cudaErrorStreamCaptureIsolation;
    for (uint32_t i = 0; i < MOST_STREAMS && s->capture; i++)
        s->clock.at[i] = e->clock.at[i] > s->clock.at[i] ? e->clock.at[i] : s->clock.at[i];
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
    (void)e;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    (void)e;
    return cudaSuccess;
}

/* ---- captures and graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode) {
    (void)mode;
    s->capture = must_alloc(sizeof *s->capture);
    s->capture->graph = must_alloc(sizeof *s->capture->graph);
    pthread_mutex_lock(&lock);
    s->capture->id = ++captures;
    pthread_mutex_unlock(&lock);
    memset(&s->clock, 0, sizeof s->clock);
    s->last = NULL;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t origin, cudaGraph_t *graph) {
    struct capture *c = origin->capture;
    cudaError_t e = cudaSuccess;
    *graph = c->graph;
    pthread_mutex_lock(&lock);
    for (struct CUstream_st *s = all_streams; s; s = s->next) {
        if (s->capture != c)
            continue;
        if (origin->clock.at[s->number] < s->clock.at[s->number])
            e = cudaErrorStreamCaptureUnjoined;
        s->capture = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(c->accesses);
    free(c);
    return e;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **deps, const cudaGraphEdgeData **edges,
                                     size_t *n) {
    (void)id;
    (void)edges;
    cudaStreamIsCapturing(s, status);
    if (graph)
        *graph = s->capture ? s->capture->graph : NULL;
    if (deps)
        *deps = &s->last; /* a launch is one node */
    if (n)
        *n = s->last != NULL;
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *deps,
                                         cudaGraphEdgeData *edges, size_t *n) {
    (void)node;
    (void)deps;
    (void)edges;
    (void)n;
    return cudaErrorNotSupported;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n) {
    if (nodes)
        return cudaErrorNotSupported;
    *n = g->count;
    return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
    (void)node;
    *type = cudaGraphNodeTypeKernel;
    return cudaSuccess;
}

/* ---- user objects ---- */

cudaError_t cudaUserObjectCreate(cudaUserObject_t *out, void *ptr, cudaHostFn_t destroy,
                                 unsigned owners, unsigned flags) {
    (void)flags;
    *out = must_alloc(sizeof **out);
    **out = (struct CUuserObject_st){ptr, destroy, owners};
    return cudaSuccess;
}

static void keep_object(struct CUgraph_st *g, cudaUserObject_t object) {
    struct kept *k = must_alloc(sizeof *k);
    *k = (struct kept){object, g->kept};
    g->kept = k;
}

static void drop_objects(struct CUgraph_st *g) {
    while (g->kept) {
        struct kept *k = g->kept;
        g->kept = k->next;
        if (--k->object->owners == 0) {
            k->object->destroy(k->object->ptr);
            free(k->object);
        }
        free(k);
    }
}

/* Moved: the caller's reference becomes the graph's. */
cudaError_t cudaGraphRetainUserObject(cudaGraph_t g, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
    (void)count;
    (void)flags;
    keep_object(g, object);
    return cudaSuccess;
}

/* ---- executable graphs ---- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long flags) {
    (void)flags;
    struct CUgraphExec_st *e = *out = must_alloc(sizeof *e);
    e->of = must_alloc(g->count * sizeof *e->of);
    for (size_t i = 0; i < g->count; i++) {
        e->of[i] = g->nodes[i];
        add_node(&e->own, new_node(g->nodes[i]->body, g->nodes[i]->args, g->nodes[i]->bytes));
    }
    for (struct kept *k = g->kept; k; k = k->next) {
        k->object->owners++;
        keep_object(&e->own, k->object);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t stream) {
    if (stream_of(stream)->capture)
        return cudaErrorStreamCaptureUnsupported;
    for (size_t i = 0; i < e->own.count; i++)
        e->own.nodes[i]->body(e->own.nodes[i]->args);
    return cudaSuccess;
}

static void free_nodes(struct CUgraph_st *g) {
    for (size_t i = 0; i < g->count; i++) {
        free(g->nodes[i]->args);
        free(g->nodes[i]);
    }
    free(g->nodes);
    drop_objects(g);
}

cudaError_t cudaGraphDestroy(cudaGraph_t g) {
    free_nodes(g);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) {
    free_nodes(&e->own);
    free(e->of);
    free(e);
    return cudaSuccess;
}

/* What a launch is called with travels in kernelParams. */
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *p) {
    memset(p, 0, sizeof *p);
    p->kernelParams = (void **)(void *)node;
    return cudaSuccess;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *p) {
    const struct CUgraphNode_st *from = (const void *)p->kernelParams;
    for (size_t i = 0; i < e->own.count; i++) {
        struct CUgraphNode_st *to = e->own.nodes[i];
        if (e->of[i] != node)
            continue;
        if (to->body != from->body || to->bytes != from->bytes)
            return cudaErrorInvalidValue;
        memcpy(to->args, from->args, to->bytes);
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *p) {
    (void)node;
    (void)p;
    return cudaErrorNotSupported;
}
cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *p) {
    (void)e;
    (void)node;
    (void)p;
    return cudaErrorNotSupported;
}

/* ---- memory ---- */

#define DEVICE_BYTES ((size_t)1 << 33)

cudaError_t cudaMalloc(void **out, size_t bytes) {
    *out = bytes < DEVICE_BYTES ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
    if (*out)
        memset(*out, 0xc3, bytes); /* nobody cleared it */
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *p) {
    free(p);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void)flags;
    return cudaMalloc(out, bytes);
}
cudaError_t cudaFreeHost(void *p) {
    return cudaFree(p);
}
cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned flags) {
    (void)flags;
    *out = host;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
    *left = *total = DEVICE_BYTES;
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    if (bytes)
        memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return stream_of(stream)->capture ? cudaErrorNotSupported : cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    memset(to, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    return stream_of(stream)->capture ? cudaErrorNotSupported : cudaMemset(to, value, bytes);
}

/* ---- the device ---- */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t e) {
    return e == cudaErrorMemoryAllocation ? "out of memory"
           : e == cudaSuccess             ? "no error"
                                          : "an error of the emulation";
}
