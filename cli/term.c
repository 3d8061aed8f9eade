/* What a terminal sees: colour, one line of progress, times for people. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_terminal(FILE *stream) {
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && !(term && strcmp(term, "dumb") == 0);
}

bool colour_on(const struct options *o, FILE *stream) {
    if (o->colour && strcmp(o->colour, "always") == 0) {
        return true;
    }
    const char *no_colour = getenv("NO_COLOR");
    if ((o->colour && strcmp(o->colour, "never") == 0) || (no_colour && *no_colour)) {
        return false;
    }
    return is_terminal(stream);
}

const char *style_on(bool colour, enum style s) {
    if (!colour) {
        return "";
    }
    switch (s) {
    case STYLE_BOLD:
        return "\033[1m";
    case STYLE_GOOD:
        return "\033[32m";
    case STYLE_BAD:
        return "\033[1;31m";
    case STYLE_DIM:
        return "\033[2m";
    }
    return "";
}

const char *style_off(bool colour) {
    return colour ? "\033[0m" : "";
}

void print_proved(const struct compilation *c, bool colour) {
    int width = 0;
    for (size_t i = 0; i < c->proved.count; i++) {
        int length = (int)strlen(c->proved.data[i].name);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < c->proved.count; i++) {
        const struct property *p = &c->proved.data[i];
        printf("  %sproved%s    %-*s  %s%s%s\n", style_on(colour, STYLE_GOOD), style_off(colour),
               width, p->name, style_on(colour, STYLE_DIM), p->detail ? p->detail : "",
               style_off(colour));
    }
}

char *format_seconds(char buf[NUMBER_TEXT_BYTES], double seconds) {
    static const char *const units[] = {"s", "ms", "us", "ns"};
    size_t unit = 0;
    while (seconds < 1 && unit < 3) {
        seconds *= 1000;
        unit++;
    }
    snprintf(buf, NUMBER_TEXT_BYTES, seconds >= 100 ? "%.0f %s" : "%.2f %s", seconds, units[unit]);
    return buf;
}

double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct progress progress_start(const struct options *o) {
    struct progress p = {.on = !o->quiet && is_terminal(stderr), .started = now_seconds()};
    p.last = p.started;
    return p;
}

void progress_show(struct progress *p, const char *what, uint64_t done, uint64_t of) {
    if (!p->on) {
        return;
    }
    double now = now_seconds();
    if (now - p->started < 1 || now - p->last < 0.1) {
        return;
    }
    char a[NUMBER_TEXT_BYTES], b[NUMBER_TEXT_BYTES], elapsed[NUMBER_TEXT_BYTES];
    fprintf(stderr, "\r\033[K%s %s of %s, %s", what, format_integer(a, done), format_integer(b, of),
            format_seconds(elapsed, now - p->started));
    fflush(stderr);
    p->last = now;
    p->shown = true;
}

void progress_end(struct progress *p) {
    if (p->shown) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
}
