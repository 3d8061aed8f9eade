/* The values of tokens, and the messages on text that is no token. */
#include "dsl/parser.h"

#include <string.h>

enum {
    LONGEST_NAME = 128,
    DECIMAL_DIGITS = 15, /* that count; more would not survive the way through a double and back */
};

void scan_complain(struct parser *p, struct span at, const char *message) {
    diag_report(p->diag, SEV_ERROR, at, "%s", message);
    p->complained = at.begin;
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 0x20) - 'a' + 10;
}

int64_t scan_integer(struct parser *p, struct span at, const char *text, size_t bytes) {
    bool hexadecimal = bytes > 2 && (text[1] | 0x20) == 'x';
    if (!hexadecimal && bytes > 1 && text[0] == '0') {
        scan_complain(p, at, "an integer has no leading zero");
        return 0;
    }
    int64_t base = hexadecimal ? 16 : 10, value = 0;
    for (size_t i = hexadecimal ? 2 : 0; i < bytes; i++) {
        int digit = digit_value(text[i]);
        if (value > (INT64_MAX - digit) / base) {
            scan_complain(p, at,
                          "integer does not fit in 64 bits; the largest is 9223372036854775807");
            return 0;
        }
        value = value * base + digit;
    }
    return value;
}

/* Independent of the locale, and exact: both numbers of the quotient are doubles. */
double scan_decimal(struct parser *p, struct span at, const char *text, size_t bytes) {
    double digits = 0, scale = 1;
    int count = 0, places = 0;
    bool fraction = false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '.') {
            fraction = true;
            continue;
        }
        count += count > 0 || text[i] != '0';
        places += fraction;
        if (count > DECIMAL_DIGITS || places > DECIMAL_DIGITS) {
            scan_complain(p, at, "a decimal has at most 15 digits");
            return 0;
        }
        digits = digits * 10 + (text[i] - '0');
        if (fraction)
            scale *= 10;
    }
    return digits / scale;
}

const char *scan_name(struct parser *p, struct span at, const char *text, size_t bytes) {
    if (bytes > LONGEST_NAME) {
        scan_complain(p, at, "name is longer than 128 characters");
        bytes = LONGEST_NAME;
    }
    return arena_strndup(p->arena, text, bytes);
}

const char *scan_string(struct parser *p, struct span at, const char *text, size_t bytes) {
    char *value = arena_alloc(p->arena, bytes + 1);
    size_t n = 0, i = 1;
    while (i < bytes && text[i] != '"') {
        char c = text[i++];
        if (c == '\\') {
            c = i < bytes ? text[i] : '\0';
            if (c != '"' && c != '\\') {
                src_pos escape = at.begin + (src_pos)i - 1;
                scan_complain(p, (struct span){escape, escape + 2 < at.end ? escape + 2 : at.end},
                              "unknown escape in string; there are \\\" and \\\\");
                continue;
            }
            i++;
        }
        value[n++] = c;
    }
    value[n] = '\0';
    if (i >= bytes)
        scan_complain(p, at, "string is not terminated on its line");
    return value;
}

/* What people paste, and what they mean. */
static const char *meant_by(uint32_t code) {
    switch (code) {
    case 0x2192:
    case 0x21D2:
        return "->";
    case 0x2264:
        return "<=";
    case 0x2265:
        return ">=";
    case 0x2260:
        return "!=";
    case 0x00D7:
    case 0x22C5:
        return "*";
    case 0x2212:
    case 0x2013:
    case 0x2014:
        return "-";
    case 0x2026:
        return "..";
    case 0x201C:
    case 0x201D:
        return "\"";
    case 0x00A0:
    case 0x3000:
    case 0xFEFF:
        return " ";
    }
    return NULL;
}

void scan_stray(struct parser *p, struct span at, const char *text, size_t bytes) {
    uint32_t code = 0xFFFD;
    utf8_decode(text, bytes, &code);
    if (code == 0xFEFF && at.begin == p->base)
        return; /* a byte order mark */
    if (p->stray_end == at.begin) {
        p->stray_end = at.end; /* one message for a run of them */
        return;
    }
    p->stray_end = at.end;
    const char *meant = meant_by(code);
    const char *c = arena_strndup(p->arena, text, bytes);
    if (meant && meant[0] == ' ')
        scan_complain(p, at, arena_printf(p->arena, "U+%04X is not a plain space", code));
    else if (meant)
        scan_complain(p, at,
                      arena_printf(p->arena, "stray '%s' (U+%04X); write '%s'", c, code, meant));
    else if (code < 0x20 || code == 0x7F)
        scan_complain(p, at, arena_printf(p->arena, "stray control character \\x%02X", code));
    else if (code < 0x80)
        scan_complain(p, at, arena_printf(p->arena, "stray character '%s'", c));
    else
        scan_complain(p, at, arena_printf(p->arena, "stray character '%s' (U+%04X)", c, code));
}
