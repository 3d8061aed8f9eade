/* sluice bench codec: ratio and speed of codecs on one core, on real or made-up values. The input
 * is one piece; a lossless codec must give back every bit.
 *
 * Encoding reads the raw bytes and writes the encoded ones, decoding the other way round: both move
 * raw + encoded bytes. A copy moves the raw bytes twice. So a codec that takes the time of a copy
 * of as many moved bytes runs at 100 % of the copy rate; what it remembers counts there as well. */
#include "cli/cli.h"
#include "kernels/codec_bench.h"

#include <stdlib.h>

enum { DEFAULT_ITERS = 5, DEFAULT_ELEMS = 4 << 20 };
#define MAX_INPUT_BYTES (UINT64_C(1) << 30)

struct bench {
    const struct options *o;
    enum dtype dtype;
    uint64_t elems;
    void *values;
};

struct result {
    char name[CODEC_TEXT_BYTES];
    bool ok; /* exact where it must be */
    struct codec_bench measured;
};

static enum exit_code measure(const struct bench *b, const char *text, struct result *r) {
    struct codec c;
    char error[256];
    int runs = b->o->iters > 0 ? (int)b->o->iters : DEFAULT_ITERS;
    if (!codec_parse(text, &c, error, sizeof error) ||
        !codec_bench_run(&c, b->dtype, b->values, b->elems, runs, &r->measured, error,
                         sizeof error)) {
        complain(b->o, "%s: %s", text, error);
        return EXIT_INTERNAL; /* codecs_known has seen the text */
    }
    codec_format(&c, r->name, sizeof r->name);
    r->ok = r->measured.exact || !codec_is_lossless(&c, b->dtype);
    return r->ok ? EXIT_OK : EXIT_RESULT;
}

static uint64_t moved_bytes(const struct codec_bench *m) {
    return m->raw_bytes + m->encoded_bytes;
}

/* Of the copy rate, for a direction that handles so many raw GB/s. */
static double percent_of_copy(const struct codec_bench *m, enum codec_side side) {
    double gbps = side == CODEC_ENCODER ? m->encode_gbps : m->decode_gbps;
    uint64_t moved = moved_bytes(m) + 2 * m->state_bytes[side]; /* read and written */
    double moved_gbps = gbps * (double)moved / (double)m->raw_bytes;
    return m->copy_gbps > 0 ? 100 * moved_gbps / (2 * m->copy_gbps) : 0;
}

static void print_result(const struct result *r) {
    const struct codec_bench *m = &r->measured;
    char bytes[NUMBER_TEXT_BYTES], moved[NUMBER_TEXT_BYTES];
    printf("%-20s %14s %7.4f %9s %8.2f %5.1f %% %8.2f %5.1f %% %8.2f  %s\n", r->name,
           format_integer(bytes, m->encoded_bytes), m->ratio, format_bytes(moved, moved_bytes(m)),
           m->encode_gbps, percent_of_copy(m, CODEC_ENCODER), m->decode_gbps,
           percent_of_copy(m, CODEC_DECODER), m->copy_gbps,
           !r->ok     ? "BITS DIFFER"
           : m->exact ? "every bit"
                      : "lossy");
}

static void json_result(struct json *j, const struct result *r) {
    const struct codec_bench *m = &r->measured;
    json_open(j, NULL, '{');
    json_text(j, "codec", r->name);
    json_integer(j, "slot_bytes", m->slot_bytes);
    json_integer(j, "encoded_bytes", m->encoded_bytes);
    json_number(j, "ratio", m->ratio);
    json_integer(j, "moved_bytes", moved_bytes(m));
    json_number(j, "encode_gb_per_s", m->encode_gbps);
    json_number(j, "encode_percent_of_copy", percent_of_copy(m, CODEC_ENCODER));
    json_number(j, "decode_gb_per_s", m->decode_gbps);
    json_number(j, "decode_percent_of_copy", percent_of_copy(m, CODEC_DECODER));
    json_number(j, "copy_gb_per_s", m->copy_gbps);
    json_bool(j, "exact", m->exact);
    json_bool(j, "ok", r->ok);
    json_close(j, '}');
}

