/* sluice bench codec --gpu: the same codecs on the GPU, alone and fused with a sum, as GB/s and as
 * percent of what the bytes that must be moved allow at this device's copy rate. */
#include "cli/cli.h"

#ifndef SLUICE_HAVE_CUDA

enum exit_code bench_codec_gpu(const struct options *o, const struct bench_values *v,
                               const char *const *codecs) {
    (void)v;
    (void)codecs;
    complain(o, "--gpu: this sluice was built without CUDA");
    return EXIT_DEVICE;
}

#else

#include "kernels/gpu_speed.h"

enum { DEFAULT_SAMPLES = 25 };

struct result {
    char name[CODEC_TEXT_BYTES];
    bool ok; /* exact where it must be */
    struct gpu_speed measured;
};

static bool has_kernels(const struct result *r) {
    return r->measured.rates[GPU_SPEED_ENCODE].moved_bytes != 0;
}

static void print_head(const struct gpu_speed_device *d, const struct bench_values *v) {
    printf("%s, driver %d.%d; a copy reads and writes %.0f GB/s\n", d->name, d->driver / 1000,
           d->driver % 1000 / 10, d->copy_gbps);
    printf("elements of %s; raw GB/s, and percent of what the bytes moved allow\n",
           dtype_name(v->dtype));
    printf("%-18s %8s %7s", "codec", "piece", "ratio");
    for (int k = 0; k < GPU_SPEED_KERNELS; k++) {
        printf(" %23s", gpu_speed_kernel_name((enum gpu_speed_kernel)k));
    }
    printf("\n");
}

static void print_result(const struct result *r) {
    const struct gpu_speed *m = &r->measured;
    char bytes[NUMBER_TEXT_BYTES];
    printf("%-18s %8s %7.4f", r->name, format_bytes(bytes, m->raw_bytes), m->ratio);
    for (int k = 0; k < GPU_SPEED_KERNELS; k++) {
        if (m->rates[k].moved_bytes == 0) {
            printf(" %23s", "-");
        } else {
            printf(" %15.1f  %3.0f %%", m->rates[k].gbps, m->rates[k].percent);
        }
    }
    printf("  %s\n", !has_kernels(r) ? "no kernels"
                     : !r->ok        ? "BITS DIFFER"
                     : m->exact      ? "every bit"
                                     : "lossy");
    fflush(stdout);
}

static void json_result(struct json *j, const struct result *r) {
    const struct gpu_speed *m = &r->measured;
    json_open(j, NULL, '{');
    json_text(j, "codec", r->name);
    json_integer(j, "raw_bytes", m->raw_bytes);
    json_integer(j, "encoded_bytes", m->encoded_bytes);
    json_number(j, "ratio", m->ratio);
    json_bool(j, "exact", m->exact);
    json_bool(j, "ok", r->ok);
    json_open(j, "kernels", '[');
    for (int k = 0; k < GPU_SPEED_KERNELS; k++) {
        if (m->rates[k].moved_bytes == 0) {
            continue;
        }
        json_open(j, NULL, '{');
        json_text(j, "kernel", gpu_speed_kernel_name((enum gpu_speed_kernel)k));
        json_number(j, "gb_per_s", m->rates[k].gbps);
        json_number(j, "percent_of_limit", m->rates[k].percent);
        json_integer(j, "moved_bytes", m->rates[k].moved_bytes);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

/* One codec at one size. */
static enum exit_code measure(const struct options *o, const struct bench_values *v,
                              const struct gpu_speed_device *d, const char *text, uint64_t bytes,
                              struct result *r) {
    int samples = o->iters > 0 ? (int)o->iters : DEFAULT_SAMPLES;
    char error[256];
    struct codec c;
    if (!codec_parse(text, &c, error, sizeof error) ||
        !gpu_speed_run(d, &c, v->dtype, v->values, v->elems * dtype_bytes(v->dtype), bytes, samples,
                       &r->measured, error, sizeof error)) {
        complain(o, "%s: %s", text, error);
        return EXIT_INTERNAL;
    }
    codec_format(&c, r->name, sizeof r->name);
    r->ok = !has_kernels(r) || r->measured.exact || !codec_is_lossless(&c, v->dtype);
    return r->ok ? EXIT_OK : EXIT_RESULT;
}

static enum exit_code measure_all(const struct options *o, const struct bench_values *v,
                                  const struct gpu_speed_device *d, const char *const *codecs,
                                  struct json *j) {
    static const uint64_t all[] = {16 << 20, 64 << 20, 256 << 20, 1 << 30};
    bool sized = o->count >= 0 || o->bytes >= 0;
    enum exit_code code = EXIT_OK;
    for (; *codecs; codecs++) {
        for (size_t i = 0; i < (sized ? 1 : sizeof all / sizeof *all); i++) {
            struct result r;
            enum exit_code one = measure(o, v, d, *codecs, sized ? v->piece_bytes : all[i], &r);
            if (one == EXIT_INTERNAL) {
                return one;
            }
            code = code == EXIT_OK ? one : code;
            if (o->json) {
                json_result(j, &r);
            } else {
                print_result(&r);
            }
        }
    }
    return code;
}

enum exit_code bench_codec_gpu(const struct options *o, const struct bench_values *v,
                               const char *const *codecs) {
    struct json j = json_start(stdout);
    struct gpu_speed_device d;
    char error[256];
    if (!gpu_speed_open(&d, error, sizeof error)) {
        complain(o, "--gpu: %s", error);
        return EXIT_DEVICE;
    }
    if (o->json) {
        json_open(&j, NULL, '{');
        json_text(&j, "device", d.name);
        json_integer(&j, "driver", (uint64_t)d.driver);
        json_integer(&j, "cuda", (uint64_t)d.runtime);
        json_number(&j, "copy_gb_per_s", d.copy_gbps);
        json_text(&j, "dtype", dtype_name(v->dtype));
        json_open(&j, "codecs", '[');
    } else {
        print_head(&d, v);
    }
    enum exit_code code = measure_all(o, v, &d, codecs, &j);
    if (o->json) {
        json_close(&j, ']');
        json_close(&j, '}');
    }
    return code;
}

#endif
