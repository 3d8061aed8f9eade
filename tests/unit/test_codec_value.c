/*
 * test_codec_value.c: codecs as values: making, refusing, composing, printing, parsing, asking, and
 * the sizes of slots.
 */
#include "tests/unit/codec_test.h"

static void check_text(const char *text, const char *canonical) {
    struct codec c = codec_of(text), again;
    char buf[CODEC_TEXT_BYTES];

    assert_string_equal(codec_format(&c, buf, sizeof buf), canonical);
    again = codec_of(buf);
    assert_true(codec_equal(&c, &again));
    assert_true(codec_hash(&c) == codec_hash(&again));
}

static void canonical_text_parses_back(void **state) {
    (void)state;
    check_text("none", "none");
    check_text(" none ( ) ", "none");
    check_text("cast(bfloat16)", "cast(bf16)");
    check_text("cast( half )", "cast(f16)");
    check_text("cast(e4m3)", "cast(e4m3)");
    check_text("cast(float8_e5m2) | none", "cast(e5m2)");
    check_text("quant(8)", "quant(8)");
    check_text("quant(8, 64)", "quant(8)");
    check_text("quant(6, 64)", "quant(6)");
    check_text("quant(4,256)", "quant(4, 256)");
    check_text("pack", "pack");
    check_text("pack(0.720)", "pack(0.72)");
    check_text("pack(1)", "pack(1)");
    check_text("pack(0.000001)", "pack(0.000001)");
    check_text("cast(bf16)|pack(.72)", "cast(bf16) | pack(0.72)");
    check_text("none | pack | none", "pack");
    check_text("lz", "lz");
    check_text("cast(bf16) | lz(0.5)", "cast(bf16) | lz(0.5)");
    check_text("cast(f16)|sparse(.1)", "cast(f16) | sparse(0.1)");
    check_text("none|none", "none");
    check_text("quant(8, 64, nearest)", "quant(8)");
    check_text("quant(8,64,stochastic)", "quant(8, 64, stochastic)");
    check_text("topk(0.01)|pack", "topk(0.01) | pack");
    check_text("cast(bf16)|delta|none|pack(.5)", "cast(bf16) | delta | pack(0.5)");
}

static void check_refused(const char *text, const char *message) {
    struct codec c, before = codec_none();
    char err[200] = "";

    c = before;
    assert_false(codec_parse(text, &c, err, sizeof err));
    assert_string_equal(err, message);
    assert_true(codec_equal(&c, &before));
}

