/* The pass from tree to flow: resolves the schedule's names once, then runs it for N ranks,
 * statement by statement, in program order. What it leaves: operations with checked chunks, decided
 * codecs and numbered messages.
 */
#include "compiler/eval.h"

static void run_block(struct eval *e, struct action *a);

/* ---- statements --------------------------------------------------------------------------- */

static void run_step(struct eval *e, struct action *a) {
    if (e->in_step) {
        eval_fail(e, a->span, "a step within a step");
        return;
    }
    emit_step_begin(e);
    run_block(e, a->body);
    emit_step_end(e);
}

static void run_stage(struct eval *e, struct action *a) {
    uint16_t stage = e->stage;
    uint32_t via = e->stage_via;
    if (a->stage.via)
        e->stage_via = eval_codec(e, a->stage.via);
    if (!e->failed)
        emit_stage(e, a);
    if (!e->failed)
        run_block(e, a->stage.body);
    e->stage = stage;
    e->stage_via = via;
}

static void run_call(struct eval *e, struct action *a) {
    struct routine *callee = a->call.routine;
    union datum *frame = e->frame;
    uint32_t via = e->call_via;
    for (uint32_t i = 0; i < a->call.arg_count; i++)
        a->call.args[i].held = eval_any(e, a->call.args[i].value);
    uint32_t new_via = a->call.via ? eval_codec(e, a->call.via) : via;
    if (e->failed || !unroll_enter(e, a->span))
        return;
    for (uint32_t i = 0; i < a->call.arg_count; i++)
        callee->frame[a->call.args[i].slot] = a->call.args[i].held;
    e->notes[e->note_count++] = (struct frame_note){
        .name = callee->name, .at = a->call.name_span, .is_call = true, .context = NONE};
    e->frame = callee->frame;
    e->call_via = new_via;
    run_block(e, callee->body);
    e->call_via = via;
    e->frame = frame;
    e->note_count--;
    unroll_leave(e);
}

static void run_let(struct eval *e, const struct action *a) {
    union datum value = eval_any(e, a->let.value);
    if (!e->failed)
        (a->let.global ? e->global : e->frame)[a->let.slot] = value;
}

static void run_for_body(struct eval *e, void *ctx) {
    struct action *a = ctx;
    run_block(e, a->for_.body);
}

static void run_for(struct eval *e, struct action *a) {
    if (unroll_allowed(e, a))
        unroll_loop(e, a, &a->for_.loop, run_for_body, a);
}

/* What follows a failed requirement would only report its consequences. */
static void run_require(struct eval *e, const struct action *a) {
    int64_t holds = eval_int(e, a->require.cond);
    if (e->failed || holds)
        return;
    eval_fail(e, a->require.cond->span, "%s", a->require.message);
    const char *text = NULL;
    e->failed = false;
    for (uint32_t i = 0; i < a->require.watched; i++)
        text = arena_printf(e->arena, "%s%s%s = %lld", text ? text : "", text ? ", " : "here ",
                            a->require.watch[i].name,
                            (long long)eval_int(e, a->require.watch[i].value));
    if (text)
        eval_note(e, a->require.cond->span, "%s", text);
    e->stop = true;
}

static void run_slices(struct eval *e, const struct action *a) {
    int64_t slices = eval_int(e, a->slices);
    if (!e->failed && (slices < 1 || slices > SETUP_MAX_SLICES))
        eval_fail(e, a->slices->span, "between 1 and %d slices, found %lld", SETUP_MAX_SLICES,
                  (long long)slices);
    e->flow->slices = (uint32_t)slices;
}

static void run_if(struct eval *e, const struct action *a) {
    int64_t holds = eval_int(e, a->if_.cond);
    if (!e->failed)
        run_block(e, holds ? a->if_.yes : a->if_.no);
}

