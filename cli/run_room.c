/* Whether a run fits the memory there is: told at once, with what it needs and what would fit,
 * and not when half of it is filled. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The number behind a word at the start of a line, or at the start of the file when the word is
 * empty; infinity when there is none ("max"). */
static double read_number(const char *path, const char *word) {
    char line[256];
    double n = INFINITY;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, word, strlen(word)) == 0) {
            (void)!sscanf(line + strlen(word), "%lf", &n);
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return n;
}

/* What this process can still take: the machine, its container and its own limit. */
static double free_bytes(void) {
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    struct rlimit own;
    bytes = fmin(bytes, 1024 * read_number("/proc/meminfo", "MemAvailable:"));
    bytes = fmin(bytes, read_number("/sys/fs/cgroup/memory.max", ""));
    bytes = fmin(bytes, read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", ""));
    if (getrlimit(RLIMIT_AS, &own) == 0 && own.rlim_cur != RLIM_INFINITY) {
        bytes = fmin(bytes, (double)own.rlim_cur);
    }
    return bytes;
}

struct run_room run_room_new(const struct options *o) {
    return (struct run_room){.o = o,
                             .learns = o->learn != 0,
                             .limit = o->memory >= 0 ? (double)o->memory : free_bytes() * 7 / 8};
}

static const char *bytes_text(char buf[NUMBER_TEXT_BYTES], double bytes) {
    return bytes < 0x1p60 ? format_bytes(buf, (uint64_t)bytes) : "far too much";
}

/* "16M": the largest power of two of elements for which a run may take this part of its memory. */
static const char *count_text(char buf[NUMBER_TEXT_BYTES], uint64_t count, double part) {
    static const char suffix[] = {0, 'K', 'M', 'G', 'T'};
    int shift = (int)floor(log2((double)count * part));
    int unit = shift / 10 < 4 ? shift / 10 : 4;
    snprintf(buf, NUMBER_TEXT_BYTES, "%llu%.1s", 1ull << (shift - 10 * unit), &suffix[unit]);
    return buf;
}

static void refuse(const struct run_room *room, const struct flow *f, double data, double plans,
                   bool two) {
    char need[NUMBER_TEXT_BYTES], of_data[NUMBER_TEXT_BYTES], of_plans[NUMBER_TEXT_BYTES];
    char limit[NUMBER_TEXT_BYTES], count[NUMBER_TEXT_BYTES], ranks[NUMBER_TEXT_BYTES];
    double part = room->limit / (data + plans);
    complain(
        room->o, "the run needs %s of memory and may take %s: %s for the data of %s, %s for %s",
        bytes_text(need, data + plans), bytes_text(limit, room->limit), bytes_text(of_data, data),
        format_count(ranks, (uint64_t)f->setup.ranks, "rank"), bytes_text(of_plans, plans),
        two ? "messages and sums, twice while it learns the sizes of slots" : "messages and sums");
    if ((double)f->setup.count * part >= 1) {
        fprintf(stderr, "--count %s would fit", count_text(count, f->setup.count, part));
    } else {
        fprintf(stderr, "fewer ranks could fit");
    }
    fprintf(stderr, "%s; --memory sets what a run may take\n",
            two ? ", and --learn 0 takes less" : "");
}

bool run_room_may_take(void *ctx, const struct flow *f, uint64_t bytes) {
    struct run_room *room = ctx;
    bool first = room->plans == 0, two = false;
    for (size_t i = 0; i < f->codecs.count && first && room->learns; i++) {
        two |= codec_is_bounded(&f->codecs.data[i]);
    }
    double data = run_data_bytes(f), plans = room->plans + (two ? 2 : 1) * (double)bytes;
    if (data + plans > room->limit) {
        refuse(room, f, data, plans, two);
        room->refused = true;
        return false;
    }
    room->plans = (double)bytes;
    return true;
}
