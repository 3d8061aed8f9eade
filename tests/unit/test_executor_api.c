/*
 * test_executor_api.c: the public C API: the happy path, each refusal, and what is left after a
 * failure.
 */
#include "runtime/sluice.h"
#include "tests/unit/run_test.h"

#include <stdio.h>
#include <unistd.h>

static const char text[] = TWOSHOT;

static sluice_options options(void) {
    sluice_options o = SLUICE_OPTIONS_INIT;
    o.ranks = 3;
    o.count = 500;
    return o;
}

static void compiled_run_and_measured(void **state) {
    (void)state;
    sluice_options o = options();
    sluice_plan *plan;
    static float memory[3][500];
    void *recv[3];
    const void *send[3];
    assert_int_equal(sluice_compile_text(&plan, "t.slc", text, strlen(text), &o), SLUICE_OK);
    assert_string_equal(sluice_diagnostics(plan), "");
    assert_string_equal(sluice_error(plan), "");
    for (int r = 0; r < 3; r++) {
        assert_int_equal(sluice_send_bytes(plan, r), 2000);
        assert_int_equal(sluice_recv_bytes(plan, r), 2000);
        for (int i = 0; i < 500; i++)
            memory[r][i] = (float)(r * 1000 + i);
        send[r] = recv[r] = memory[r];
    }
    assert_int_equal(sluice_send_bytes(plan, 3) + sluice_send_bytes(plan, -1), 0);
    assert_int_equal(sluice_run_cpu(plan, send, recv), SLUICE_OK);
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < 500; i++)
            assert_true(memory[r][i] == (float)(3000 + 3 * i));

    sluice_stats s;
    sluice_stage_stats stage;
    assert_int_equal(sluice_get_stats(plan, &s), SLUICE_OK);
    assert_int_equal(s.runs, 1);
    assert_int_equal(s.total.messages, 12);
    assert_true(s.best_seconds > 0 && s.memory_bytes > 6000);
    assert_int_equal(sluice_get_stage_stats(plan, 1, &stage), SLUICE_OK);
    assert_string_equal(stage.name, "scatter");
    assert_int_equal(stage.raw_bytes * 2, s.total.raw_bytes);
    assert_int_equal(sluice_get_stage_stats(plan, 3, &stage), SLUICE_INVALID_ARGUMENT);

    const char *name = NULL, *detail = NULL;
    size_t properties = 0;
    while (sluice_property(plan, properties, &name, &detail))
        properties++;
    assert_true(properties >= 3);
    assert_non_null(name);
    assert_non_null(detail);
    assert_int_equal(sluice_property(plan, 0, NULL, NULL), 1);

    assert_int_equal(sluice_adapt(plan), SLUICE_OK);
    assert_int_equal(sluice_run_cpu(plan, send, recv), SLUICE_OK);
    assert_true(memory[1][7] == 3.0f * (3000 + 3 * 7));
    assert_int_equal(sluice_get_stats(plan, &s), SLUICE_OK);
    assert_int_equal(s.runs, 2);
    assert_int_equal(sluice_get_stage_stats(plan, 2, &stage), SLUICE_OK);
    assert_string_equal(stage.name, "gather");
    sluice_destroy(plan);
    sluice_destroy(NULL);
}

static void a_shipped_file(void **state) {
    (void)state;
    sluice_options o = options();
    sluice_plan *plan;
    const char *defines[] = {"L=2", NULL};
    o.ranks = 6;
    o.ranks_per_node = 2;
    o.dtype = SLUICE_BF16;
    o.op = SLUICE_AVG;
    o.defines = defines;
    sluice_status status = sluice_compile_file(&plan, "schedules/allreduce_hierarchical.slc", &o);
    if (status != SLUICE_OK)
        print_error("%s%s\n", sluice_diagnostics(plan), sluice_error(plan));
    assert_int_equal(status, SLUICE_OK);
    sluice_destroy(plan);
}

static void errors_in_the_text_are_told(void **state) {
    (void)state;
    static const char wrong[] = "schedule s { collective allreduce; inout d[N] }";
    sluice_options o = options();
    sluice_plan *plan;
    sluice_stats s;
    const void *send[3] = {0};
    void *recv[3] = {0};
    assert_int_equal(sluice_compile_text(&plan, "w.slc", wrong, strlen(wrong), &o),
                     SLUICE_INVALID_SCHEDULE);
    assert_non_null(plan);
    assert_non_null(strstr(sluice_diagnostics(plan), "w.slc:1:"));
    assert_non_null(strstr(sluice_diagnostics(plan), "error: "));
    assert_int_equal(sluice_run_cpu(plan, send, recv), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_adapt(plan), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_get_stats(plan, &s), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_property(plan, 0, NULL, NULL), 0);
    assert_int_equal(sluice_send_bytes(plan, 0), 0);
    sluice_destroy(plan);
    assert_int_equal(sluice_compile_file(&plan, "there/is/no/such.slc", &o),
                     SLUICE_INVALID_SCHEDULE);
    assert_non_null(strstr(sluice_diagnostics(plan), "there/is/no/such.slc"));
    sluice_destroy(plan);
}

