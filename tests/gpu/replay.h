/* replay.h: for C, see replay.cu. count: a multiple of 64 * ranks elements, so that chunks are
 * equal. */
#ifndef SLUICE_TESTS_GPU_REPLAY_H
#define SLUICE_TESTS_GPU_REPLAY_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct replay_state {
    uint64_t step;
    uint64_t wrong;    /* elements, in steps that were not flagged */
    uint64_t flagged;  /* steps */
    uint64_t mistaken; /* flagged though all fits, or the other way round */
};

cudaError_t replay_fill(void *send_dev, uint64_t count, uint32_t rank, uint32_t ranks,
                        const struct replay_state *s, cudaStream_t stream);
cudaError_t replay_judge(const void *recv_dev, uint64_t count, uint32_t ranks,
                         struct replay_state *s, const uint32_t *flag_dev, cudaStream_t stream);
cudaError_t replay_step(struct replay_state *s, uint32_t ranks, const uint32_t *flag_dev,
                        cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
