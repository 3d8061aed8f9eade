/*
 * lanes.cpp: the fibers behind lanes.hpp, and the few functions of the CUDA runtime that tests of
 * kernels call. For x86-64.
 */
#include "tests/gpu/lanes.hpp"

#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define FORGET_FRAMES(stack, bytes) __asan_unpoison_memory_region(stack, bytes)
#else
#define FORGET_FRAMES(stack, bytes)
#endif

lanes_index threadIdx, blockIdx, blockDim, gridDim;
unsigned char *lanes_shared;

/* Saves the registers that a call keeps and goes on where another stack has stopped. */
extern "C" void lanes_switch(void **save, void *to);
asm(".text\n.globl lanes_switch\nlanes_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");

namespace {

constexpr uint32_t STACK_BYTES = 65536, MOST_THREADS = 1024;

struct fiber {
    void *sp;
    char *stack;
    bool done;
    uint32_t turn; /* which of two exchanges */
};

/* Fibers that have arrived at a meeting, and how many meetings there were. */
struct meeting {
    uint32_t expected, arrived;
    uint64_t held;
};

fiber fibers[MOST_THREADS];
meeting warps[MOST_THREADS / 32], block;
uint64_t shown[MOST_THREADS / 32][2][32];
uint32_t threads, current;
void *scheduler;
const std::function<void()> *work;

uint32_t draw() {
    static uint32_t state = 2463534242u; /* xorshift */

    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

void go_on_with(uint32_t next) {
    void **save = &fibers[current].sp;

    current = threadIdx.x = next;
    lanes_switch(save, fibers[next].sp);
}

/* Mostly the next one, so that all arrive soon; now and then any. */
void let_others() {
    uint32_t next = draw() % 32 == 0 ? draw() % threads : (current + 1) % threads;

    while (fibers[next].done)
        next = (next + 1) % threads;
    if (next != current)
        go_on_with(next);
}

void close_if_full(meeting &m) {
    if (m.arrived == m.expected) {
        m.arrived = 0;
        m.held++;
    }
}

void meet(meeting &m) {
    uint64_t before = m.held, tries = 0;

    m.arrived++;
    close_if_full(m);
    while (m.held == before) {
        if (++tries > 10000000) {
            fprintf(stderr, "thread %u waits for others that never come\n", threadIdx.x);
            abort();
        }
        let_others();
    }
}

/* Whoever leaves is expected at no meeting. */
void start() {
    (*work)();
    fibers[current].done = true;
    meeting &warp = warps[current / 32];
    warp.expected--;
    block.expected--;
    if (warp.expected != 0)
        close_if_full(warp);
    if (block.expected == 0) {
        void *unused;

        lanes_switch(&unused, scheduler);
    }
    close_if_full(block);
    let_others();
    abort();
}

void run_block(size_t shared_bytes) {
    lanes_shared = (unsigned char *)aligned_alloc(128, (shared_bytes + 127) / 128 * 128 + 128);
    memset(lanes_shared, 0xa5, shared_bytes);
    memset(warps, 0, sizeof warps);
    block = {threads, 0, 0};
    for (uint32_t i = 0; i < threads; i++) {
        fiber &f = fibers[i];

        if (f.stack == nullptr)
            f.stack = (char *)malloc(STACK_BYTES);
        FORGET_FRAMES(f.stack, STACK_BYTES);
        f.done = false;
        f.turn = 0;
        warps[i / 32].expected++;
        void **sp = (void **)(((uintptr_t)f.stack + STACK_BYTES) & ~(uintptr_t)15);

        *--sp = nullptr; /* where start() would return to */
        *--sp = (void *)start;
        for (int r = 0; r < 6; r++)
            *--sp = nullptr;
        f.sp = sp;
    }
    current = threadIdx.x = draw() % threads;
    lanes_switch(&scheduler, fibers[current].sp);
    free(lanes_shared);
}

} // namespace

void lanes_launch(uint32_t grid, uint32_t block_threads, size_t shared_bytes,
                  const std::function<void()> &body) {
    gridDim.x = grid;
    blockDim.x = threads = block_threads;
    work = &body;
    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)
        run_block(shared_bytes);
}

void lanes_meet_block() {
    meet(block);
}

void lanes_meet_warp() {
    meet(warps[current / 32]);
}

const uint64_t *lanes_exchange(uint64_t mine) {
    uint64_t *all = shown[current / 32][fibers[current].turn ^= 1];

    all[current % 32] = mine;
    lanes_meet_warp();
    return all;
}

uint32_t lanes_sum_up_to(uint32_t mine) {
    const uint64_t *all = lanes_exchange(mine);
    uint32_t sum = 0;

    for (uint32_t l = 0; l <= lane_number(); l++)
        sum += (uint32_t)all[l];
    return sum;
}

float lanes_widen_half(uint16_t bits) {
    _Float16 half;

    memcpy(&half, &bits, sizeof half);
    return (float)half;
}

uint16_t lanes_round_half(float f) {
    _Float16 half = (_Float16)f;
    uint16_t bits;

    memcpy(&bits, &half, sizeof bits);
    return bits;
}

/* Not of NaNs. */
uint16_t lanes_round_bfloat(float f) {
    uint32_t bits = __float_as_uint(f);

    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- the CUDA runtime ---- */

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void **p, size_t bytes) {
    if (posix_memalign(p, 256, bytes) != 0)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xcd, bytes);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFree(void *p) {
    free(p);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind,
                                      cudaStream_t) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemset(void *to, int value, size_t bytes) {
    memset(to, value, bytes);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceSynchronize() {
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetLastError() {
    return cudaSuccess;
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t e) {
    return e == cudaErrorInvalidValue   ? "invalid value"
           : e == cudaErrorNotSupported ? "not supported"
                                        : "an error";
}

/* There are no graphs here. */
cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode) {
    return cudaErrorNotSupported;
}

cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t, cudaGraph_t *) {
    return cudaErrorNotSupported;
}

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t, unsigned long long) {
    return cudaErrorNotSupported;
}

cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
    return cudaErrorNotSupported;
}

cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t) {
    return cudaErrorNotSupported;
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t) {
    return cudaErrorNotSupported;
}
}