static void nonsense_is_refused_with_a_reason(void **state) {
    (void)state;
    check_refused("pakc", "unknown codec 'pakc'; did you mean 'pack'?");
    check_refused("quantize(8)", "unknown codec 'quantize'; did you mean 'quant'?");
    check_refused("zstd", "unknown codec 'zstd'");
    check_refused("", "expected the name of a codec");
    check_refused("pack(", "expected arguments of 'pack' in '()'");
    check_refused("pack(-1)", "expected arguments of 'pack' in '()'");
    check_refused("pack)", "expected '|' or the end after a codec");
    check_refused("pack |", "expected the name of a codec");
    check_refused("none(1)", "'none' takes no arguments");
    check_refused("pack(1, 2)", "'pack' takes at most 1 argument, got 2");
    check_refused("quant(8, 64, nearest, 4)", "'quant' takes at most 3 arguments, got 4");
    check_refused("delta(1)", "'delta' takes no arguments");
    check_refused("topk", "'topk' needs its fraction: how many of the values");
    check_refused("topk(0)", "the fraction of 'topk' must be 0.000001 to 1");
    check_refused("quant(8, 64, 1)",
                  "the rounding of 'quant' is a name (nearest or stochastic), not a number");
    check_refused("quant(8, 64, up)",
                  "the rounding of 'quant' must be nearest or stochastic, not 'up'");
    check_refused("quant(8, stochastic)", "the block of 'quant' is a number (32 to 256 in steps of "
                                          "32), not 'stochastic'");
    check_refused("quant", "'quant' needs its bits: bits a value: 8, 6 or 4");
    check_refused("cast", "'cast' needs its type: bf16, f16, e4m3 or e5m2");
    check_refused("cast(8)",
                  "the type of 'cast' is a name (bf16, f16, e4m3 or e5m2), not a number");
    check_refused("cast(fp9)", "the type of 'cast' must be bf16, f16, e4m3 or e5m2, not 'fp9'");
    check_refused("cast(f32)", "the type of 'cast' must be bf16, f16, e4m3 or e5m2");
    check_refused("quant(5)", "the bits of 'quant' must be 4, 6 or 8");
    check_refused("quant(bf16)", "the bits of 'quant' is a number (4, 6 or 8), not 'bf16'");
    check_refused("quant(8, 48)", "the block of 'quant' must be 32 to 256 in steps of 32");
    check_refused("quant(8, 32.5)", "the block of 'quant' must be 32 to 256 in steps of 32");
    check_refused("pack(0)", "the budget of 'pack' must be 0.000001 to 1");
    check_refused("pack(1.5)", "the budget of 'pack' must be 0.000001 to 1");
    check_refused("pack(99999999999999999999999999999999999999999999)",
                  "the budget of 'pack' must be 0.000001 to 1");
    check_refused("quant(8) | pack",
                  "'pack' cannot follow 'quant', which leaves packed bytes and no values");
    check_refused("pack | cast(bf16)",
                  "'cast' cannot follow 'pack', which leaves packed bytes and no values");
    check_refused("cast(bf16) | cast(f16)",
                  "'cast' cannot follow 'cast': it rounds values itself, use one");
    check_refused("lz | pack",
                  "'pack' cannot follow 'lz', which leaves packed bytes and no values");
    check_refused("cast(e4m3) | pack",
                  "'pack' cannot follow 'cast(e4m3)': no other codec takes its values");
    check_refused("cast(bf16) | quant(8)",
                  "'quant' cannot follow 'cast': it rounds values itself, use one");
}

static void what_remembers_goes_only_where_it_means_something(void **state) {
    static const char *const after_delta[] = {"cast(bf16)", "quant(8)", "topk(0.1)", "delta"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(after_delta); i++) {
        char text[64], message[128];
        size_t name = strcspn(after_delta[i], "(");

        snprintf(text, sizeof text, "delta | %s", after_delta[i]);
        snprintf(message, sizeof message,
                 "'%.*s' cannot follow 'delta', which leaves differences of bits and no numbers",
                 (int)name, after_delta[i]);
        check_refused(text, message);
    }
    check_refused("cast(bf16) | topk(0.1)", "'topk' cannot follow 'cast': what is lost before it "
                                            "would escape its error feedback");
    check_refused("topk(0.1) | cast(bf16)",
                  "'cast' cannot follow 'topk', which leaves the largest values: what it loses "
                  "would escape the error feedback");
    check_refused("topk(0.1) | quant(8)",
                  "'quant' cannot follow 'topk', which leaves the largest values: what it loses "
                  "would escape the error feedback");
    check_refused("topk(0.1) | topk(0.1)",
                  "'topk' cannot follow 'topk', which leaves the largest values: once is enough");
    check_refused("topk(0.1) | lz",
                  "'lz' cannot follow 'topk', which leaves the largest values: they do not repeat");
    check_refused(
        "topk(0.1) | sparse",
        "'sparse' cannot follow 'topk', which leaves the largest values: they are not zero");
    check_refused("topk(0.1) | delta", "'delta' cannot follow 'topk', which leaves the largest "
                                       "values: they stand at other places every time");
    check_refused("quant(8, 64, stochastic) | pack",
                  "'pack' cannot follow 'quant', which leaves packed bytes and no values");
}

static void numbers_that_are_none_are_refused(void **state) {
    const double bad[] = {NAN, INFINITY, -INFINITY, 1e300, -0.5};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct codec_arg arg = {.number = bad[i]};
        struct codec c;
        char err[100];

        assert_false(codec_make("pack", &arg, 1, &c, err, sizeof err));
        assert_false(codec_make("quant", &arg, 1, &c, err, sizeof err));
        assert_false(codec_make("pack", &arg, 1, &c, NULL, 0));
    }
}

