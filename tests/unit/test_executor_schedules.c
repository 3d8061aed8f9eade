/*
 * test_executor_schedules.c: every shipped schedule, on the CPU, at many numbers of ranks, with
 * counts that do not divide, in the codec it comes with and in a lossy one, held to the reference.
 */
#include "tests/unit/run_test.h"

#include <dirent.h>
#include <stdio.h>

#define MOST 64

struct shelf {
    char *paths[MOST];
    size_t count;
};

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct shelf find_schedules(void) {
    struct shelf s = {.count = 0};
    DIR *dir = opendir("schedules");
    assert_non_null(dir);
    for (const struct dirent *d; (d = readdir(dir)) != NULL;) {
        size_t length = strlen(d->d_name);
        if (length < 5 || strcmp(d->d_name + length - 4, ".slc") != 0)
            continue;
        assert_true(s.count < MOST);
        s.paths[s.count] = malloc(length + 20);
        snprintf(s.paths[s.count++], length + 20, "schedules/%s", d->d_name);
    }
    closedir(dir);
    qsort(s.paths, s.count, sizeof s.paths[0], by_name);
    return s;
}

/* Whether the only errors are requirements that do not hold: wrong numbers of ranks, not faults. */
static bool only_requirements(const struct compilation *c) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    diag_print(c->diag, out, false);
    fclose(out);
    bool only = diag_errors(c->diag) > 0;
    for (const char *at = text; (at = strstr(at, " error: ")) != NULL; at++)
        only &= strstr(at, "require") != NULL;
    if (!only)
        print_error("%s\n", text);
    free(text);
    return only;
}

/* False: the schedule is not for so many ranks. */
static bool run_schedule(const char *path, const char *define, struct job j) {
    int32_t node_of[MOST], local_of[MOST];
    int32_t per_node = j.ranks % 4 == 0 ? 4 : j.ranks % 2 == 0 ? 2 : 1;
    struct compile_options c = job_options(&j);
    const char *defines[] = {define, NULL};
    for (int32_t r = 0; r < j.ranks; r++) {
        node_of[r] = r / per_node;
        local_of[r] = r % per_node;
    }
    c.defines = defines;
    c.setup.node_of = node_of;
    c.setup.local_of = local_of;
    c.setup.nodes = j.ranks / per_node;
    struct world w = {.job = j, .plan = plan_new_file(path, &c, NULL)};
    if (!plan_ready(w.plan)) {
        bool fine =
            plan_status(w.plan) == RUN_BAD_SCHEDULE && only_requirements(plan_compilation(w.plan));
        if (!fine)
            print_error("%s at %d ranks: %s\n", path, (int)j.ranks, plan_error(w.plan));
        assert_true(fine);
        plan_free(w.plan);
        return false;
    }
    world_allocate(&w);
    world_run(&w);
    struct reference_report report = world_check(&w);
    if (report.wrong)
        print_error("%s at %d ranks, %d elements\n", path, (int)j.ranks, (int)j.count);
    assert_int_equal(report.wrong, 0);
    assert_true(report.checked > 0 || j.count == 0);
    world_free(&w);
    return true;
}

/* Whether a schedule has a codec parameter `wire` or, of the switch, `up`. */
static const char *lossy_define(const char *path) {
    static char text[1 << 16];
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = 0;
    fclose(in);
    return strstr(text, "codec wire =") ? "wire=quant(8)"
           : strstr(text, "codec up =") ? "up=quant(8)"
                                        : NULL;
}

static void run_all(bool lossy, enum dtype t, enum redop op, uint64_t count, uint32_t slices) {
    static const int32_t ranks[] = {1, 2, 3, 4, 5, 8, 16};
    struct shelf s = find_schedules();
    assert_true(s.count >= 20);
    for (size_t i = 0; i < s.count; i++) {
        unsigned ran = 0;
        for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++) {
            struct job j = {.ranks = ranks[r], .dtype = t, .redop = op, .count = count};
            j.slices = slices;
            j.kind = lossy ? INPUT_NORMAL : INPUT_EXTREMES;
            const char *define = lossy ? lossy_define(s.paths[i]) : NULL;
            assert_true(define || !lossy);
            ran += run_schedule(s.paths[i], define, j);
        }
        if (ran < 2)
            print_error("%s ran at %u numbers of ranks only\n", s.paths[i], ran);
        assert_true(ran >= 2);
        free(s.paths[i]);
    }
}

static void with_their_own_codecs(void **state) {
    (void)state;
    run_all(false, DTYPE_BF16, REDOP_SUM, 3001, 0);
}

static void averages_in_f32(void **state) {
    (void)state;
    run_all(false, DTYPE_F32, REDOP_AVG, 1013, 0);
}

static void quantised(void **state) {
    (void)state;
    run_all(true, DTYPE_F32, REDOP_SUM, 2999, 0);
}

static void sliced(void **state) {
    (void)state;
    run_all(false, DTYPE_BF16, REDOP_SUM, 20011, 4);
    run_all(true, DTYPE_F16, REDOP_AVG, 9973, 3);
}

static void one_element_and_none(void **state) {
    (void)state;
    run_all(false, DTYPE_F16, REDOP_MAX, 1, 0);
    run_all(false, DTYPE_F16, REDOP_MIN, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_their_own_codecs),
        cmocka_unit_test(averages_in_f32),
        cmocka_unit_test(quantised),
        cmocka_unit_test(sliced),
        cmocka_unit_test(one_element_and_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
