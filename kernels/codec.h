/*
 * codec.h: the codecs, as values that the compiler passes around and as functions that run.
 *
 * A codec is a short chain of stages, `cast(bf16) | pack(0.72)`, each a row of codecs.def with its
 * parameters. A *piece* is what is encoded at once: a chunk, or a slice of one that starts at a
 * multiple of codec_slice_unit(). A *slot* is the fixed room a piece has on the wire; its size is
 * known before the data is (codec_slot_bytes, or less where a budget was learned), and all of it
 * travels. FORMAT.md says what the bytes in a slot mean.
 *
 * Nothing here allocates or touches a global, and what a codec remembers is the caller's memory:
 * every function may be called from any thread. src, dst, slot and scratch may have any alignment
 * unless said otherwise, and must not overlap one another. Elements and wire integers are
 * little-endian, as is the host.
 *
 *     struct codec c;
 *     struct codec_arg b = {.number = 0.72};
 *     codec_make("pack", &b, 1, &c, err, sizeof err);         // false: err says why
 *     codec_check(&c, DTYPE_BF16, err, sizeof err);
 *     uint64_t slot_bytes = codec_slot_bytes(&c, DTYPE_BF16, elems);
 *     uint64_t scratch_bytes = codec_scratch_bytes(&c, DTYPE_BF16, elems);
 *     codec_encode(&c, DTYPE_BF16, src, elems, slot, slot_bytes, &need_bytes, scratch);
 *     codec_decode(&c, DTYPE_BF16, slot, slot_bytes, elems, dst, scratch, &reason);
 */
#ifndef SLUICE_KERNELS_CODEC_H
#define SLUICE_KERNELS_CODEC_H

#include "kernels/dtype.h"

enum codec_kind {
#define CODEC(ID, ...) CODEC_##ID,
#include "kernels/codecs.def"
    CODEC_KIND_COUNT
};

enum codec_size_class {
    CODEC_SIZE_FIXED,  /* bytes on the wire follow from the element count */
    CODEC_SIZE_BOUNDED /* data may not fit the slot: the overflow mark */
};

/* A parameter that is optional and was not given. */
#define CODEC_UNSET (-1)
/* In codecs.def: a parameter that must be given. */
#define CODEC_REQUIRED (-2)

#define CODEC_MAX_STAGES 4
#define CODEC_MAX_PARAMS 3
/* A text longer than any that codec_format writes. */
#define CODEC_TEXT_BYTES 128
/* What the size functions return when the size does not exist: more elements than the format
 * can address (2^48, and 64 GiB of raw bytes for pack). */
#define CODEC_SIZE_ERROR UINT64_MAX
#define CODEC_MAX_ELEMS  (UINT64_C(1) << 48)

struct codec_stage {
    enum codec_kind kind;
    /* In the order of codecs.def: an integer, millionths of a fraction, an enum wire_type, or an
     * enum codec_rounding. Unused ones are 0. */
    int64_t params[CODEC_MAX_PARAMS];
};

/* A value: copy it freely, compare with codec_equal (there is padding). A zeroed one is not a
 * codec; codec_none() is the raw one. */
struct codec {
    int32_t stage_count;
    struct codec_stage stages[CODEC_MAX_STAGES];
};

/* An argument as the source text had it: a number, or (name != NULL) a name. */
struct codec_arg {
    const char *name;
    double number;
};

/* ---- making codecs (codec.c) ---- */

struct codec codec_none(void);

/* Builds a codec of one stage. False, with a message in err (lower case, no full stop), when the
 * name is unknown, an argument is missing, surplus, of the wrong kind or out of range. */
bool codec_make(const char *name, const struct codec_arg *args, size_t arg_count, struct codec *out,
                char *err, size_t err_bytes);

/* a then b, as in `a | b`; `none` on either side vanishes. False with the reason when the two do
 * not go together. out may be a or b. */
bool codec_compose(const struct codec *a, const struct codec *b, struct codec *out, char *err,
                   size_t err_bytes);

/* Reads what codec_format writes ("cast(bf16) | pack(0.72)"), white space free; for command
 * lines and IR text. */
bool codec_parse(const char *text, struct codec *out, char *err, size_t err_bytes);

/* The known name nearest to an unknown one, or NULL when none is near. Static storage. */
const char *codec_nearest(const char *name);

