/*
 * fuzz_codec_pack.c: any bytes as a pack slot. The first bytes choose the type, the element count
 * and how much of the slot is put right, so that the decoder's later checks are reached as well:
 * the header, and then the offsets and sizes that follow from the group entries. The plain and the
 * vector decoder must come to the same verdict and the same elements.
 *
 *     byte 0     type (mod 3), bit 2: right header, bit 3: right offsets and sizes
 *     byte 1, 2  elements, 1,024 and up
 *     byte 3...  the slot
 */
#include "kernels/pack_steps.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint32_t word_at(const uint8_t *p) {
    uint32_t word;

    memcpy(&word, p, sizeof word);
    return word;
}

static void put_word(uint8_t *p, uint64_t word, size_t word_bytes) {
    memcpy(p, &word, word_bytes);
}

static void repair_header(enum dtype t, uint8_t *slot, uint64_t slot_bytes, uint64_t elems) {
    memset(slot, 0, 32);
    memcpy(slot, "SLP\1", 4);
    slot[4] = t == DTYPE_BF16 ? 1 : (t == DTYPE_F16 ? 2 : 3);
    put_word(slot + 8, elems, 8);
    put_word(slot + 16, slot_bytes, 8);
}

static uint64_t body_bytes(enum dtype t, uint32_t entry, uint64_t count) {
    uint32_t mode = entry >> 8 & 7;

    if (mode == 0)
        return 0;
    if (mode == 7)
        return (count * dtype_bytes(t) + 15) / 16 * 16;
    return 1024 + (mode - 1) * 128 + (t == DTYPE_F16 ? 384 : 0) + (entry >> 22 & 255) * 16;
}

/* Offsets of the tiles and the size in the header from the entries; false when the slot is too
 * short for them. */
static bool repair_directory(enum dtype t, uint8_t *slot, uint64_t slot_bytes, uint64_t elems) {
    uint64_t tiles = (elems + 8191) / 8192, groups = (elems + 1023) / 1024, at = 0;
    uint64_t payload_at = (32 + 4 * tiles + 4 * groups + 31) / 32 * 32;

    if (slot_bytes < payload_at)
        return false;
    for (uint64_t tile = 0; tile < tiles; tile++) {
        uint64_t sum = 0;

        put_word(slot + 32 + 4 * tile, at / 32, 4);
        for (uint64_t g = tile * 8; g < tile * 8 + 8 && g < groups; g++) {
            uint64_t count = elems - g * 1024 < 1024 ? elems - g * 1024 : 1024;
            uint32_t entry = word_at(slot + 32 + 4 * tiles + 4 * g);

            sum += body_bytes(t, entry, count) + (entry >> 11 & 2047);
        }
        at += (sum + 31) / 32 * 32;
    }
    put_word(slot + 16, payload_at + at, 8);
    return true;
}

static void decode_both(enum dtype t, const uint8_t *slot, uint64_t slot_bytes, uint64_t elems) {
    uint64_t bytes = elems * dtype_bytes(t);
    uint8_t *plain = calloc(bytes, 1), *vector = calloc(bytes, 1);
    const struct pack_steps *avx2 = pack_steps_avx2();
    const char *why, *other_why;
    enum codec_status status =
        pack_decode_with(&pack_steps_plain, t, slot, slot_bytes, elems, plain, &why);

    if ((status == CODEC_MALFORMED) != (why != NULL))
        abort();
    if (avx2 != NULL) {
        if (pack_decode_with(avx2, t, slot, slot_bytes, elems, vector, &other_why) != status)
            abort();
        if (memcmp(plain, vector, bytes) != 0)
            abort();
    }
    free(vector);
    free(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    enum dtype t;
    uint64_t elems, slot_bytes;
    uint8_t *slot;

    if (bytes < 3 + 32)
        return 0;
    t = data[0] % 3 == 0 ? DTYPE_BF16 : (data[0] % 3 == 1 ? DTYPE_F16 : DTYPE_F32);
    elems = 1024 + (((uint64_t)data[1] | (uint64_t)data[2] << 8) & 0x7fff);
    slot_bytes = bytes - 3;
    slot = malloc(slot_bytes);
    memcpy(slot, data + 3, slot_bytes);
    if ((data[0] & 4) != 0)
        repair_header(t, slot, slot_bytes, elems);
    if ((data[0] & 8) != 0)
        repair_directory(t, slot, slot_bytes, elems);
    decode_both(t, slot, slot_bytes, elems);
    free(slot);
    return 0;
}
