/*
 * gpu_test.c: see gpu_test.h.
 */
#include "tests/gpu/gpu_test.h"

#include "kernels/codec_bench.h"

#include <stdarg.h>

#define GUARD_BYTES 256u
#define GUARD       0xa5

void cuda_must(cudaError_t e, const char *text, const char *file, int line) {
    if (e == cudaSuccess)
        return;
    printf("%s:%d: %s: %s\n", file, line, text, cudaGetErrorString(e));
    exit(1);
}

bool check(struct gpu_test *g, bool right, const char *format, ...) {
    va_list args;

    g->checks++;
    if (right)
        return true;
    if (++g->failures <= 50) {
        va_start(args, format);
        printf("wrong: ");
        vprintf(format, args);
        printf("\n");
        va_end(args);
    }
    return false;
}

/* ---- memory ---- */

void *dev_alloc(uint64_t bytes) {
    void *dev;

    CUDA(cudaMalloc(&dev, bytes == 0 ? 1 : bytes));
    return dev;
}

void dev_free(void *dev) {
    CUDA(cudaFree(dev));
}

/* Streams here do not wait for the default one, and a copy from pageable memory may return before
 * its last bytes have arrived. */
void to_dev(void *dev, const void *host, uint64_t bytes) {
    CUDA(cudaMemcpy(dev, host, bytes, cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());
}

void to_host(void *host, const void *dev, uint64_t bytes) {
    CUDA(cudaMemcpy(host, dev, bytes, cudaMemcpyDeviceToHost));
}

void *dev_copy(const void *host, uint64_t bytes) {
    void *dev = dev_alloc(bytes);

    to_dev(dev, host, bytes);
    return dev;
}

void *host_alloc(uint64_t bytes) {
    void *p = malloc(bytes == 0 ? 1 : bytes);

    if (p == NULL) {
        printf("not enough memory\n");
        exit(1);
    }
    return p;
}

struct guarded guarded_alloc(uint64_t bytes, uint64_t misaligned) {
    struct guarded b = {.bytes = bytes, .before = GUARD_BYTES + misaligned};

    b.base = dev_alloc(b.before + bytes + GUARD_BYTES);
    CUDA(cudaMemset(b.base, GUARD, b.before + bytes + GUARD_BYTES));
    CUDA(cudaDeviceSynchronize());
    b.dev = b.base + b.before;
    return b;
}

bool guard_intact(const struct guarded *b) {
    unsigned char before[2 * GUARD_BYTES], after[GUARD_BYTES];
    bool intact = true;

    to_host(before, b->base, b->before);
    to_host(after, b->dev + b->bytes, GUARD_BYTES);
    for (uint64_t i = 0; i < b->before; i++)
        intact &= before[i] == GUARD;
    for (uint64_t i = 0; i < GUARD_BYTES; i++)
        intact &= after[i] == GUARD;
    return intact;
}

void guarded_free(struct guarded *b) {
    dev_free(b->base);
}

void *scratch_of(struct gpu_test *g, uint64_t bytes) {
    dev_free(g->scratch_dev);
    g->scratch_dev = dev_alloc(bytes);
    return g->scratch_dev;
}

struct codec codec_of(struct gpu_test *g, const char *text) {
    struct codec c = codec_none();
    char err[256];

    check(g, codec_parse(text, &c, err, sizeof err), "%s: %s", text, err);
    return c;
}

void same(struct gpu_test *g, const void *got, const void *want, uint64_t bytes, const char *what,
          const char *text) {
    const unsigned char *a = got, *b = want;
    uint64_t i = 0;

    while (i < bytes && a[i] == b[i])
        i++;
    check(g, i == bytes, "%s: %s: byte %llu of %llu differs", text, what, (unsigned long long)i,
          (unsigned long long)bytes);
}

uint32_t take_status(struct gpu_test *g) {
    uint32_t status;

    CUDA(cudaStreamSynchronize(g->stream));
    to_host(&status, g->status_dev, sizeof status);
    CUDA(cudaMemset(g->status_dev, 0, sizeof status));
    CUDA(cudaDeviceSynchronize());
    return status;
}

/* ---- data ---- */

uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

const char *pattern_name(enum pattern p) {
    static const char *const names[] = {"random bits", "zeros",        "equal",    "extremes",
                                        "tiny",        "narrow",       "tops",     "wide",
                                        "escapes",     "many escapes", "trailing", "bell curve"};

    return names[p];
}

/* Sign, an exponent d binades below the middle of the type, random mantissa; f32 or half bits. */
static uint32_t with_exponent(enum dtype t, uint32_t random, uint32_t d) {
    if (t == DTYPE_F32)
        return (random & 0x807fffffu) | (120 - d % 100) << 23;
    if (t == DTYPE_BF16)
        return (random & 0x807fu) | (120 - d % 100) << 7;
    return (random & 0x83ffu) | (24 - d % 24) << 10;
}

static uint32_t pattern_bits(enum dtype t, enum pattern p, uint64_t i, uint64_t r) {
    uint32_t random = (uint32_t)r, pick = (uint32_t)(r >> 32), group = (uint32_t)(i / 1024);
    uint32_t top = t == DTYPE_F32 ? 0x7f7fffffu : t == DTYPE_BF16 ? 0x7f7fu : 0x7bffu;
    uint32_t sign = t == DTYPE_F32 ? 0x80000000u : 0x8000u;

    switch (p) {
    case PATTERN_BITS:
        return random;
    case PATTERN_ZEROS:
        return 0;
    case PATTERN_EQUAL:
        return with_exponent(t, 0x12345u, 3);
    case PATTERN_EXTREMES:
        return i % 2 != 0 ? top : sign | 1;
    case PATTERN_TINY:
        return (random & sign) | (pick % 3 == 0 ? 0 : pick & 0x3f);
    case PATTERN_NARROW:
        return with_exponent(t, random, pick % (1 + group % 8));
    case PATTERN_TOPS:
        return with_exponent(t, random, pick % 100 == 0 ? 1 : 2 + pick % 7 + (pick % 50 == 1));
    case PATTERN_WIDE:
        return with_exponent(t, random, pick % (12 + group % 8));
    case PATTERN_ESCAPES:
        return with_exponent(t, random, pick % 20 == 0 ? pick >> 8 & 63 : pick % 3);
    case PATTERN_MANY:
        random = with_exponent(t, random, pick % 8 < group % 8 ? pick >> 8 & 63 : pick % 3);
        return t == DTYPE_F32 ? random & 0xffff0000u : random;
    case PATTERN_TRAILING:
        if (group % 4 == 1)
            return 0;
        random = with_exponent(t, random, pick % 5);
        return t == DTYPE_F32 ? random & ~((1u << (pick >> 8) % (4 + group % 14)) - 1) : random;
    case PATTERN_BELL:
    case PATTERN_COUNT:
        break;
    }
    return 0;
}

void fill(enum dtype t, enum pattern p, void *dst, uint64_t elems, uint64_t seed) {
    if (p == PATTERN_BELL) {
        codec_bench_generate(t, dst, elems, seed);
        return;
    }
    for (uint64_t i = 0; i < elems; i++) {
        uint32_t bits = pattern_bits(t, p, i, next_random(&seed));

        memcpy((char *)dst + i * dtype_bytes(t), &bits, dtype_bytes(t));
    }
}

void *read_data(const struct gpu_test *g, const char *name, uint64_t *bytes) {
    char path[4096];
    void *data = NULL;
    long size;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", g->data_folder, name);
    f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0 && fseek(f, 0, SEEK_SET) == 0) {
        data = host_alloc((uint64_t)size);
        *bytes = fread(data, 1, (size_t)size, f);
    }
    fclose(f);
    return data;
}