static void write_schedule(const char *path, const char *order) {
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out,
            "schedule s(codec wire = pack) {\n  collective allreduce; inout d[1];\n"
            "  for r in 1..N { reduce d[0]@%s -> d[0]@0 via wire; }\n"
            "  copy d[0]@0 -> d[0]@ranks(0..N) via wire;\n}\n",
            order);
    fclose(out);
}

/* A plan is what its file was: an adaptation that reads another one changes nothing. */
static void a_file_that_changes_is_noticed(void **state) {
    (void)state;
    char path[] = "/tmp/sluice-api-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    sluice_options o = options();
    sluice_plan *plan;
    static float memory[3][40000];
    void *recv[3] = {memory[0], memory[1], memory[2]};
    const void *send[3] = {memory[0], memory[1], memory[2]};
    o.count = 40000;
    write_schedule(path, "r");
    assert_int_equal(sluice_compile_file(&plan, path, &o), SLUICE_OK);
    assert_int_equal(sluice_run_cpu(plan, send, recv), SLUICE_OK);
    write_schedule(path, "(N - r)"); /* as right, but with other bits */
    assert_int_equal(sluice_adapt(plan), SLUICE_INVALID_SCHEDULE);
    assert_string_equal(sluice_error(plan), "the schedule's files changed since they were read");
    assert_int_equal(sluice_run_cpu(plan, send, recv), SLUICE_OK);
    remove(path);
    assert_int_equal(sluice_adapt(plan), SLUICE_INVALID_SCHEDULE);
    assert_int_equal(sluice_run_cpu(plan, send, recv), SLUICE_OK);
    write_schedule(path, "r");
    assert_int_equal(sluice_adapt(plan), SLUICE_OK);
    assert_int_equal(sluice_run_cpu(plan, send, recv), SLUICE_OK);
    remove(path);
    sluice_destroy(plan);
}

static void refused_option(sluice_options o, const char *words) {
    sluice_plan *plan;
    assert_int_equal(sluice_compile_text(&plan, "t.slc", text, strlen(text), &o),
                     SLUICE_INVALID_ARGUMENT);
    assert_string_equal(sluice_error(plan), words);
    sluice_destroy(plan);
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    sluice_options o = options();
    o.ranks = 0;
    refused_option(o, "ranks is not in 1 .. 65536");
    o = options();
    o.ranks_per_node = 2;
    refused_option(o, "ranks_per_node does not divide ranks");
    o = options();
    o.threads = -1;
    refused_option(o, "slices or threads is negative");
    o = options();
    o.dtype = (sluice_dtype)99;
    refused_option(o, "unknown dtype or op");
    o = options();
    o.op = (sluice_op)-1;
    refused_option(o, "unknown dtype or op");
    o = options();
    o.struct_bytes = 8;
    refused_option(o, "the options were not made by SLUICE_OPTIONS_INIT of this version");
    o = options();
    sluice_plan *plan;
    assert_int_equal(sluice_compile_text(NULL, "t", text, 3, &o), SLUICE_INVALID_ARGUMENT);
    assert_int_equal(sluice_compile_text(&plan, "t", text, 3, NULL), SLUICE_INVALID_ARGUMENT);
    assert_null(plan);
    assert_int_equal(sluice_compile_file(&plan, NULL, &o), SLUICE_INVALID_ARGUMENT);
    assert_string_equal(sluice_error(plan), "there is no path, or no name or text");
    sluice_destroy(plan);
    assert_int_equal(sluice_compile_text(&plan, "t", text, strlen(text), &o), SLUICE_OK);
    assert_int_equal(sluice_run_cpu(plan, NULL, NULL), SLUICE_INVALID_ARGUMENT);
    const void *send[3] = {0};
    void *recv[3] = {0};
    assert_int_equal(sluice_run_cpu(plan, send, recv), SLUICE_INVALID_ARGUMENT);
    assert_string_equal(sluice_error(plan), "rank 0 has no send buffer");
    sluice_destroy(plan);
}

static void every_status_has_words(void **state) {
    (void)state;
    for (int s = 0; s <= 5; s++)
        assert_true(strlen(sluice_status_text((sluice_status)s)) > 5);
    assert_true(sluice_version()[0] >= '0' && sluice_version()[0] <= '9');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_run_and_measured),
        cmocka_unit_test(a_shipped_file),
        cmocka_unit_test(errors_in_the_text_are_told),
        cmocka_unit_test(a_file_that_changes_is_noticed),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(every_status_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
