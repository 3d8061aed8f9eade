/*
 * emulated_kernels.c: the launchers of gpu.h, protocol.h and replay.h on the C reference, see
 * emulated.h. Workspaces and scratch are written all over, so that any that is shared, or too
 * small, does harm.
 */
#include "kernels/protocol.h"
#include "kernels/reduce.h"
#include "tests/gpu/emulated.h"
#include "tests/gpu/replay.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void set_status(uint32_t *status, enum codec_status s) {
    if (s != CODEC_OK)
        __atomic_fetch_or(status, s == CODEC_OVERFLOW ? GPU_OVERFLOW : GPU_MALFORMED,
                          __ATOMIC_RELAXED);
}

static void *room(uint64_t bytes) {
    void *p = malloc(bytes + 1);
    if (!p)
        abort();
    return p;
}

uint64_t gpu_workspace_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    return codec_is_bounded(c) && codec_has_header(c, t, elems) ? 300 : 0;
}

uint64_t gpu_scratch_bytes(const struct codec *c, enum dtype t, uint64_t elems) {
    return codec_is_bounded(c) ? elems * dtype_bytes(t) : 0;
}

/* ---- encode, decode, combine ---- */

/* Any of the three. */
struct job {
    enum dtype t;
    enum redop op;
    struct gpu_operand in[GPU_MAX_OPERANDS];
    struct gpu_state states[GPU_MAX_OPERANDS + 1]; /* the slot's last */
    uint32_t count;
    uint64_t elems, divide_by;
    char *acc, *chunk;
    struct codec codec;
    char *slot;
    uint64_t slot_bytes;
    char *workspace, *scratch;
    uint64_t scratch_bytes;
    uint32_t *status;
};

static uint32_t acc_bytes(enum dtype t) {
    return reduce_acc_bytes(t);
}

static struct codec_state state_of(const struct gpu_state *s) {
    return (struct codec_state){s->now_dev, s->next_dev, s->first_elem};
}

/* An operand as elements; false: it was lost. */
static bool read_piece(const struct job *j, const struct gpu_operand *in, void *to) {
    struct codec_state state = state_of(&j->states[in - j->in]);
    void *scratch = room(codec_scratch_bytes(&in->codec, j->t, j->elems));
    enum codec_status s = codec_decode_next(&in->codec, j->t, in->data_dev, in->slot_bytes,
                                            j->elems, to, scratch, NULL, &state);
    free(scratch);
    set_status(j->status, s);
    return s == CODEC_OK;
}

static bool sum_operands(const struct job *j, char *acc, char *value) {
    bool whole = true;
    enum dtype wide = j->t == DTYPE_F16 || j->t == DTYPE_BF16 ? DTYPE_F32 : j->t;
    for (uint32_t i = 0; i < j->count && whole; i++) {
        const struct gpu_operand *in = &j->in[i];
        bool is_acc = in->kind == GPU_ACC;
        const void *at = in->data_dev;
        if (in->kind == GPU_PIECE) {
            whole = read_piece(j, in, value);
            at = value;
        }
        if (!whole)
            break;
        if (i > 0)
            reduce_add(is_acc ? wide : j->t, j->op, acc, at, j->elems);
        else if (is_acc)
            memmove(acc, at, j->elems * acc_bytes(j->t));
        else
            reduce_open(j->t, at, acc, j->elems);
    }
    if (whole && j->divide_by)
        reduce_divide(j->t, acc, j->elems, j->divide_by);
    return whole;
}

static void write_slot(const struct job *j, bool whole, const void *value) {
    if (!j->slot)
        return;
    if (!whole) {
        codec_mark_overflow(&j->codec, j->t, j->elems, j->slot, j->slot_bytes, 0);
        return;
    }
    void *scratch = room(codec_scratch_bytes(&j->codec, j->t, j->elems));
    struct codec_state state = state_of(&j->states[GPU_MAX_OPERANDS]);
    set_status(j->status, codec_encode_next(&j->codec, j->t, value, j->elems, j->slot,
                                            j->slot_bytes, NULL, scratch, &state));
    free(scratch);
}