static void run_action(struct eval *e, struct action *a) {
    switch (a->kind) {
    case STMT_BUFFER:
        emit_buffer(e, a);
        return;
    case STMT_COPY:
    case STMT_REDUCE:
        emit_move(e, a);
        return;
    case STMT_STEP:
        run_step(e, a);
        return;
    case STMT_STAGE:
        run_stage(e, a);
        return;
    case STMT_CALL:
        run_call(e, a);
        return;
    case STMT_LET:
        run_let(e, a);
        return;
    case STMT_LET_FUNCTION:
        return; /* resolved away */
    case STMT_IF:
        run_if(e, a);
        return;
    case STMT_FOR:
        run_for(e, a);
        return;
    case STMT_REQUIRE:
        run_require(e, a);
        return;
    case STMT_COLLECTIVE:
        promise_collective(e, a);
        return;
    case STMT_ENSURE_VALUE:
    case STMT_ENSURE_IDENTICAL:
        promise_ensure(e, a);
        return;
    case STMT_SLICES:
        run_slices(e, a);
        return;
    }
}

/* A declaration that failed ends its block: what follows may use the name. Other statements fail
 * alone. */
static bool run_list(struct eval *e, struct action *a) {
    for (; a && !e->stop; a = a->next) {
        e->statement = a;
        e->failed = false;
        e->fresh = false;
        if (!unroll_charge(e, a->span, a->weight))
            return false;
        run_action(e, a);
        if (e->failed && (a->kind == STMT_LET || a->kind == STMT_BUFFER))
            return false;
    }
    return true;
}

static void run_block(struct eval *e, struct action *a) {
    if (a && unroll_enter(e, a->span))
        run_list(e, a);
    if (a)
        unroll_leave(e);
    e->failed = false;
}

/* ---- the pass ----------------------------------------------------------------------------- */

static struct flow *new_flow(struct compilation *c, const struct schedule *s) {
    struct flow *f = arena_alloc(c->arena, sizeof *f);
    f->name = s->name;
    f->setup = c->setup;
    f->root = -1;
    f->guard = &c->guard;
    VEC_GUARD(&f->buffers, f->guard);
    VEC_GUARD(&f->codecs, f->guard);
    VEC_GUARD(&f->asked, f->guard);
    VEC_GUARD(&f->stages, f->guard);
    VEC_GUARD(&f->ops, f->guard);
    VEC_GUARD(&f->contexts, f->guard);
    VEC_GUARD(&f->ensures, f->guard);
    VEC_GUARD(&f->terms, f->guard);
    VEC_PUSH(&f->codecs, codec_none());
    if (f->setup.repair)
        VEC_PUSH(&f->asked, codec_none());
    VEC_PUSH(&f->stages, (struct flow_stage){.name = ""});
    return f;
}

/* The first actions of a schedule give its parameters their values. */
static void keep_parameters(struct eval *e, const struct routine *s) {
    uint32_t n = 0;
    for (const struct formal *f = s->formals; f; f = f->next)
        n += f->kind == FORMAL_CODEC;
    struct flow_parameter *kept = arena_array(e->arena, n, sizeof *kept);
    e->flow->parameters = kept;
    e->flow->parameter_count = n;
    const struct action *a = s->body;
    for (const struct formal *f = s->formals; f; f = f->next, a = a->next)
        if (f->kind == FORMAL_CODEC)
            *kept++ = (struct flow_parameter){f->name, f->span,
                                              e->codecs[e->frame[a->let.slot].codec].index};
}

static void run_schedule(struct eval *e, const struct resolved *p) {
    e->global = arena_array(e->arena, p->global_slots, sizeof *e->global);
    e->frame = p->schedule->frame;
    e->depth = 1;
    bool whole = run_list(e, p->globals) && run_list(e, p->schedule->body);
    if (!whole || e->wrong)
        return;
    flow_number(e->flow);
    keep_parameters(e, p->schedule);
    promise_check(e);
}

bool pass_elaborate(struct compilation *c, const char *schedule, const char *const *defines) {
    unsigned errors = diag_errors(c->diag);
    struct resolver r = {.arena = c->arena, .diag = c->diag, .setup = &c->setup};
    const struct schedule *s = resolve_choice(&r, c->program, schedule);
    if (!s)
        return false;
    c->flow = new_flow(c, s);
    r.scope = scope_new(c->arena, c->diag);
    r.eval = eval_new(c->arena, c->diag, c->flow);
    const struct resolved *p = resolve_program(&r, c->sources, c->program, s, defines);
    if (p)
        run_schedule(r.eval, p);
    return diag_errors(c->diag) == errors;
}
