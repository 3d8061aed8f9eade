/*
 * test_reference.c: the reference against other arithmetic, and results that it must catch.
 */
#include "kernels/reduce.h"
#include "runtime/refmath.h"
#include "tests/unit/run_test.h"

#include <math.h>

static uint64_t next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t x = *state;
    return (x ^ x >> 29) * UINT64_C(0x9e3779b97f4a7c15) ^ x >> 40;
}

/* Two independent pieces of code for the same definition. */
static void sums_agree_with_the_kernels(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (enum dtype t = 0; t < DTYPE_COUNT; t++)
        for (enum redop op = 0; op < REDOP_COUNT; op++)
            for (int i = 0; i < 20000; i++) {
                uint64_t bits[3], got = 0, acc[3];
                uint32_t n = 2 + (uint32_t)(next(&seed) % 2);
                uint32_t divisor = op == REDOP_AVG ? n : 0;
                uint64_t width = 8 * dtype_bytes(t);
                bool likes = width > 8 && (next(&seed) >> 40 & 1);
                uint64_t near = likes ? ~UINT64_C(0) << (width - 12) : 0;
                for (uint32_t k = 0; k < n; k++)
                    input_generate(INPUT_BITS, t, next(&seed), 0, 0, 1, memset(&bits[k], 0, 8));
                for (uint32_t k = 1; k < n && near; k++) /* of like size, so that ties happen */
                    bits[k] = (bits[0] & near) | (bits[k] & ~near & (~UINT64_C(0) >> (64 - width)));
                reduce_open(t, &bits[0], acc, 1);
                for (uint32_t k = 1; k < n; k++)
                    reduce_add(t, op, acc, &bits[k], 1);
                if (divisor)
                    reduce_divide(t, acc, 1, divisor);
                reduce_close(t, acc, &got, 1);
                uint64_t want = ref_sum(t, op, bits, n, divisor);
                if (got != want)
                    print_error("%s %s\n", dtype_name(t), redop_name(op));
                assert_true(got == want);
            }
}

static void every_half_is_read_as_defined(void **state) {
    (void)state;
    for (uint64_t bits = 0; bits < 65536; bits++) {
        double h = ref_double(DTYPE_F16, bits), b = ref_double(DTYPE_BF16, bits);
        float hf = half_to_float((uint16_t)bits), bf = bfloat_to_float((uint16_t)bits);
        assert_true(isnan(h) ? isnan(hf) : h == (double)hf && !signbit(h) == !signbit(hf));
        assert_true(isnan(b) ? isnan(bf) : b == (double)bf && !signbit(b) == !signbit(bf));
    }
}

/* The bound of a sum holds for sums of what it says the operands can be. */
static void the_bound_of_a_sum_is_sound(void **state) {
    (void)state;
    uint64_t seed = 11;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int i = 0; i < 60000; i++) {
        enum dtype t = types[i % 3];
        uint64_t bits[5], moved[5];
        struct approx v[5];
        for (int k = 0; k < 5; k++) {
            bits[k] = moved[k] = 0;
            input_generate(INPUT_NORMAL, t, next(&seed), k, 0, 1, &bits[k]);
            v[k] = ref_exact(t, bits[k]);
            uint64_t off = next(&seed) % 8; /* some representable neighbour */
            moved[k] = bits[k] ^ (off < 4 ? off : 0);
            v[k].bound = fabs(ref_double(t, moved[k]) - v[k].exact);
        }
        enum redop op = (enum redop)(next(&seed) % REDOP_COUNT);
        uint32_t divisor = op == REDOP_AVG ? 5 : 0;
        double got = ref_double(t, ref_sum(t, op, moved, 5, divisor));
        struct approx a = ref_sum_approx(t, op, v, 5, divisor);
        assert_true(isfinite(a.bound));
        assert_true(fabs(got - a.exact) <= a.bound);
    }
}

/* ---- wrong results are caught ---- */

static struct world ran(const char *text, const char *define, enum dtype t) {
    struct job j = {.text = text, .ranks = 4, .dtype = t, .count = 5000};
    j.defines[0] = define;
    struct world w = world_new(&j);
    world_run(&w);
    return w;
}

static struct reference_report check(const struct world *w) {
    struct reference_report r;
    char err[100];
    assert_true(reference_check(plan_compilation(w->plan), (const void *const *)w->send,
                                (const void *const *)w->recv, NULL, NULL, &r, err, sizeof err));
    return r;
}

