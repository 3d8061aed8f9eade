/* JSON for machines: members in the order they are written, commas put where they belong. */
#include "cli/cli.h"

#include <math.h>

struct json json_start(FILE *out) {
    struct json j = {.out = out, .first = {true}};
    return j;
}

/* Bytes of the UTF-8 character at `c`, a string's; 0 where there is none. */
static size_t character(const unsigned char *c) {
    size_t n = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool surrogate = c[0] == 0xed && c[1] >= 0xa0;
    bool beyond = c[0] > 0xf4 || (c[0] == 0xf4 && c[1] >= 0x90);
    return overlong || surrogate || beyond ? 0 : n;
}

/* File names can hold any bytes, JSON cannot: what is not UTF-8 becomes U+FFFD. */
static void put_string(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        size_t n = character(c);
        if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c == '\n') {
            fputs("\\n", out);
        } else if (*c < 0x20) {
            fprintf(out, "\\u%04x", *c);
        } else if (n == 0) {
            fputs("\\ufffd", out);
        } else {
            fwrite(c, 1, n, out);
        }
        c += n > 0 ? n : 1;
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

void json_proved(struct json *j, const char *key, const struct compilation *c) {
    json_open(j, key, '[');
    for (size_t i = 0; i < c->proved.count; i++) {
        json_open(j, NULL, '{');
        json_text(j, "property", c->proved.data[i].name);
        json_text(j, "detail", c->proved.data[i].detail);
        json_close(j, '}');
    }
    json_close(j, ']');
}

void json_diagnostics(struct json *j, const char *key, const struct diag *d) {
    lead(j, key);
    diag_print_json(d, 2 * j->depth, j->out);
}
