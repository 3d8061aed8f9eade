/*
 * test_executor_inputs.c: made-up values are the same everywhere and of their kind; files are cut
 * into slices.
 */
#include "runtime/refmath.h"
#include "tests/unit/run_test.h"

#include <math.h>
#include <stdio.h>

#define N 20000

static void values_come_from_seed_rank_and_index(void **state) {
    (void)state;
    static float whole[N], part[100], other[N];
    input_generate(INPUT_NORMAL, DTYPE_F32, 5, 3, 0, N, whole);
    input_generate(INPUT_NORMAL, DTYPE_F32, 5, 3, 1234, 100, part);
    assert_memory_equal(part, whole + 1234, sizeof part);
    input_generate(INPUT_NORMAL, DTYPE_F32, 5, 4, 0, N, other);
    assert_true(memcmp(whole, other, sizeof whole) != 0);
    input_generate(INPUT_NORMAL, DTYPE_F32, 6, 3, 0, N, other);
    assert_true(memcmp(whole, other, sizeof whole) != 0);
    /* pinned: the same on every machine and for ever */
    static const uint32_t pinned[] = {0x3d537183, 0xbf73339f};
    assert_memory_equal(whole, pinned, sizeof pinned);
}

static void normal_values_are_normal(void **state) {
    (void)state;
    static float v[N];
    double sum = 0, squares = 0;
    int low_bits = 0;
    input_generate(INPUT_NORMAL, DTYPE_F32, 1, 0, 0, N, v);
    for (int i = 0; i < N; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        low_bits += (int)(bits & 1);
        sum += (double)v[i];
        squares += (double)v[i] * (double)v[i];
    }
    assert_true(fabs(sum / N) < 0.03);
    assert_true(fabs(squares / N - 1) < 0.05);
    assert_true(abs(low_bits - N / 2) < N / 40);
}

static void each_kind_is_what_it_says(void **state) {
    (void)state;
    static uint16_t v[N];
    int nan = 0, infinite = 0, denormal = 0, negative_zero = 0;
    input_generate(INPUT_EXTREMES, DTYPE_F16, 1, 0, 0, N, v);
    for (int i = 0; i < N; i++) {
        double d = ref_double(DTYPE_F16, v[i]);
        nan += isnan(d) != 0;
        infinite += isinf(d) != 0;
        denormal += d != 0 && fabs(d) < 6e-5;
        negative_zero += v[i] == 0x8000;
    }
    assert_true(nan > 50 && infinite > 20 && denormal > 50 && negative_zero > 20);
    assert_true(nan + infinite < N / 16);
    input_generate(INPUT_EXACT, DTYPE_BF16, 1, 0, 0, N, v);
    for (int i = 0; i < N; i++) {
        double d = ref_double(DTYPE_BF16, v[i]);
        assert_true(d == rint(d) && fabs(d) <= 2);
    }
    input_generate(INPUT_UNIFORM, DTYPE_BF16, 1, 0, 0, N, v);
    for (int i = 0; i < N; i++)
        assert_true(fabs(ref_double(DTYPE_BF16, v[i])) <= 1);
    input_generate(INPUT_ONES, DTYPE_BF16, 1, 0, 0, N, v);
    for (int i = 0; i < N; i++)
        assert_int_equal(v[i], 0x3f80);
    input_generate(INPUT_ZEROS, DTYPE_BF16, 1, 0, 0, N, v);
    for (int i = 0; i < N; i++)
        assert_int_equal(v[i], 0);
    for (enum input_kind k = 0; k < INPUT_KIND_COUNT; k++) {
        enum input_kind back;
        assert_true(input_kind_parse(input_kind_name(k), &back) && back == k);
        assert_true(strlen(input_kind_help(k)) > 3);
    }
    enum input_kind k = INPUT_ONES;
    assert_false(input_kind_parse("gauss", &k));
    assert_int_equal(k, INPUT_ONES);
}

/* ---- files ---- */

static char *write_file(const void *data, size_t bytes) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/sluice-inputs-XXXXXX");
    int fd = mkstemp(path);
    FILE *out = fdopen(fd, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, bytes, out), bytes);
    fclose(out);
    return path;
}

static void a_short_file_starts_again(void **state) {
    (void)state;
    static const uint16_t data[] = {1, 2, 3, 4, 5};
    struct input_file f;
    char err[200];
    uint16_t got[7];
    char *path = write_file(data, sizeof data);
    assert_true(input_file_read(path, DTYPE_BF16, UINT64_MAX, &f, err, sizeof err));
    assert_int_equal(f.elems, 5);
    assert_false(input_file_slice(&f, 1, 4, got));
    assert_memory_equal(got, data + 1, 8);
    assert_true(input_file_slice(&f, 3, 7, got));
    static const uint16_t want[] = {4, 5, 1, 2, 3, 4, 5};
    assert_memory_equal(got, want, sizeof want);
    assert_true(input_file_slice(&f, 11, 2, got));
    assert_memory_equal(got, data + 1, 4);
    input_file_free(&f);
    assert_true(input_file_read(path, DTYPE_BF16, 3, &f, err, sizeof err)); /* to whole elements */
    assert_int_equal(f.elems, 2);
    input_file_free(&f);
    assert_false(input_file_read(path, DTYPE_F32, UINT64_MAX, &f, err, sizeof err));
    assert_non_null(strstr(err, "has 10 bytes, which is not a whole number of f32 elements"));
    remove(path);
    assert_false(input_file_read(path, DTYPE_F32, UINT64_MAX, &f, err, sizeof err));
    assert_non_null(strstr(err, "cannot read"));
    path = write_file(data, 0);
    assert_false(input_file_read(path, DTYPE_F32, UINT64_MAX, &f, err, sizeof err));
    assert_non_null(strstr(err, "is empty"));
    remove(path);
    assert_false(input_file_read("/tmp", DTYPE_F32, UINT64_MAX, &f, err, sizeof err));
}

static void real_gradients_come_out_exact(void **state) {
    (void)state;
    struct input_file f;
    char err[200] = "";
    if (!input_file_read("tests/data/grad_bf16.bin", DTYPE_BF16, UINT64_MAX, &f, err, sizeof err))
        fail_msg("%s", err);
    struct job j = {.text = TWOSHOT, .ranks = 4, .dtype = DTYPE_BF16, .count = f.elems / 4};
    struct world w = world_new(&j);
    for (int32_t r = 0; r < 4; r++)
        assert_false(input_file_slice(&f, (uint64_t)r * j.count, j.count, w.send[r]));
    for (int run = 0; run < 2; run++) {
        world_run(&w);
        assert_int_equal(world_check(&w).wrong, 0);
        assert_int_equal(plan_adapt(w.plan), RUN_OK);
    }
    const struct run_stats *s = plan_stats(w.plan);
    assert_true(plan_last(w.plan)->total.needed_bytes < s->total.raw_bytes * 3 / 4);
    world_free(&w);
    input_file_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_from_seed_rank_and_index),
        cmocka_unit_test(normal_values_are_normal),
        cmocka_unit_test(each_kind_is_what_it_says),
        cmocka_unit_test(a_short_file_starts_again),
        cmocka_unit_test(real_gradients_come_out_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
