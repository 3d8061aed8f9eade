/* A main for fuzz targets where libFuzzer is not: every seed of some folders, then mutations of it.
 *
 * The mutations come from a fixed generator, so a failure comes back with the same command:
 *
 *     fuzz_NAME SEEDS_FOLDER...
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_SEED_BYTES = 1 << 20, MAX_SEEDS = 4096, MUTATIONS = 20, FREE_SEEDS = 64 };

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Runs on a copy of just the right size, so that a sanitizer sees the first byte too far. */
static void run_once(const uint8_t *data, size_t bytes) {
    uint8_t *copy = malloc(bytes ? bytes : 1);
    if (!copy) {
        return;
    }
    if (bytes) {
        memcpy(copy, data, bytes);
    }
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

/* Flips, overwrites, cuts or repeats a part; returns the new length, at most capacity. */
static size_t mutate(uint8_t *data, size_t bytes, size_t capacity, uint64_t *random) {
    size_t rounds = 1 + (size_t)(next_random(random) % 4);
    for (size_t i = 0; i < rounds; i++) {
        uint64_t dice = next_random(random) % 5;
        size_t at = bytes ? (size_t)(next_random(random) % bytes) : 0;
        if (dice == 0 && bytes) {
            data[at] ^= (uint8_t)(1u << (next_random(random) % 8));
        } else if (dice == 1 && bytes) {
            data[at] = (uint8_t)next_random(random);
        } else if (dice == 2 && bytes) {
            bytes = at;
        } else if (dice == 3 && bytes < capacity) {
            memmove(data + at + 1, data + at, bytes - at);
            data[at] = (uint8_t)next_random(random);
            bytes++;
        } else if (dice == 4 && bytes) {
            size_t n = (size_t)(next_random(random) % 64);
            size_t from = (size_t)(next_random(random) % bytes);
            n = n > bytes - from ? bytes - from : n;
            n = n > bytes - at ? bytes - at : n;
            memmove(data + at, data + from, n);
        }
    }
    return bytes;
}

static void run_mutations(const uint8_t *seed, size_t bytes, uint64_t *random) {
    size_t capacity = bytes + 256;
    uint8_t *work = malloc(capacity);
    for (int i = 0; work && i < MUTATIONS; i++) {
        if (bytes) {
            memcpy(work, seed, bytes);
        }
        run_once(work, mutate(work, bytes, capacity, random));
    }
    free(work);
}

static bool run_file(const char *path, uint64_t *random) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        return false;
    }
    uint8_t *seed = malloc(MAX_SEED_BYTES);
    size_t bytes = seed ? fread(seed, 1, MAX_SEED_BYTES, file) : 0;
    fclose(file);
    if (seed) {
        run_once(seed, bytes);
        run_mutations(seed, bytes, random);
    }
    free(seed);
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t list_folder(const char *folder, char **names) {
    DIR *dir = opendir(folder);
    size_t count = 0;
    if (!dir) {
        return 0;
    }
    for (struct dirent *e = readdir(dir); e && count < MAX_SEEDS; e = readdir(dir)) {
        if (e->d_name[0] != '.') {
            names[count] = strdup(e->d_name);
            count += names[count] != NULL;
        }
    }
    closedir(dir);
    qsort(names, count, sizeof *names, by_name);
    return count;
}

/* Every file of a folder; false when one cannot be read. Folders within it are left out. */
static bool run_folder(const char *folder, uint64_t *random, size_t *files) {
    static char *names[MAX_SEEDS];
    size_t count = list_folder(folder, names);
    bool ok = true;
    for (size_t i = 0; i < count; i++) {
        char path[4096];
        struct stat status;
        int n = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        free(names[i]);
        if (n < 0 || (size_t)n >= sizeof path || stat(path, &status) != 0) {
            ok = false;
        } else if (S_ISREG(status.st_mode)) {
            ok = run_file(path, random) && ok;
            ++*files;
        }
    }
    return ok;
}

int main(int argc, char **argv) {
    uint64_t random = UINT64_C(0x9e3779b97f4a7c15);
    size_t files = 0;
    for (int i = 1; i < argc; i++) {
        if (!run_folder(argv[i], &random, &files)) {
            fprintf(stderr, "cannot read all of %s\n", argv[i]);
            return 1;
        }
    }
    for (size_t n = 0; n < FREE_SEEDS; n++) {
        uint8_t seed[FREE_SEEDS * 8];
        for (size_t i = 0; i < n * 8; i++) {
            seed[i] = (uint8_t)next_random(&random);
        }
        run_once(seed, n * 8);
    }
    printf("%zu seeds, %d mutations each, %d random inputs\n", files, MUTATIONS, FREE_SEEDS);
    return 0;
}
