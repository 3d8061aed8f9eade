/*
 * fuzz_codec_sparse.c: any bytes as a sparse slot. The first bytes choose the type, the element
 * count and how much of the slot is put right, so that the decoder's later checks are reached as
 * well. What is accepted is encoded again and comes back.
 *
 *     byte 0     type (mod 7), bit 6: right header, bit 7: right offsets and sizes
 *     byte 1, 2  elements, 1,024 and up          byte 3...  the slot
 */
#include "kernels/bounded.h"
#include "tests/fuzz/fuzz_codec.h"

static uint64_t body_bytes(uint64_t size, uint32_t entry, uint64_t count) {
    if (entry == 0)
        return 0;
    if (entry == 0x20000)
        return round_up(count * size, 16);
    return round_up(round_up(4 + 4 * (uint64_t)(entry >> 11), size) + (entry & 2047) * size, 16);
}

/* Offsets of the tiles from the entries, as far as the slot goes, and the size they lead to. */
static uint64_t repair_directory(enum dtype t, uint8_t *slot, uint64_t slot_bytes, uint64_t elems) {
    struct tile_layout l = tile_layout_of(elems);
    uint64_t at = 0;

    if (slot_bytes < l.payload_at)
        return slot_bytes;
    for (uint64_t tile = 0; tile < l.tiles; tile++) {
        uint32_t offset = (uint32_t)(at / 32);
        uint64_t sum = 0;

        memcpy(slot + 32 + 4 * tile, &offset, 4);
        for (uint64_t g = tile * 8; g < tile * 8 + 8 && g < l.groups; g++) {
            uint32_t entry;

            memcpy(&entry, slot + l.entries_at + 4 * g, 4);
            sum += body_bytes(dtype_bytes(t), entry, smaller(elems - g * 1024, 1024));
        }
        at += round_up(sum, 32);
    }
    return l.payload_at + at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct codec c;
    enum dtype t;
    uint64_t elems, slot_bytes;
    uint8_t *slot, *back;
    const char *why;
    enum codec_status status;

    if (bytes < 3 + 32 || !codec_parse("sparse", &c, NULL, 0))
        return 0;
    t = (enum dtype)((data[0] & 63) % DTYPE_COUNT);
    elems = 1024 + (((uint64_t)data[1] | (uint64_t)data[2] << 8) & 0x3fff);
    slot_bytes = bytes - 3;
    slot = malloc(slot_bytes);
    memcpy(slot, data + 3, slot_bytes);
    if ((data[0] & 64) != 0) {
        uint64_t encoded = slot_bytes;

        if ((data[0] & 128) != 0)
            encoded = repair_directory(t, slot, slot_bytes, elems);
        bounded_write_header(codec_sparse_ops.magic, t, elems, slot, false, encoded);
    }
    back = calloc(elems, dtype_bytes(t));
    status = codec_decode(&c, t, slot, slot_bytes, elems, back, NULL, &why);
    check((status == CODEC_MALFORMED) == (why != NULL));
    if (status == CODEC_OK)
        check_encodes_again(&c, t, back, elems);
    free(back);
    free(slot);
    return 0;
}