static void one_wrong_bit_is_found_and_named(void **state) {
    (void)state;
    struct world w = ran(TWOSHOT, "wire=pack", DTYPE_BF16);
    assert_int_equal(check(&w).wrong, 0);
    assert_int_equal(check(&w).exact, 20000);
    /* 5000 elements are 79 units of 64: chunks of 19, 20, 20 and 20 units */
    uint16_t *at = (uint16_t *)w.recv[2] + 19 * 64 + 20 * 64 + 77, was = *at;
    *at ^= 1;
    struct reference_report r = check(&w);
    assert_int_equal(r.wrong, 1);
    assert_int_equal(r.kept, 1);
    char text[200], want[200];
    snprintf(want, sizeof want,
             "rank 2, data[2], element 77: got 0x%04x (%.9g), want 0x%04x (%.9g)", was ^ 1u,
             ref_double(DTYPE_BF16, was ^ 1u), was, ref_double(DTYPE_BF16, was));
    assert_string_equal(mismatch_text(plan_compilation(w.plan), &r.first[0], text, sizeof text),
                        want);
    for (int i = 0; i < 100; i++)
        ((uint16_t *)w.recv[0])[i] = (uint16_t)(was + 1);
    r = check(&w);
    assert_true(r.wrong > 90 && r.wrong <= 101);
    assert_int_equal(r.kept, REFERENCE_KEPT);
    world_free(&w);
}

/* The same sum in another order has other bits, and is not the result. */
static void another_order_of_addition_is_wrong(void **state) {
    (void)state;
    struct world w = ran(RING, "wire=none", DTYPE_F32);
    uint64_t differ = 0;
    for (size_t i = 0; i < 5000; i++) {
        float sum = 0;
        for (int r = 0; r < 4; r++)
            sum += ((float *)w.send[r])[i];
        for (int r = 0; r < 4; r++) {
            differ += ((float *)w.recv[r])[i] != sum;
            ((float *)w.recv[r])[i] = sum;
        }
    }
    assert_true(differ > 100);
    assert_int_equal(check(&w).wrong, differ);
    world_free(&w);
}

static void lossy_results_that_are_too_far_are_wrong(void **state) {
    (void)state;
    struct world w = ran(TWOSHOT, "wire=quant(8)", DTYPE_F32);
    assert_int_equal(check(&w).wrong, 0);
    assert_int_equal(check(&w).bounded, 20000);
    for (int r = 0; r < 4; r++) /* replicas stay alike */
        ((float *)w.recv[r])[1234] += 0.5f;
    struct reference_report r = check(&w);
    assert_int_equal(r.wrong, 4);
    assert_true(r.first[0].bounded && r.first[0].element == 1234 && r.first[0].chunk == 0);
    assert_true(r.first[0].bound < 0.5);
    for (int i = 0; i < 4; i++)
        ((float *)w.recv[i])[1234] = NAN;
    assert_int_equal(check(&w).wrong, 4);
    world_free(&w);
}

static void replicas_that_differ_are_wrong(void **state) {
    (void)state;
    struct world w = ran(TWOSHOT, "wire=quant(8)", DTYPE_F32);
    uint32_t bits;
    float *at = (float *)w.recv[3] + 99;
    memcpy(&bits, at, sizeof bits);
    bits ^= 1; /* far within the bound */
    memcpy(at, &bits, sizeof bits);
    struct reference_report r = check(&w);
    assert_int_equal(r.wrong, 1);
    assert_true(r.first[0].replica && !r.first[0].bounded);
    assert_int_equal(r.first[0].rank, 3);
    assert_int_equal(r.first[0].other, 0);
    char text[200];
    mismatch_text(plan_compilation(w.plan), &r.first[0], text, sizeof text);
    assert_non_null(strstr(text, "rank 3, data[0], element 99: got 0x"));
    assert_non_null(strstr(text, ", but rank 0 holds 0x"));
    world_free(&w);
}

static void what_has_no_bound_is_said_to_have_none(void **state) {
    (void)state;
    struct job j = {.text = TWOSHOT, .ranks = 2, .dtype = DTYPE_F32, .count = 256};
    j.defines[0] = "wire=quant(8, 64)";
    struct world w = world_new(&j);
    ((float *)w.send[1])[70] = INFINITY;
    world_run(&w);
    struct reference_report r = check(&w);
    assert_int_equal(r.wrong, 0);
    assert_int_equal(r.unbounded, 2 * 64); /* the block, on both ranks */
    assert_int_equal(r.bounded, 2 * 192);
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_the_kernels),
        cmocka_unit_test(every_half_is_read_as_defined),
        cmocka_unit_test(the_bound_of_a_sum_is_sound),
        cmocka_unit_test(one_wrong_bit_is_found_and_named),
        cmocka_unit_test(another_order_of_addition_is_wrong),
        cmocka_unit_test(lossy_results_that_are_too_far_are_wrong),
        cmocka_unit_test(replicas_that_differ_are_wrong),
        cmocka_unit_test(what_has_no_bound_is_said_to_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