static void a_near_name_is_found(void **state) {
    (void)state;
    assert_string_equal(codec_nearest("pck"), "pack");
    assert_string_equal(codec_nearest("non"), "none");
    assert_string_equal(codec_nearest("casting"), "cast");
    assert_null(codec_nearest("brotli"));
    assert_null(codec_nearest(""));
    assert_null(codec_nearest("a_very_long_name_that_no_codec_could_ever_have_had"));
}

static void types_are_checked_along_the_chain(void **state) {
    struct codec pack = codec_of("pack"), cast_pack = codec_of("cast(f16) | pack"),
                 none = codec_none(), fp8 = codec_of("cast(e4m3)");
    char err[100];

    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t++) {
        bool is_float = t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;

        assert_true(codec_check(&none, (enum dtype)t, err, sizeof err));
        assert_int_equal(codec_check(&fp8, (enum dtype)t, err, sizeof err), is_float);
        assert_int_equal(codec_check(&pack, (enum dtype)t, err, sizeof err), is_float);
        assert_int_equal(codec_check(&cast_pack, (enum dtype)t, err, sizeof err), is_float);
    }
    assert_false(codec_check(&pack, DTYPE_I32, err, sizeof err));
    assert_string_equal(err, "'pack' does not take i32");
}

static void questions_have_answers(void **state) {
    struct codec none = codec_none(), pack = codec_of("pack(0.72)"),
                 mixed = codec_of("cast(bf16) | pack(0.7)"), quant = codec_of("quant(8, 96)");
    struct codec cast = codec_of("cast(bf16)"), fp8 = codec_of("cast(e4m3)"), changed;
    struct codec seeded = codec_of("quant(8, 96, stochastic)"),
                 topk = codec_of("topk(0.01) | pack"), delta = codec_of("delta | lz");

    (void)state;
    assert_true(codec_is_none(&none) && !codec_is_none(&pack));
    assert_true(codec_is_lossless(&none, DTYPE_F32) && codec_is_lossless(&pack, DTYPE_F16));
    assert_false(codec_is_lossless(&mixed, DTYPE_F32) || codec_is_lossless(&quant, DTYPE_BF16));
    assert_true(codec_is_lossless(&mixed, DTYPE_BF16)); /* the cast does nothing */
    assert_true(codec_is_bounded(&pack) && codec_is_bounded(&mixed));
    assert_false(codec_is_bounded(&none) || codec_is_bounded(&quant) || codec_is_bounded(&cast));
    assert_false(codec_is_stateful(&mixed));
    assert_false(codec_is_lossless(&fp8, DTYPE_F32) || codec_is_bounded(&fp8));
    assert_int_equal(codec_slice_unit(&fp8, DTYPE_F16), 1);
    changed = codec_without_bounded(&mixed);
    assert_true(codec_equal(&changed, &cast));
    changed = codec_without_bounded(&pack);
    assert_true(codec_equal(&changed, &none));
    changed = codec_without_bounded(&quant);
    assert_true(codec_equal(&changed, &quant));
    changed = codec_with_budget(&mixed, 500000);
    mixed = codec_of("cast(bf16) | pack(0.5)");
    assert_true(codec_equal(&changed, &mixed));
    assert_true(codec_is_stateful(&seeded) && codec_is_stateful(&topk));
    assert_true(codec_is_stateful(&delta) && !codec_is_stateful(&quant));
    assert_true(codec_is_lossless(&delta, DTYPE_I32) && codec_is_bounded(&delta));
    assert_false(codec_is_lossless(&topk, DTYPE_F32) || codec_is_lossless(&seeded, DTYPE_F32));
    assert_true(isinf(codec_error_bound(&topk, DTYPE_F32, 1, 1)));
    assert_true(codec_error_bound(&delta, DTYPE_F32, 1, 1) <= 0);
    assert_int_equal(codec_slice_unit(&topk, DTYPE_F32), 8192);
    assert_int_equal(codec_slice_unit(&quant, DTYPE_F32), 96);
    assert_int_equal(codec_slice_unit(&none, DTYPE_F32), 1);
    assert_int_equal(codec_slice_unit(&mixed, DTYPE_F32), 1024);
}

