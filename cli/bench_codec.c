/* sluice bench codec: ratio and speed of codecs on one core, on real or made-up values.
 *
 * The input is one piece. Encoding and decoding are timed apart, the best of --iters; what comes
 * back is compared with what went in: every bit for a lossless codec, else the codec's own bound.
 */
#include "cli/cli.h"
#include "kernels/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ITERS = 5, DEFAULT_ELEMS = 4 << 20, MAX_INPUT_BYTES = 1 << 30 };

/* Values, and room for an encoding and for what is decoded. */
struct bench {
    const struct options *o;
    enum dtype dtype;
    uint64_t elems, raw_bytes;
    void *input, *output;
};

struct result {
    char name[CODEC_TEXT_BYTES];
    uint64_t wire_bytes;
    double encode_seconds, decode_seconds;
    const char *wrong; /* NULL: what came back is right */
};

static double element(enum dtype t, const char *at) {
    uint16_t half;
    float single;
    switch (t) {
    case DTYPE_F32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    case DTYPE_F16:
    case DTYPE_BF16:
        memcpy(&half, at, sizeof half);
        return (double)(t == DTYPE_F16 ? half_to_float(half) : bfloat_to_float(half));
    case DTYPE_F64:
    case DTYPE_I32:
    case DTYPE_I64:
    case DTYPE_U8:
    case DTYPE_COUNT:
        break; /* no lossy codec takes them */
    }
    return 0;
}

/* Whether every element is within the bound that the codec declares, block by block. */
static bool within_bound(const struct bench *b, const struct codec *c) {
    uint64_t unit = codec_slice_unit(c, b->dtype), step = dtype_bytes(b->dtype);
    unit = unit ? unit : b->elems;
    for (uint64_t from = 0; from < b->elems; from += unit) {
        uint64_t to = from + unit < b->elems ? from + unit : b->elems;
        double block_max = 0;
        for (uint64_t i = from; i < to; i++) {
            block_max = fmax(block_max, fabs(element(b->dtype, (const char *)b->input + i * step)));
        }
        for (uint64_t i = from; i < to; i++) {
            double in = element(b->dtype, (const char *)b->input + i * step),
                   out = element(b->dtype, (const char *)b->output + i * step);
            double bound = codec_error_bound(c, b->dtype, fabs(in), block_max);
            if (isfinite(in) && isfinite(bound) && !(fabs(out - in) <= bound)) {
                return false;
            }
        }
    }
    return true;
}