static void run_job(void *args) {
    const struct job *j = args;
    uint64_t bytes = j->elems * dtype_bytes(j->t);
    char *value = room(bytes), *acc = room(j->elems * acc_bytes(j->t));
    bool moved = j->count == 1 && j->in[0].kind != GPU_ACC && !j->acc, whole = true;
    if (j->workspace && j->slot)
        memset(j->workspace, 0xee, gpu_workspace_bytes(&j->codec, j->t, j->elems));
    if (j->scratch)
        memset(j->scratch, 0xee, j->scratch_bytes);
    if (moved && j->in[0].kind == GPU_CHUNK)
        memcpy(value, j->in[0].data_dev, bytes);
    else if (moved)
        whole = read_piece(j, &j->in[0], value);
    else
        whole = sum_operands(j, acc, value);
    if (whole && j->acc)
        memcpy(j->acc, acc, j->elems * acc_bytes(j->t));
    if (whole && !moved && !j->acc)
        reduce_close(j->t, acc, value, j->elems);
    if (whole && j->chunk)
        memcpy(j->chunk, value, bytes);
    write_slot(j, whole, value);
    free(value);
    free(acc);
}

static size_t touch_state(struct job *j, const struct gpu_state *s, size_t which,
                          const struct codec *c, enum codec_side side, struct touch *t, size_t n) {
    uint64_t bytes = codec_state_bytes(c, j->t, j->elems, side);
    j->states[which] = *s;
    if (bytes == 0)
        return n;
    t[n++] = (struct touch){s->now_dev, bytes, TOUCH_READ};
    t[n++] = (struct touch){s->next_dev, bytes, TOUCH_WRITE};
    return n;
}

static cudaError_t launch_job(struct job *j, const struct gpu_extra *extra, cudaStream_t stream) {
    struct touch t[3 * GPU_MAX_OPERANDS + 10];
    size_t n = 0;
    uint64_t elem = dtype_bytes(j->t), acc = acc_bytes(j->t), scratch = 0;
    if (j->elems == 0)
        return cudaSuccess;
    for (uint32_t i = 0; i < j->count; i++) {
        const struct gpu_operand *in = &j->in[i];
        uint64_t bytes = in->kind == GPU_CHUNK ? j->elems * elem
                         : in->kind == GPU_ACC ? j->elems * acc
                                               : in->slot_bytes;
        scratch += in->kind == GPU_PIECE ? gpu_scratch_bytes(&in->codec, j->t, j->elems) : 0;
        t[n++] = (struct touch){in->data_dev, bytes, TOUCH_READ};
        if (in->kind == GPU_PIECE && extra && extra->operand_states)
            n = touch_state(j, &extra->operand_states[i], i, &in->codec, CODEC_DECODER, t, n);
    }
    if (j->slot && extra)
        n = touch_state(j, &extra->state, GPU_MAX_OPERANDS, &j->codec, CODEC_ENCODER, t, n);
    scratch += j->slot ? gpu_scratch_bytes(&j->codec, j->t, j->elems) : 0;
    if (scratch > 0 && (!extra || !extra->scratch_dev))
        return cudaErrorInvalidValue;
    j->scratch = scratch > 0 ? extra->scratch_dev : NULL;
    j->scratch_bytes = scratch;
    uint64_t workspace = j->slot ? gpu_workspace_bytes(&j->codec, j->t, j->elems) : 0;
    if (workspace > 0 && !j->workspace)
        return cudaErrorInvalidValue;
    t[n++] = (struct touch){j->acc, j->elems * acc, TOUCH_WRITE};
    t[n++] = (struct touch){j->chunk, j->elems * elem, TOUCH_WRITE};
    t[n++] = (struct touch){j->slot, j->slot_bytes, TOUCH_WRITE};
    t[n++] = (struct touch){j->workspace, workspace, TOUCH_WRITE};
    t[n++] = (struct touch){j->scratch, scratch, TOUCH_WRITE};
    t[n++] = (struct touch){j->status, sizeof *j->status, TOUCH_SHARED};
    return emulated_launch(stream, run_job, j, sizeof *j, t, n);
}

