/*
 * test_cuda_schedules.c: every shipped schedule on one GPU, at many numbers of ranks, bit for bit
 * what the CPU executor makes of it: raw, packed, packed into slots that overflow, cast; types,
 * operators, counts that do not divide, slices, in place and not, eagerly and as a graph.
 */
#include "tests/gpu/cuda_test.h"

#include <dirent.h>

#define MOST 64

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t find_schedules(char **paths) {
    size_t count = 0;
    DIR *dir = opendir("schedules");
    if (!dir)
        return 0;
    for (const struct dirent *d; (d = readdir(dir)) != NULL && count < MOST;) {
        size_t length = strlen(d->d_name);
        if (length < 5 || strcmp(d->d_name + length - 4, ".slc") != 0)
            continue;
        paths[count] = malloc(length + 20);
        snprintf(paths[count++], length + 20, "schedules/%s", d->d_name);
    }
    closedir(dir);
    qsort(paths, count, sizeof paths[0], by_name);
    return count;
}

/* The codec for the slow links, whatever the schedule calls them. */
static void set_codec(struct setting *s, const char *codec) {
    static char first[80], second[80];
    bool is_switch = strstr(s->path, "switch") != NULL;
    snprintf(first, sizeof first, "%s=%s", is_switch ? "up" : "wire", codec);
    snprintf(second, sizeof second, "down=%s", codec);
    s->defines[0] = first;
    s->defines[1] = is_switch ? second : NULL;
}

/* False: not for so many ranks. */
static bool run_setting(struct cuda_test *t, const struct setting *s, uint64_t seed) {
    struct world w;
    if (!world_graph(t, &w, s))
        return false;
    check(t, sluice_graph_nodes(w.graph) > 0 || s->count == 0, "%s: no nodes", world_name(&w));
    world_run(t, &w, DATA_FITS, seed, false);
    world_run(t, &w, DATA_MIXED, seed, true);
    world_run(t, &w, DATA_ONE, seed + 1, false);
    world_close(&w);
    return true;
}

static void run_schedule(struct cuda_test *t, const char *path, int ranks, uint64_t number) {
    static const char *const codecs[] = {"none", "pack", "pack(0.75)", "pack(0.3)"};
    static const char *const others[] = {"quant(8)",   "cast(e4m3)", "quant(4, 32)",
                                         "cast(bf16)", "lz(0.75)",   "cast(bf16) | pack(0.7)",
                                         "quant(6)",   "sparse"};
    static const sluice_dtype types[] = {SLUICE_BF16, SLUICE_F16, SLUICE_F32, SLUICE_I32,
                                         SLUICE_F64,  SLUICE_U8,  SLUICE_I64};
    static const uint64_t counts[] = {100003, 1, 0, 40961, 777};
    for (size_t c = 0; c < 5; c++) {
        uint64_t n = number * 5 + c; /* what varies with it */
        struct setting s = setting_of(path, ranks, counts[c == 0 ? n % 5 : n % 4 == 3 ? 3 : 0]);
        set_codec(&s, c < 4 ? codecs[c] : others[number % 8]);
        s.ranks_per_node = ranks % 4 == 0 ? 4 : ranks % 2 == 0 ? 2 : 1;
        s.dtype = types[c == 0 ? number % 7 : n % 3]; /* some take `none` only */
        s.op = (sluice_op)(n / 3 % 4);
        s.slices = n % 2 ? 3 : 0;
        s.in_place = n / 2 % 2;
        if (!run_setting(t, &s, n))
            return;
    }
}

/* More operands than one kernel takes: the sum goes on in an accumulator. */
static void run_many_operands(struct cuda_test *t) {
    static const sluice_dtype types[] = {SLUICE_BF16, SLUICE_F32, SLUICE_F16};
    for (uint64_t i = 0; i < 3; i++) {
        struct setting s = setting_of("schedules/allreduce_twoshot.slc", 20, 60000);
        set_codec(&s, i == 2 ? "none" : "pack(0.75)");
        s.dtype = types[i];
        s.op = (sluice_op)i;
        check(t, run_setting(t, &s, i), "20 ranks did not run");
    }
}

void test_schedules(struct cuda_test *t) {
    static const int ranks[] = {1, 2, 3, 4, 5, 8, 16};
    char *paths[MOST];
    size_t count = find_schedules(paths);
    uint64_t number = 0;
    check(t, count >= 20, "schedules/ has %zu schedules", count);
    run_many_operands(t);
    for (size_t i = 0; i < count; i++) {
        for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++)
            if (!t->small || ranks[r] == 3 || ranks[r] == 4)
                run_schedule(t, paths[i], ranks[r], number++);
        free(paths[i]);
    }
}