/* Whether the codec takes elements of this type. A cast to the type itself is taken: it does
 * nothing and is lossless (so that one schedule text serves every type). */
bool codec_check(const struct codec *c, enum dtype t, char *err, size_t err_bytes);

/* Writes the canonical text, at most CODEC_TEXT_BYTES with the final 0, and returns buf.
 * Last parameters that have their default value are left out; equal codecs have equal texts. */
char *codec_format(const struct codec *c, char *buf, size_t buf_bytes);

bool codec_equal(const struct codec *a, const struct codec *b);
/* A hash of the value, the same in every run and on every machine. */
uint64_t codec_hash(const struct codec *c);

/* ---- asking about codecs (codec.c) ---- */

bool codec_is_none(const struct codec *c);
/* Decoding gives back every bit of data of this type. */
bool codec_is_lossless(const struct codec *c, enum dtype t);
/* The encoding may not fit its slot: some stage is of size class bounded. */
bool codec_is_bounded(const struct codec *c);
/* Encodings depend on earlier calls or on a seed. */
bool codec_is_stateful(const struct codec *c);
/* The same values by way of fixed sizes only: bounded stages are left out (none if nothing is
 * left). What the repair of an overflowed run uses. */
struct codec codec_without_bounded(const struct codec *c);
/* The same codec with the budget of its bounded stage set (millionths), for tuning. */
struct codec codec_with_budget(const struct codec *c, int64_t millionths);
/* Elements: a piece must start at a multiple of this, counted from the start of its chunk, for
 * slices to encode to the same values as the whole. 0: the codec looks at whole chunks, which
 * cannot be sliced. */
uint64_t codec_slice_unit(const struct codec *c, enum dtype t);

/* The largest |decoded - v| for one element with |v| <= abs_value in a block (codec_slice_unit
 * elements) whose largest magnitude is at most block_max. Sound: rounding of the type t, denormals
 * and range included; infinite when there is no bound. abs_value <= block_max must hold. */
double codec_error_bound(const struct codec *c, enum dtype t, double abs_value, double block_max);

/* A row of codecs.def, for help texts and documentation. */
enum codec_param_kind {
    CODEC_PARAM_INT,
    CODEC_PARAM_FRACTION, /* low, high, step, fallback in millionths */
    CODEC_PARAM_TYPE,
    CODEC_PARAM_ROUNDING /* "nearest" or "stochastic" */
};
enum codec_rounding { CODEC_ROUND_NEAREST, CODEC_ROUND_STOCHASTIC };
struct codec_param_info {
    const char *name;
    enum codec_param_kind kind;
    int64_t low, high, step, fallback;
    const char *help;
};
/* What a stage leaves to the next. */
enum codec_leaves {
    CODEC_LEAVES_BYTES,   /* nothing that a stage could take */
    CODEC_LEAVES_NUMBERS, /* elements that are numbers */
    CODEC_LEAVES_BITS,    /* elements as strings of bits, which do not mean numbers */
    CODEC_LEAVES_PICKS    /* fewer elements, at places of their own */
};
struct codec_info {
    const char *name;
    uint32_t types; /* bit 1 << t: the stage takes type t */
    enum codec_size_class size_class;
    bool lossless;
    bool stateful; /* may be, see codec_is_stateful */
    enum codec_leaves leaves;
    uint32_t follows; /* bit 1 << enum codec_leaves: may follow a stage that leaves this */
    const char *error, *help;
    size_t param_count;
    struct codec_param_info params[CODEC_MAX_PARAMS];
};
const struct codec_info *codec_info(enum codec_kind kind);

/* ---- sizes, all in bytes of one piece (codec.c) ---- */

/* Default slot. Fixed codecs: exact. Plain `pack`: the worst case, so it never overflows.
 * `pack(b)`: the header and b x raw, or the worst case if that is less. Pieces too small to gain
 * go raw and need just their raw bytes. 0 elements: 0 bytes. */
uint64_t codec_slot_bytes(const struct codec *c, enum dtype t, uint64_t elems);
/* A slot in which no data overflows. */
uint64_t codec_worst_bytes(const struct codec *c, enum dtype t, uint64_t elems);
/* The least slot in which an overflow can still be marked; a smaller one must not be used.
 * Fixed codecs and pieces that go raw: the exact size. */
