/* The tasks as a graph for Graphviz: a box a rank, waits within a rank solid, messages dashed. */
#include "cli/cli.h"

/* What a task does, in a word or two. */
static const char *task_label(const struct task *k) {
    switch (k->kind) {
    case TASK_SEND:
        return "send";
    case TASK_RECV:
        return "recv";
    case TASK_COMPUTE:
        if (k->operands > 1) {
            return k->outs ? "reduce, encode" : "reduce";
        }
        return k->outs ? "encode" : "move";
    }
    return "";
}

static void print_rank(const struct compilation *c, int32_t rank, FILE *out) {
    const struct tasks *t = c->tasks;
    const struct rank_tasks *r = &t->ranks.data[rank];
    fprintf(out, "  subgraph cluster_%d {\n    label=\"rank %d\"; style=rounded; color=gray;\n",
            rank, rank);
    for (uint32_t i = r->first; i < r->first + r->n; i++) {
        const struct task *k = &t->tasks.data[i];
        fprintf(out, "    t%u [label=\"%s", i, task_label(k));
        if (k->kind != TASK_COMPUTE) {
            const struct message *m = &t->messages.data[k->message];
            fprintf(out, " %s %d\\nround %u", k->kind == TASK_SEND ? "to" : "from",
                    k->kind == TASK_SEND ? m->dst : m->src, k->round);
        } else if (k->store.index != NONE && k->store.kind == OPERAND_CHUNK) {
            fprintf(out, "\\n%s", flow_loc_name(c->arena, c->flow, k->store.index));
        }
        fprintf(out, "\"%s];\n",
                k->kind == TASK_COMPUTE ? "" : ", style=filled, fillcolor=lightblue");
    }
    fprintf(out, "  }\n");
    for (uint32_t i = r->first; i < r->first + r->n; i++) {
        const struct task *k = &t->tasks.data[i];
        for (uint32_t d = 0; d < k->deps; d++) {
            fprintf(out, "  t%u -> t%u;\n", t->deps.data[k->first_dep + d], i);
        }
    }
    /* Tasks of one lane follow one another: an edge that is not among the waits. */
    uint32_t last[256];
    for (size_t lane = 0; lane < 256; lane++) {
        last[lane] = NONE;
    }
    for (uint32_t i = r->first; i < r->first + r->n; i++) {
        uint8_t lane = t->tasks.data[i].lane;
        if (last[lane] != NONE) {
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
