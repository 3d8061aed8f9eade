/*
 * cuda_state.c: what codecs remember from run to run, on the device.
 *
 * The parts are those of state.c; this process keeps the ones of its ranks. They stand twice: a run
 * reads `now` and writes `next`. Kernels of a graph cannot be pointed elsewhere, so the two do not
 * change places: a run that counts ends with a copy of `next` to `now`. One that overflowed does
 * not, and leaves no trace; its repair reads the same `now`.
 */
#include "runtime/transport.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool cuda_states_find(struct cuda_run *r, struct failure *f) {
    struct states *s = &r->states;
    if (!states_find(s, r->plan.t))
        return failure_set(f, RUN_NO_MEMORY, "no memory for the state of codecs");
    enum run_status status = states_map(s, r->plan.t, &r->state_map);
    if (status == RUN_OK && r->has_repair)
        status = states_map(s, r->repair.t, &r->repair_state_map);
    if (status != RUN_OK)
        return failure_set(f, status,
                           status == RUN_NO_MEMORY
                               ? "no memory for the state of codecs"
                               : "the repair plan does not keep the state of the plan");
    r->state_at = malloc((s->count + 1) * sizeof *r->state_at);
    if (!r->state_at)
        return failure_set(f, RUN_NO_MEMORY, "no memory for the state of codecs");
    for (size_t i = 0; i < s->count; i++) {
        const struct state_part *p = &s->parts[i];
        bool here = p->rank >= r->plan.first_rank && p->rank < r->plan.first_rank + r->plan.ranks;
        r->state_at[i] = here ? r->state_bytes : NOT_HERE;
        r->state_bytes += here ? (p->bytes + 255) / 256 * 256 : 0;
    }
    return true;
}

bool cuda_states_reset(struct cuda_run *r, uint64_t seed, struct failure *f) {
    struct states *s = &r->states;
    if (r->state_bytes == 0)
        return true;
    char *image = calloc(1, r->state_bytes);
    s->now = calloc(1, s->bytes);
    s->next = calloc(1, s->bytes);
    bool ok = image && s->now && s->next;
    if (ok) {
        states_reset(s, r->plan.t, seed);
        for (size_t i = 0; i < s->count; i++)
            if (r->state_at[i] != NOT_HERE)
                memcpy(image + r->state_at[i], s->now + s->parts[i].at, s->parts[i].bytes);
        for (int half = 0; half < 2 && ok; half++)
            ok = CUDA_OK(f, cudaMemcpy(r->states_dev + (uint64_t)half * r->state_bytes, image,
                                       r->state_bytes, cudaMemcpyHostToDevice));
        ok = ok && CUDA_OK(f, cudaDeviceSynchronize());
    } else {
        failure_set(f, RUN_NO_MEMORY, "no memory for the state of codecs");
    }
    free(image);
    free(s->now);
    free(s->next);
    s->now = s->next = NULL;
    return ok;
}

struct gpu_state cuda_state_of(const struct cuda_run *r, const struct state_map *map,
                               uint32_t piece, enum codec_side side) {
    uint32_t part = map->part[side] ? map->part[side][piece] : NONE;
    if (part == NONE || r->state_at[part] == NOT_HERE)
        return (struct gpu_state){0};
    char *now = r->states_dev + r->state_at[part];
    return (struct gpu_state){now, now + r->state_bytes, r->states.parts[part].first_elem};
}

void cuda_states_free(struct cuda_run *r) {
    states_free(&r->states);
    state_map_free(&r->state_map);
    state_map_free(&r->repair_state_map);
    free(r->state_at);
}

/* ---- the public part ---- */

sluice_status sluice_graph_reset_state(sluice_graph *graph, uint64_t seed) {
    if (!graph)
        return SLUICE_INVALID_ARGUMENT;
    struct device_guard d;
    if (graph_enter(graph, &d)) {
        struct failure *f = &graph->failure;
        if (graph_is_free(graph) &&
            (graph->issued == 0 || transport_wait_event(graph->run->x, graph->done, f)))
            cuda_states_reset(graph->run, seed, f);
    }
    return graph_leave(graph, &d);
}

/* Whole states of this process, behind a header. */
static bool copy_state(struct sluice_graph *g, void *host, size_t bytes, bool save) {
    struct cuda_run *r = g->run;
    struct failure *f = &g->failure;
    uint64_t header[4] = {UINT64_C(0x0131475354534c53), states_hash(&r->states, r->plan.t),
                          r->state_bytes, (uint64_t)r->plan.first_rank};
    char *body = (char *)host + sizeof header;
    if (bytes != (r->state_bytes ? sizeof header + r->state_bytes : 0))
        return failure_set(f, RUN_BAD_ARGUMENT, "the state is not of that size");
    if (!graph_is_free(g))
        return false;
    if (bytes == 0)
        return true;
    if (!save && memcmp(host, header, sizeof header) != 0)
        return failure_set(f, RUN_BAD_ARGUMENT, "not the state of such a graph");
    if (g->issued > 0 && !transport_wait_event(r->x, g->done, f))
        return false;
    if (save)
        memcpy(host, header, sizeof header);
    return CUDA_OK(
               f, save ? cudaMemcpy(body, r->states_dev, r->state_bytes, cudaMemcpyDeviceToHost)
                       : cudaMemcpy(r->states_dev, body, r->state_bytes, cudaMemcpyHostToDevice)) &&
           CUDA_OK(f, cudaDeviceSynchronize());
}

static sluice_status enter_and_copy(sluice_graph *graph, void *host, size_t bytes, bool save) {
    struct device_guard d;
    if (!graph || (!host && bytes > 0))
        return SLUICE_INVALID_ARGUMENT;
    if (graph_enter(graph, &d))
        copy_state(graph, host, bytes, save);
    return graph_leave(graph, &d);
}

size_t sluice_graph_state_bytes(const sluice_graph *graph) {
    bool any = graph && graph->run && graph->run->state_bytes > 0;
    return any ? 4 * sizeof(uint64_t) + graph->run->state_bytes : 0;
}
sluice_status sluice_graph_save_state(sluice_graph *graph, void *to, size_t bytes) {
    return enter_and_copy(graph, to, bytes, true);
}
sluice_status sluice_graph_restore_state(sluice_graph *graph, const void *from, size_t bytes) {
    return enter_and_copy(graph, (void *)(uintptr_t)from, bytes, false);
}