static enum exit_code measure_all(const struct bench *b, const char *const *codecs) {
    enum exit_code code = EXIT_OK;
    struct json j = json_start(stdout);
    char bytes[NUMBER_TEXT_BYTES], elems[NUMBER_TEXT_BYTES];
    uint64_t raw_bytes = b->elems * dtype_bytes(b->dtype);
    if (b->o->json) {
        json_open(&j, NULL, '{');
        json_text(&j, "dtype", dtype_name(b->dtype));
        json_integer(&j, "raw_bytes", raw_bytes);
        json_open(&j, "codecs", '[');
    } else {
        printf("%s elements of %s, %s; one core, raw GB/s and %% of the copy rate\n",
               format_integer(elems, b->elems), dtype_name(b->dtype),
               format_bytes(bytes, raw_bytes));
        printf("%-20s %14s %7s %9s %16s %16s %8s\n", "codec", "bytes", "ratio", "moved", "encode",
               "decode", "memcpy");
    }
    for (; *codecs && code != EXIT_INTERNAL; codecs++) {
        struct result r;
        enum exit_code one = measure(b, *codecs, &r);
        code = code == EXIT_OK || one == EXIT_INTERNAL ? one : code;
        if (one == EXIT_INTERNAL) {
            break;
        }
        if (b->o->json) {
            json_result(&j, &r);
        } else {
            print_result(&r);
        }
    }
    if (b->o->json) {
        json_close(&j, ']');
        json_close(&j, '}');
    }
    return code;
}

/* Whether each text is a codec for this type; the first that is not is told. */
static bool codecs_known(const struct bench *b, const char *const *codecs) {
    struct codec c;
    char error[256];
    for (; *codecs; codecs++) {
        if (!codec_parse(*codecs, &c, error, sizeof error) ||
            !codec_check(&c, b->dtype, error, sizeof error)) {
            usage_error(b->o, "%s: %s", *codecs, error);
            return false;
        }
    }
    return true;
}

static enum exit_code read_values(struct bench *b, const char *path) {
    struct input_file file;
    char error[256];
    if (!input_file_read(path, b->dtype, MAX_INPUT_BYTES, &file, error, sizeof error)) {
        complain(b->o, "%s", error);
        return EXIT_INPUT;
    }
    b->values = file.data;
    b->elems = file.elems;
    return EXIT_OK;
}

static enum exit_code make_values(struct bench *b, uint64_t elems) {
    enum input_kind kind;
    uint64_t seed;
    if (!generator_parse(b->o, &kind, &seed)) {
        return EXIT_USAGE;
    }
    if (elems == 0 || elems > MAX_INPUT_BYTES / dtype_bytes(b->dtype)) {
        return usage_error(b->o, "bench codec takes from one element to 1 GiB of them");
    }
    b->elems = elems;
    b->values = malloc(elems * dtype_bytes(b->dtype));
    if (!b->values) {
        complain(b->o, "no memory");
        return EXIT_INTERNAL;
    }
    if (b->o->generate) {
        input_generate(kind, b->dtype, seed, 0, 0, elems, b->values);
    } else {
        codec_bench_generate(b->dtype, b->values, elems, seed);
    }
    return EXIT_OK;
}

enum exit_code bench_codec(const struct options *o, const char *path) {
    static const char *const for_half[] = {"none",     "pack",       "quant(8)",
                                           "quant(4)", "topk(0.01)", NULL};
    static const char *const for_f32[] = {"none",     "pack",     "cast(bf16)", "cast(bf16) | pack",
                                          "quant(8)", "quant(4)", "topk(0.01)", NULL};
    static const char *const for_others[] = {"none", "lz", "sparse", NULL};
    struct job job;
    if (!job_start(&job, o)) {
        return EXIT_USAGE;
    }
    struct bench b = {.o = o, .dtype = job.compile.setup.dtype};
    const char *const *codecs = for_others;
    if (o->codecs.count) {
        codecs = o->codecs.items;
    } else if (b.dtype == DTYPE_F32) {
        codecs = for_f32;
    } else if (b.dtype == DTYPE_F16 || b.dtype == DTYPE_BF16) {
        codecs = for_half;
    }
    enum exit_code code = EXIT_USAGE;
    if (codecs_known(&b, codecs)) {
        bool sized = o->count >= 0 || o->bytes >= 0;
        code = path ? read_values(&b, path)
                    : make_values(&b, sized ? job.compile.setup.count : DEFAULT_ELEMS);
    }
    if (code == EXIT_OK && o->gpu) {
        uint64_t piece_bytes = job.compile.setup.count * dtype_bytes(b.dtype);
        struct bench_values v = {b.dtype, b.elems, b.values, piece_bytes};
        code = bench_codec_gpu(o, &v, codecs);
    } else if (code == EXIT_OK) {
        code = measure_all(&b, codecs);
    }
    free(b.values);
    job_free(&job);
    return code;
}
