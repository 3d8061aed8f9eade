/*
 * fuzz_codec_lz.c: any bytes as an lz slot, or behind a right header and directory as one block, so
 * that the decoder of blocks is reached. What it accepts is encoded again and comes back.
 *
 *     byte 0     bit 0: the slot is made right around the bytes as one block
 *     byte 1, 2  elements of u8, 1,024 and up          byte 3...  the slot, or the block
 */
#include "kernels/bounded.h"
#include "tests/fuzz/fuzz_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct codec c;
    uint64_t elems, slot_bytes;
    uint8_t *slot, *back;
    const char *why;
    enum codec_status status;

    if (bytes < 4 || !codec_parse("lz", &c, NULL, 0))
        return 0;
    elems = 1024 + (((uint64_t)data[1] | (uint64_t)data[2] << 8) & 0x7fff);
    if ((data[0] & 1) != 0) {
        uint64_t entry = (uint64_t)(bytes - 3) << 32;

        slot_bytes = 64 + round_up(bytes - 3, 32);
        slot = calloc(slot_bytes, 1);
        bounded_write_header(codec_lz_ops.magic, DTYPE_U8, elems, slot, false, slot_bytes);
        memcpy(slot + 32, &entry, 8);
        memcpy(slot + 64, data + 3, bytes - 3);
    } else {
        slot_bytes = bytes - 3;
        slot = malloc(slot_bytes);
        memcpy(slot, data + 3, slot_bytes);
    }
    back = calloc(elems, 1);
    status = codec_decode(&c, DTYPE_U8, slot, slot_bytes, elems, back, NULL, &why);
    check((status == CODEC_MALFORMED) == (why != NULL));
    if (status == CODEC_OK)
        check_encodes_again(&c, DTYPE_U8, back, elems);
    free(back);
    free(slot);
    return 0;
}