static void every_row_of_the_table_is_complete(void **state) {
    (void)state;
    for (int k = 0; k < CODEC_KIND_COUNT; k++) {
        const struct codec_info *info = codec_info((enum codec_kind)k);

        assert_true(info->name[0] != 0 && info->help[0] != 0 && info->error[0] != 0);
        assert_true(info->types != 0 && info->param_count <= CODEC_MAX_PARAMS);
        for (size_t p = 0; p < info->param_count; p++)
            assert_true(info->params[p].name[0] != 0 && info->params[p].help[0] != 0);
        assert_string_equal(codec_nearest(info->name), info->name);
    }
}

static void slots_have_the_documented_sizes(void **state) {
    struct codec none = codec_none(), pack = codec_of("pack"), budget = codec_of("pack(0.72)"),
                 full = codec_of("pack(1)"), cast = codec_of("cast(bf16)"),
                 mixed = codec_of("cast(bf16) | pack(0.72)"), q8 = codec_of("quant(8)"),
                 q4 = codec_of("quant(4, 32)"), fp8 = codec_of("cast(e5m2)"),
                 q6 = codec_of("quant(6)");

    (void)state;
    assert_int_equal(codec_slot_bytes(&none, DTYPE_F64, 1000), 8000);
    assert_int_equal(codec_slot_bytes(&cast, DTYPE_F32, 1001), 2002);
    assert_int_equal(codec_slot_bytes(&fp8, DTYPE_BF16, 1001), 1001);
    /* 1,001 values: 16 scales, then a byte each; 32 scales, then half a byte each */
    assert_int_equal(codec_slot_bytes(&q8, DTYPE_F32, 1001), 64 + 1001);
    assert_int_equal(codec_slot_bytes(&q4, DTYPE_BF16, 1001), 128 + 501);
    assert_int_equal(codec_slot_bytes(&q8, DTYPE_F32, 1), 16 + 1);
    assert_int_equal(codec_slot_bytes(&q6, DTYPE_F32, 1), 16 + 24);
    assert_int_equal(codec_slot_bytes(&q6, DTYPE_BF16, 1025), 80 + 768 + 24);
    /* header, 13 tiles and 98 groups of 4 bytes to a multiple of 32, raw to a multiple of 32 */
    assert_int_equal(codec_slot_bytes(&pack, DTYPE_BF16, 100000), 32 + 448 + 200000);
    assert_int_equal(codec_slot_bytes(&budget, DTYPE_BF16, 100000), 32 + 144000);
    assert_int_equal(codec_slot_bytes(&mixed, DTYPE_F32, 100000), 32 + 144000);
    assert_int_equal(codec_slot_bytes(&full, DTYPE_BF16, 100000), 32 + 200000);
    assert_int_equal(codec_least_bytes(&budget, DTYPE_BF16, 100000), 32);
    /* too small to gain: raw, without a header */
    assert_int_equal(codec_slot_bytes(&budget, DTYPE_BF16, 1023), 2046);
    assert_int_equal(codec_least_bytes(&budget, DTYPE_BF16, 1023), 2046);
    assert_false(codec_has_header(&budget, DTYPE_BF16, 1023));
    assert_true(codec_has_header(&budget, DTYPE_BF16, 1024));
    assert_false(codec_has_header(&q8, DTYPE_BF16, 1024));
    for (uint64_t n = 0; n < 20; n++)
        assert_int_equal(codec_slot_bytes(&pack, DTYPE_F32, n), n * 4);
    assert_int_equal(codec_scratch_bytes(&mixed, DTYPE_F32, 33), 128);
    assert_int_equal(codec_scratch_bytes(&mixed, DTYPE_BF16, 33), 0);
    assert_int_equal(codec_scratch_bytes(&pack, DTYPE_F32, 33), 0);
}