cudaError_t gpu_combine_with(enum dtype t, enum redop op, const struct gpu_operand *operands,
                             uint32_t count, uint64_t elems, uint64_t divide_by, void *acc_dev,
                             void *chunk_dev, const struct codec *c, void *slot_dev,
                             uint64_t slot_bytes, void *workspace_dev,
                             const struct gpu_extra *extra, uint32_t *status_dev,
                             cudaStream_t stream) {
    struct job j = {.t = t, .op = op, .count = count, .elems = elems, .divide_by = divide_by};
    if (count == 0 || count > GPU_MAX_OPERANDS ||
        (acc_dev != NULL) == (chunk_dev != NULL || slot_dev != NULL))
        return cudaErrorInvalidValue;
    memcpy(j.in, operands, count * sizeof *operands);
    j.acc = acc_dev;
    j.chunk = chunk_dev;
    j.codec = slot_dev ? *c : codec_none();
    j.slot = slot_dev;
    j.slot_bytes = slot_dev ? slot_bytes : 0;
    j.workspace = workspace_dev;
    j.status = status_dev;
    return launch_job(&j, extra, stream);
}

cudaError_t gpu_encode_with(const struct codec *c, enum dtype t, const void *src_dev,
                            uint64_t elems, void *slot_dev, uint64_t slot_bytes,
                            void *workspace_dev, const struct gpu_extra *extra,
                            uint32_t *status_dev, cudaStream_t stream) {
    struct gpu_operand in = {.kind = GPU_CHUNK, .data_dev = src_dev};
    return gpu_combine_with(t, REDOP_SUM, &in, 1, elems, 0, NULL, NULL, c, slot_dev, slot_bytes,
                            workspace_dev, extra, status_dev, stream);
}

cudaError_t gpu_decode_with(const struct codec *c, enum dtype t, const void *slot_dev,
                            uint64_t slot_bytes, uint64_t elems, void *dst_dev,
                            const struct gpu_extra *extra, uint32_t *status_dev,
                            cudaStream_t stream) {
    struct gpu_operand in = {GPU_PIECE, slot_dev, slot_bytes, *c};
    struct gpu_extra own = {0};
    if (extra) {
        own.scratch_dev = extra->scratch_dev;
        own.operand_states = &extra->state;
    }
    return gpu_combine_with(t, REDOP_SUM, &in, 1, elems, 0, NULL, dst_dev, NULL, NULL, 0, NULL,
                            &own, status_dev, stream);
}

/* ---- the protocol ---- */

struct exchange {
    const struct protocol_copy *copies;
    const struct protocol_need *needs;
    uint32_t copy_count, need_count;
    uint32_t *words;
};

static void run_exchange(void *args) {
    const struct exchange *e = args;
    for (uint32_t i = 0; i < e->copy_count; i++)
        memcpy(e->copies[i].to_dev, e->copies[i].from_dev, e->copies[i].bytes);
    for (uint32_t i = 0; i < e->need_count; i++) {
        uint64_t bytes;
        memcpy(&bytes, (const char *)e->needs[i].slot_dev + 16, sizeof bytes);
        e->words[e->needs[i].word] =
            (uint32_t)((bytes + PROTOCOL_NEED_UNIT - 1) / PROTOCOL_NEED_UNIT);
    }
}

cudaError_t gpu_exchange(const struct protocol_copy *copies_dev, uint32_t copies,
                         uint64_t largest_bytes, const struct protocol_need *needs_dev,
                         uint32_t needs, uint32_t *words_dev, cudaStream_t stream) {
    struct exchange e = {copies_dev, needs_dev, copies, needs, words_dev};
    size_t n = 0;
    (void)largest_bytes;
    struct touch *t = room((2 * (size_t)copies + 2 * (size_t)needs) * sizeof *t);
    for (uint32_t i = 0; i < copies; i++) {
        t[n++] = (struct touch){copies_dev[i].from_dev, copies_dev[i].bytes, TOUCH_READ};
        t[n++] = (struct touch){copies_dev[i].to_dev, copies_dev[i].bytes, TOUCH_WRITE};
    }
    for (uint32_t i = 0; i < needs; i++) {
        t[n++] = (struct touch){needs_dev[i].slot_dev, 32, TOUCH_READ};
        t[n++] = (struct touch){words_dev + needs_dev[i].word, 4, TOUCH_WRITE};
    }
    cudaError_t error = emulated_launch(stream, run_exchange, &e, sizeof e, t, n);
    free(t);
    return error;
}

