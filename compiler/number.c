/* Numbers as people read them, in what is proved and in what the command prints. */
#include "compiler/ir.h"

#include <string.h>

char *format_integer(char buf[NUMBER_TEXT_BYTES], uint64_t n) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    char *out = buf;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
    return buf;
}

char *format_count(char buf[NUMBER_TEXT_BYTES], uint64_t n, const char *noun) {
    size_t length = strlen(format_integer(buf, n));
    snprintf(buf + length, NUMBER_TEXT_BYTES - length, " %s%s", noun, n == 1 ? "" : "s");
    return buf;
}

char *format_bytes(char buf[NUMBER_TEXT_BYTES], uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double n = (double)bytes;
    size_t unit = 0;
    while (n >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        n /= 1024;
        unit++;
    }
    snprintf(buf, NUMBER_TEXT_BYTES, unit == 0 || n >= 100 ? "%.0f %s" : "%.1f %s", n, units[unit]);
    return buf;
}