uint64_t codec_least_bytes(const struct codec *c, enum dtype t, uint64_t elems);
/* Whether this piece has a header, hence can overflow and carry the mark. A function of what
 * both ends know before the data. */
bool codec_has_header(const struct codec *c, enum dtype t, uint64_t elems);
/* Scratch that encode and decode of such a piece need, 0 for most; 64-byte alignment helps. */
uint64_t codec_scratch_bytes(const struct codec *c, enum dtype t, uint64_t elems);

/* ---- what codecs remember (codec.c) ----
 *
 * Some remember something of a piece from one call to the next, at the end that encodes, at the end
 * that decodes, or both: the data before (delta), what was not sent (topk), how often was rounded
 * (stochastic quant). A call reads all of that as it is now and writes all of it as it is next.
 * Whoever keeps it makes `next` the state when the call counts, and forgets it when it does not.
 */
enum codec_side { CODEC_ENCODER, CODEC_DECODER };

struct codec_state {
    const void *now;     /* NULL: what codec_state_init makes of seed 0 */
    void *next;          /* not now; NULL: not wanted */
    uint64_t first_elem; /* of the piece, from the start of its chunk */
};

/* 0 for codecs that remember nothing at this end, and for pieces of 0 elements. */
uint64_t codec_state_bytes(const struct codec *c, enum dtype t, uint64_t elems,
                           enum codec_side side);
/* The state before the first call. Slices of a chunk get the same seed. */
void codec_state_init(const struct codec *c, enum dtype t, uint64_t elems, enum codec_side side,
                      uint64_t seed, void *state);

/* ---- running codecs (codec.c, and one file a codec) ---- */

enum codec_status {
    CODEC_OK,
    CODEC_OVERFLOW, /* encode: did not fit, the slot is marked; decode: the mark was seen */
    CODEC_MALFORMED /* decode: the slot is not an encoding of elems elements of this type */
};

/* Encodes elems elements into the slot, whose size must be at least codec_least_bytes.
 * need_bytes (may be NULL) is the size of the slot that would just have been enough, fit or not.
 * Bytes of the slot behind the encoding are unspecified; nothing is written past slot_bytes. On
 * CODEC_OVERFLOW the header carries the mark and the rest of the slot is unspecified. */
enum codec_status codec_encode(const struct codec *c, enum dtype t, const void *src, uint64_t elems,
                               void *slot, uint64_t slot_bytes, uint64_t *need_bytes,
                               void *scratch);

/* Marks a slot as overflowed without encoding anything: the input of this piece was itself lost.
 * need_bytes is recorded in the header (0: not known). False, nothing written, when the piece
 * has no header; the caller's status word then is the only witness. */
bool codec_mark_overflow(const struct codec *c, enum dtype t, uint64_t elems, void *slot,
                         uint64_t slot_bytes, uint64_t need_bytes);

/* Decodes a slot into dst. CODEC_OVERFLOW: the mark was seen, dst is untouched.
 * CODEC_MALFORMED: *reason (may be NULL) is a static text, dst may be partly written. For any
 * bytes whatever, nothing outside slot is read and nothing outside dst and scratch written. */
enum codec_status codec_decode(const struct codec *c, enum dtype t, const void *slot,
                               uint64_t slot_bytes, uint64_t elems, void *dst, void *scratch,
                               const char **reason);

/* The same for codecs with state, which the two above take as just begun. After a failure the next
 * state means nothing. */
enum codec_status codec_encode_next(const struct codec *c, enum dtype t, const void *src,
                                    uint64_t elems, void *slot, uint64_t slot_bytes,
                                    uint64_t *need_bytes, void *scratch,
                                    const struct codec_state *state);
enum codec_status codec_decode_next(const struct codec *c, enum dtype t, const void *slot,
                                    uint64_t slot_bytes, uint64_t elems, void *dst, void *scratch,
                                    const char **reason, const struct codec_state *state);

/* Bytes the encoding in this slot takes or, marked, would have taken: from its header, or the
 * exact size of a piece without one. False when the slot is too short or not an encoding. */
bool codec_encoded_bytes(const struct codec *c, enum dtype t, uint64_t elems, const void *slot,
                         uint64_t slot_bytes, uint64_t *bytes, bool *overflowed);

#endif
