/* UTF-8: decoding, and how many terminal columns a character takes. Independent of the locale,
 * so that messages are the same bytes everywhere. */
#include "dsl/parser.h"

size_t utf8_decode(const char *text, size_t bytes, uint32_t *code) {
    const unsigned char *s = (const unsigned char *)text;
    if (bytes == 0)
        return 0;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || length > bytes)
        return 0;
    uint32_t c = s[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3Fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[length] || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF)
        return 0;
    *code = c;
    return length;
}

struct code_range {
    uint32_t first, last;
};

static bool in_ranges(uint32_t code, const struct code_range *ranges, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

unsigned utf8_columns(uint32_t code) {
    static const struct code_range combining[] = {
        {0x0300, 0x036F}, {0x0483, 0x0489},   {0x0591, 0x05BD}, {0x064B, 0x065F}, {0x093C, 0x093C},
        {0x0E31, 0x0E31}, {0x0E34, 0x0E3A},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F},
        {0x202A, 0x202E}, {0x2060, 0x2064},   {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
        {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF},
    };
    static const struct code_range wide[] = {
        {0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},
        {0x2614, 0x2615},   {0x26A1, 0x26A1},   {0x2705, 0x2705},   {0x274C, 0x274C},
        {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},
        {0xA000, 0xA4CF},   {0xA960, 0xA97C},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
        {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
        {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD},
    };
    if (code < 0x300)
        return 1;
    if (in_ranges(code, combining, sizeof combining / sizeof *combining))
        return 0;
    return in_ranges(code, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}

bool utf8_is_control(uint32_t code) {
    /* C0, C1, and the marks that change the direction of text */
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}