struct words {
    uint32_t *words, count, ring, limit;
    struct protocol_state *state;
    char *records;
    uint64_t record_bytes;
};

static void run_begin(void *args) {
    const struct words *w = args;
    memset(w->words, 0, w->count * sizeof *w->words);
}

cudaError_t gpu_begin(uint32_t *words_dev, uint32_t words, cudaStream_t stream) {
    struct words w = {.words = words_dev, .count = words};
    struct touch t = {words_dev, words * sizeof *words_dev, TOUCH_WRITE};
    return emulated_launch(stream, run_begin, &w, sizeof w, &t, 1);
}

cudaError_t gpu_split(uint32_t *words_dev, cudaStream_t stream) {
    (void)words_dev;
    (void)stream;
    return cudaErrorNotSupported; /* one process */
}

static void run_finish(void *args) {
    const struct words *w = args;
    struct protocol_state *s = w->state;
    uint64_t run = s->runs + 1;
    struct protocol_record *r = (void *)(w->records + run % w->ring * w->record_bytes);
    uint32_t status = w->words[PROTOCOL_STATUS];
    __atomic_store_n(&r->run, 0, __ATOMIC_SEQ_CST);
    s->runs = run;
    s->flagged = status != 0;
    s->in_a_row = status ? s->in_a_row + 1 : 0;
    s->due = w->limit != 0 && s->in_a_row >= w->limit;
    s->overflows += (status & GPU_OVERFLOW) != 0;
    r->overflow = (status & GPU_OVERFLOW) != 0;
    r->malformed = (status & GPU_MALFORMED) != 0;
    r->in_a_row = s->in_a_row;
    r->due = s->due;
    r->overflows = s->overflows;
    r->words = w->count - PROTOCOL_NEEDS;
    memcpy(r->need, w->words + PROTOCOL_NEEDS, r->words * sizeof *r->need);
    __atomic_store_n(&r->run, run, __ATOMIC_SEQ_CST);
}

cudaError_t gpu_finish(const uint32_t *words_dev, uint32_t words, struct protocol_state *state_dev,
                       void *ring_dev, uint64_t record_bytes, uint32_t ring, uint32_t limit,
                       cudaStream_t stream) {
    struct words w = {
        (uint32_t *)(uintptr_t)words_dev, words, ring, limit, state_dev, ring_dev, record_bytes};
    struct touch t[] = {{words_dev, words * sizeof *words_dev, TOUCH_READ},
                        {words_dev, sizeof *words_dev, TOUCH_WRITE}, /* behind all that set bits */
                        {state_dev, sizeof *state_dev, TOUCH_WRITE}};
    return emulated_launch(stream, run_finish, &w, sizeof w, t, 3);
}

struct copy {
    void *to;
    const void *from;
    uint64_t bytes;
    const uint32_t *flag;
    bool unless;
};

static void run_copy(void *args) {
    const struct copy *c = args;
    if (!c->flag || (*c->flag != 0) != c->unless)
        memmove(c->to, c->from, c->bytes);
}

static cudaError_t copy(struct copy c, cudaStream_t stream) {
    struct touch t[] = {{c.from, c.bytes, TOUCH_READ},
                        {c.to, c.to == c.from ? 0 : c.bytes, TOUCH_WRITE},
                        {c.flag, sizeof *c.flag, TOUCH_READ}};
    return emulated_launch(stream, run_copy, &c, sizeof c, t, 3);
}

cudaError_t gpu_copy_if(const uint32_t *flag_dev, void *to_dev, const void *from_dev,
                        uint64_t bytes, cudaStream_t stream) {
    return copy((struct copy){to_dev, from_dev, bytes, flag_dev, false}, stream);
}

cudaError_t gpu_copy_unless(const uint32_t *flag_dev, void *to_dev, const void *from_dev,
                            uint64_t bytes, cudaStream_t stream) {
    return copy((struct copy){to_dev, from_dev, bytes, flag_dev, true}, stream);
}