static const char *run_once(struct bench *b, const struct codec *c, char *slot, uint64_t slot_bytes,
                            char *scratch, struct result *r) {
    const char *reason = NULL;
    double start = now_seconds();
    enum codec_status s =
        codec_encode(c, b->dtype, b->input, b->elems, slot, slot_bytes, &r->wire_bytes, scratch);
    double middle = now_seconds();
    if (s != CODEC_OK) {
        return "did not fit its worst case";
    }
    s = codec_decode(c, b->dtype, slot, slot_bytes, b->elems, b->output, scratch, &reason);
    double end = now_seconds();
    r->encode_seconds = fmin(r->encode_seconds, middle - start);
    r->decode_seconds = fmin(r->decode_seconds, end - middle);
    return s == CODEC_OK ? NULL : reason ? reason : "was not decoded";
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

static enum exit_code measure(struct bench *b, const char *text, struct result *r) {
    struct codec c;
    *r = (struct result){.encode_seconds = INFINITY, .decode_seconds = INFINITY};
    char error[256];
    if (!codec_parse(text, &c, error, sizeof error)) {
        return EXIT_INTERNAL; /* codecs_known has seen it */
    }
    codec_format(&c, r->name, sizeof r->name);
    uint64_t slot_bytes = codec_worst_bytes(&c, b->dtype, b->elems);
    uint64_t scratch_bytes = codec_scratch_bytes(&c, b->dtype, b->elems);
    char *slot = malloc(slot_bytes + 1), *scratch = malloc(scratch_bytes + 1);
    if (!slot || !scratch) {
        free(slot);
        free(scratch);
        complain(b->o, "no memory");
        return EXIT_INTERNAL;
    }
    int64_t iters = b->o->iters > 0 ? b->o->iters : DEFAULT_ITERS;
    memset(slot, 0, slot_bytes); /* the first touch is not the codec's */
    for (int64_t i = 0; i < iters && !r->wrong; i++) {
        r->wrong = run_once(b, &c, slot, slot_bytes, scratch, r);
    }
    bool lossless = codec_is_lossless(&c, b->dtype);
    if (!r->wrong && lossless && memcmp(b->input, b->output, b->raw_bytes) != 0) {
        r->wrong = "lossless, and bits differ";
    } else if (!r->wrong && !lossless && !within_bound(b, &c)) {
        r->wrong = "an element is beyond the error bound";
    }
    free(slot);
    free(scratch);
    return r->wrong ? EXIT_RESULT : EXIT_OK;
}

static double rate(const struct bench *b, double seconds) {
    return seconds > 0 ? (double)b->raw_bytes / seconds * 1e-9 : 0;
}

static double ratio(const struct bench *b, const struct result *r) {
    return b->raw_bytes ? (double)r->wire_bytes / (double)b->raw_bytes : 1;
}

static void print_result(const struct bench *b, const struct result *r) {
    char bytes[NUMBER_TEXT_BYTES];
    printf("%-24s %14s %8.4f %10.2f %10.2f  %s\n", r->name, format_integer(bytes, r->wire_bytes),
           ratio(b, r), rate(b, r->encode_seconds), rate(b, r->decode_seconds),
           r->wrong ? r->wrong : "ok");
}

static void json_result(struct json *j, const struct bench *b, const struct result *r) {
    json_open(j, NULL, '{');
    json_text(j, "codec", r->name);
    json_integer(j, "wire_bytes", r->wire_bytes);
    json_number(j, "ratio", ratio(b, r));
    json_number(j, "encode_gb_per_s", rate(b, r->encode_seconds));
    json_number(j, "decode_gb_per_s", rate(b, r->decode_seconds));
    json_bool(j, "ok", !r->wrong);
    json_close(j, '}');
}

static enum exit_code measure_all(struct bench *b, const char *const *codecs) {
    enum exit_code code = EXIT_OK;
    struct json j = json_start(stdout);
    char bytes[NUMBER_TEXT_BYTES], elems[NUMBER_TEXT_BYTES];
    if (b->o->json) {
        json_open(&j, NULL, '{');
        json_text(&j, "dtype", dtype_name(b->dtype));
        json_integer(&j, "raw_bytes", b->raw_bytes);
        json_open(&j, "codecs", '[');
    } else {
        printf("%s elements of %s, %s, one core\n", format_integer(elems, b->elems),
               dtype_name(b->dtype), format_bytes(bytes, b->raw_bytes));
        printf("%-24s %14s %8s %10s %10s\n", "codec", "wire bytes", "ratio", "enc GB/s",
               "dec GB/s");
    }
    for (; *codecs; codecs++) {
        struct result r;
        enum exit_code one = measure(b, *codecs, &r);
        code = code == EXIT_OK ? one : code;
        if (one == EXIT_INTERNAL) {
            break;
        }
        if (b->o->json) {
            json_result(&j, b, &r);
        } else {
            print_result(b, &r);
        }
    }
    if (b->o->json) {
        json_close(&j, ']');
        json_close(&j, '}');
    }
    return code;
}

/* The input, and room of the same size for what comes back. */
static enum exit_code fill(struct bench *b, const struct job *job, const char *path) {
    const struct options *o = b->o;
    uint64_t seed, elem_bytes = dtype_bytes(b->dtype);
    enum input_kind kind;
    char error[256];
    if (!generator_parse(o, &kind, &seed)) {
        return EXIT_USAGE;
    }
    if (path) {
        struct input_file file;
        if (!input_file_read(path, b->dtype, MAX_INPUT_BYTES, &file, error, sizeof error)) {
            complain(o, "%s", error);
            return EXIT_INPUT;
        }
        b->input = file.data;
        b->elems = file.elems;
    } else {
        b->elems = o->count >= 0 || o->bytes >= 0 ? job->compile.setup.count : DEFAULT_ELEMS;
        if (b->elems > MAX_INPUT_BYTES / elem_bytes) {
            return usage_error(o, "at most 1 GiB");
        }
        b->input = malloc(b->elems * elem_bytes + 1);
        if (b->input) {
            input_generate(kind, b->dtype, seed, 0, 0, b->elems, b->input);
        }
    }
    b->raw_bytes = b->elems * elem_bytes;
    b->output = malloc(b->raw_bytes + 1);
    if (!b->input || !b->output) {
        complain(o, "no memory");
        return EXIT_INTERNAL;
    }
    memset(b->output, 0, b->raw_bytes);
    return EXIT_OK;
}

enum exit_code bench_codec(const struct options *o, const char *path) {
    static const char *const for_floats[] = {"none", "pack", "quant(8)", "quant(4)", NULL};
    static const char *const for_f32[] = {"none",     "pack",     "cast(bf16)", "cast(bf16) | pack",
                                          "quant(8)", "quant(4)", NULL};
    static const char *const for_others[] = {"none", NULL};
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
        codecs = for_floats;
    }
    enum exit_code code = codecs_known(&b, codecs) ? fill(&b, &job, path) : EXIT_USAGE;
    if (code == EXIT_OK) {
        code = measure_all(&b, codecs);
    }
    free(b.input);
    free(b.output);
    job_free(&job);
    return code;
}