static void sizes_that_do_not_exist_are_errors(void **state) {
    const char *const texts[] = {
        "none", "cast(bf16)", "quant(8)", "pack",        "pack(0.5)",    "cast(f16) | pack",
        "lz",   "lz(0.5)",    "sparse",   "sparse(0.1)", "delta | pack", "topk(0.1) | pack"};
    const uint64_t gib = UINT64_C(1) << 30;
    struct codec pack = codec_of("pack(0.72)");
    uint8_t slot[64] = {0};
    const char *reason;

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        struct codec c = codec_of(texts[i]);

        assert_true(codec_slot_bytes(&c, DTYPE_F32, CODEC_MAX_ELEMS + 1) == CODEC_SIZE_ERROR);
        assert_true(codec_worst_bytes(&c, DTYPE_F32, UINT64_MAX) == CODEC_SIZE_ERROR);
        assert_true(codec_scratch_bytes(&c, DTYPE_F32, UINT64_MAX) == CODEC_SIZE_ERROR);
        assert_true(codec_slot_bytes(&c, DTYPE_F32, 8 * gib) < 64 * gib); /* beyond 32 bits */
    }
    /* 64 GiB raw is the most that pack takes */
    assert_true(codec_slot_bytes(&pack, DTYPE_F32, 16 * gib) < 64 * gib);
    assert_true(codec_slot_bytes(&pack, DTYPE_F32, 16 * gib + 1) == CODEC_SIZE_ERROR);
    assert_int_equal(
        codec_encode(&pack, DTYPE_F32, NULL, 16 * gib + 1, slot, sizeof slot, NULL, NULL),
        CODEC_OVERFLOW);
    assert_int_equal(
        codec_decode(&pack, DTYPE_F32, slot, sizeof slot, 16 * gib + 1, NULL, NULL, &reason),
        CODEC_MALFORMED);
}

static void a_longer_text_than_the_buffer_is_cut(void **state) {
    struct codec c = codec_of("cast(bf16) | pack(0.72)");
    char small[8];

    (void)state;
    assert_string_equal(codec_format(&c, small, sizeof small), "cast(bf");
}

static void types_and_operators_have_names(void **state) {
    enum dtype t;
    enum wire_type w;
    enum redop op;

    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        assert_true(dtype_parse(dtype_name((enum dtype)i), &t) && (int)t == i);
        assert_true(dtype_bytes(t) > 0);
    }
    assert_true(dtype_parse("half", &t) && t == DTYPE_F16);
    assert_true(dtype_parse("bfloat16", &t) && t == DTYPE_BF16);
    for (int i = 0; i < WIRE_TYPE_COUNT; i++) {
        assert_true(wire_type_parse(wire_type_name((enum wire_type)i), &w) && (int)w == i);
        assert_int_equal(wire_type_bytes(w), i < DTYPE_COUNT ? dtype_bytes((enum dtype)i) : 1);
        assert_int_equal(dtype_parse(wire_type_name(w), &t), i < DTYPE_COUNT);
    }
    assert_true(wire_type_parse("float8_e4m3fn", &w) && w == WIRE_E4M3);
    assert_false(wire_type_parse("e3m4", &w));
    assert_false(dtype_parse("", &t) || dtype_parse("f", &t) || dtype_parse("float32|float", &t));
    for (int i = 0; i < REDOP_COUNT; i++)
        assert_true(redop_parse(redop_name((enum redop)i), &op) && (int)op == i);
    assert_false(redop_parse("prod", &op));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_parses_back),
        cmocka_unit_test(nonsense_is_refused_with_a_reason),
        cmocka_unit_test(what_remembers_goes_only_where_it_means_something),
        cmocka_unit_test(numbers_that_are_none_are_refused),
        cmocka_unit_test(a_near_name_is_found),
        cmocka_unit_test(types_are_checked_along_the_chain),
        cmocka_unit_test(questions_have_answers),
        cmocka_unit_test(every_row_of_the_table_is_complete),
        cmocka_unit_test(slots_have_the_documented_sizes),
        cmocka_unit_test(sizes_that_do_not_exist_are_errors),
        cmocka_unit_test(a_longer_text_than_the_buffer_is_cut),
        cmocka_unit_test(types_and_operators_have_names),
    };
    return cmocka_run_group_tests_name("codec_value", tests, NULL, NULL);
}