cudaError_t gpu_copy(void *to_dev, const void *from_dev, uint64_t bytes, cudaStream_t stream) {
    if (bytes == 0)
        return cudaSuccess;
    return copy((struct copy){to_dev, from_dev, bytes, NULL, false}, stream);
}

static void run_stamp(void *args) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    **(uint64_t **)args = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

cudaError_t gpu_stamp(uint64_t *at_dev, cudaStream_t stream) {
    struct touch t = {at_dev, sizeof *at_dev, TOUCH_WRITE};
    return emulated_launch(stream, run_stamp, &at_dev, sizeof at_dev, &t, 1);
}

/* ---- replay.h ---- */

static uint64_t mix64(uint64_t z) {
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static bool is_hard(uint64_t step, uint32_t rank, uint32_t ranks) {
    uint64_t z = mix64(step * 7919);
    return z % 4 == 0 && z / 4 % ranks == rank;
}

static uint16_t value_of(uint64_t step, uint32_t rank, uint32_t ranks, uint64_t i) {
    uint64_t z = mix64(mix64(step * 131 + rank) + i);
    uint32_t exponent = is_hard(step, rank, ranks) ? 70 + (uint32_t)(z >> 32) % 110
                                                   : 120 - (uint32_t)__builtin_clzll(z | 1) % 6;
    return (uint16_t)((z & 0x807f) | exponent << 7);
}

struct replay {
    uint16_t *memory;
    uint64_t count;
    uint32_t rank, ranks;
    struct replay_state *state;
    const uint32_t *flag;
};

static void run_fill(void *args) {
    const struct replay *r = args;
    for (uint64_t i = 0; i < r->count; i++)
        r->memory[i] = value_of(r->state->step, r->rank, r->ranks, i);
}

static void run_judge(void *args) {
    const struct replay *r = args;
    uint64_t chunk = r->count / r->ranks;
    for (uint64_t i = 0; i < r->count && !*r->flag; i++) {
        uint32_t owner = (uint32_t)(i / chunk);
        float sum = bfloat_to_float(value_of(r->state->step, owner, r->ranks, i));
        for (uint32_t q = 0; q < r->ranks; q++)
            if (q != owner)
                sum += bfloat_to_float(value_of(r->state->step, q, r->ranks, i));
        r->state->wrong += r->memory[i] != bfloat_from_float(sum);
    }
}

static void run_step(void *args) {
    const struct replay *r = args;
    bool hard = false;
    for (uint32_t q = 0; q < r->ranks; q++)
        hard |= is_hard(r->state->step, q, r->ranks);
    r->state->flagged += *r->flag != 0;
    r->state->mistaken += (*r->flag != 0) != hard;
    r->state->step++;
}

cudaError_t replay_fill(void *send_dev, uint64_t count, uint32_t rank, uint32_t ranks,
                        const struct replay_state *s, cudaStream_t stream) {
    struct replay r = {send_dev, count, rank, ranks, (struct replay_state *)(uintptr_t)s, NULL};
    struct touch t = {send_dev, 2 * count, TOUCH_WRITE};
    return emulated_launch(stream, run_fill, &r, sizeof r, &t, 1);
}

cudaError_t replay_judge(const void *recv_dev, uint64_t count, uint32_t ranks,
                         struct replay_state *s, const uint32_t *flag_dev, cudaStream_t stream) {
    struct replay r = {(uint16_t *)(uintptr_t)recv_dev, count, 0, ranks, s, flag_dev};
    struct touch t[] = {{recv_dev, 2 * count, TOUCH_READ}, {flag_dev, 4, TOUCH_READ}};
    return emulated_launch(stream, run_judge, &r, sizeof r, t, 2);
}

cudaError_t replay_step(struct replay_state *s, uint32_t ranks, const uint32_t *flag_dev,
                        cudaStream_t stream) {
    struct replay r = {NULL, 0, 0, ranks, s, flag_dev};
    struct touch t = {flag_dev, 4, TOUCH_READ};
    return emulated_launch(stream, run_step, &r, sizeof r, &t, 1);
}
