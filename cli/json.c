/* JSON for machines: members in the order they are written, commas put where they belong. */
#include "cli/cli.h"

#include <math.h>

struct json json_start(FILE *out) {
    struct json j = {.out = out, .first = {true}};
    return j;
}

static void put_string(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c == '\n') {
            fputs("\\n", out);
        } else if (*c < 0x20) {
            fprintf(out, "\\u%04x", *c);
        } else {
            fputc(*c, out);
        }
    }
    fputc('"', out);
}

/* The comma, the indentation and the key in front of a value. */
static void lead(struct json *j, const char *key) {
    if (j->depth > 0) {
        fputs(j->first[j->depth] ? "\n" : ",\n", j->out);
        fprintf(j->out, "%*s", 2 * j->depth, "");
    }
    j->first[j->depth] = false;
    if (key) {
        put_string(j->out, key);
        fputs(": ", j->out);
    }
}

void json_open(struct json *j, const char *key, char bracket) {
    lead(j, key);
    fputc(bracket, j->out);
    j->first[++j->depth] = true;
}

void json_close(struct json *j, char bracket) {
    bool empty = j->first[j->depth--];
    if (!empty) {
        fprintf(j->out, "\n%*s", 2 * j->depth, "");
    }
    fputc(bracket, j->out);
    if (j->depth == 0) {
        fputc('\n', j->out);
    }
}

void json_text(struct json *j, const char *key, const char *value) {
    lead(j, key);
    if (value) {
        put_string(j->out, value);
    } else {
        fputs("null", j->out);
    }
}

void json_integer(struct json *j, const char *key, uint64_t value) {
    lead(j, key);
    fprintf(j->out, "%llu", (unsigned long long)value);
}

void json_number(struct json *j, const char *key, double value) {
    lead(j, key);
    if (isfinite(value)) {
        fprintf(j->out, "%.9g", value);
    } else {
        fputs("null", j->out);
    }
}

void json_bool(struct json *j, const char *key, bool value) {
    lead(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_diagnostics(struct json *j, const char *key, const struct diag *d) {
    lead(j, key);
    diag_print_json(d, j->out);
}
