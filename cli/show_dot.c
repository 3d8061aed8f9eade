/* The tasks as a graph for Graphviz: a box a rank, waits within a rank solid, messages dashed. */
#include "cli/cli.h"

/* The chunk or accumulator that a compute task is about: where its value goes, or else what it
 * reads first. Nothing for a task that makes pieces from pieces. */
static void print_subject(const struct tasks *t, const struct task *k, FILE *out) {
    struct operand subject = k->store;
    for (uint32_t i = 0; i < k->operands && subject.index == NONE; i++) {
        const struct operand *o = &t->operands.data[k->first_operand + i];
        if (o->kind != OPERAND_PIECE) {
            subject = *o;
        }
    }
    if (subject.index == NONE) {
        return;
    }
    if (subject.kind == OPERAND_ACC) {
        fprintf(out, "\\nacc%u", subject.index);
        return;
    }
    int32_t rank, chunk;
    const struct flow_buffer *b = flow_buffer_of(t->flow, subject.index, &rank, &chunk);
    fprintf(out, "\\n%s[%d]", b->name, chunk);
}

/* "decode, reduce, encode": the words of the task text. */
static void print_compute(const struct tasks *t, const struct task *k, FILE *out) {
    for (const char *c = task_op_name(task_op_of(t, k)); *c; c++) {
        fputs(*c == '_' ? ", " : (char[]){*c, 0}, out);
    }
    print_subject(t, k, out);
}

/* The two ends of a message say to or from whom, the codec and the size of its slots, and when. */
static void print_transfer(const struct tasks *t, const struct task *k, FILE *out) {
    const struct message *m = &t->messages.data[k->message];
    char codec[CODEC_TEXT_BYTES], bytes[NUMBER_TEXT_BYTES];
    bool sends = k->kind == TASK_SEND;
    fprintf(out, "%s %d\\n%s, %s\\nround %u", sends ? "send to" : "receive from",
            sends ? m->dst : m->src,
            codec_format(&t->flow->codecs.data[m->codec], codec, sizeof codec),
            format_bytes(bytes, m->bytes), k->round);
}

static void print_task(const struct tasks *t, uint32_t i, FILE *out) {
    const struct task *k = &t->tasks.data[i];
    bool computes = k->kind == TASK_COMPUTE;
    fprintf(out, "    t%u [label=\"", i);
    if (computes) {
        print_compute(t, k, out);
    } else {
        print_transfer(t, k, out);
    }
    if (t->slices > 1) {
        fprintf(out, "\\nslice %u", k->slice);
    }
    fprintf(out, "\"%s];\n", computes ? "" : ", style=filled, fillcolor=lightblue");
}

static bool waits_for(const struct tasks *t, const struct task *k, uint32_t other) {
    for (uint32_t d = 0; d < k->deps; d++) {
        if (t->deps.data[k->first_dep + d] == other) {
            return true;
        }
    }
    return false;
}

static void print_rank(const struct compilation *c, int32_t rank, FILE *out) {
    const struct tasks *t = c->tasks;
    const struct rank_tasks *r = &t->ranks.data[rank];
    fprintf(out, "  subgraph cluster_%d {\n    label=\"rank %d\"; style=rounded; color=gray;\n",
            rank, rank);
    for (uint32_t i = r->first; i < r->first + r->n; i++) {
        print_task(t, i, out);
    }
    fprintf(out, "  }\n");
    for (uint32_t i = r->first; i < r->first + r->n; i++) {
        const struct task *k = &t->tasks.data[i];
        for (uint32_t d = 0; d < k->deps; d++) {
            fprintf(out, "  t%u -> t%u;\n", t->deps.data[k->first_dep + d], i);
        }
    }
    /* Tasks of one lane follow one another, where that is not among the waits. */
    uint32_t last[256];
    for (size_t lane = 0; lane < 256; lane++) {
        last[lane] = NONE;
    }
    for (uint32_t i = r->first; i < r->first + r->n; i++) {
        uint8_t lane = t->tasks.data[i].lane;
        if (last[lane] != NONE && !waits_for(t, &t->tasks.data[i], last[lane])) {
            fprintf(out, "  t%u -> t%u [color=gray];\n", last[lane], i);
        }
        last[lane] = i;
    }
}

void show_dot(const struct compilation *c, FILE *out) {
    fprintf(out, "digraph \"%s\" {\n  node [shape=box, fontsize=10];\n", c->flow->name);
    for (int32_t rank = 0; rank < c->setup.ranks; rank++) {
        if (c->emit_rank < 0 || c->emit_rank == rank) {
            print_rank(c, rank, out);
        }
    }
    for (size_t i = 0; i < c->tasks->messages.count && c->emit_rank < 0; i++) {
        const struct message *m = &c->tasks->messages.data[i];
        fprintf(out, "  t%u -> t%u [style=dashed, color=blue];\n", m->send, m->recv);
    }
    fprintf(out, "}\n");
}
