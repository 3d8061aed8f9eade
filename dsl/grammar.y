/* The grammar. Rules stand in the order of LANGUAGE.md; each section names its chapter there. An
 * action is one constructor call; what is wrong with the meaning of a tree is found later, from
 * the tree.
 *
 * Recovery: what is in error ends with its `;` or with its block, whose statements are read as any
 * others, or at the `}` of the block it stands in. A missing `;` is taken as read: next_token
 * supplies it.
 */
%code requires {
#include "dsl/parser.h"
}

%define api.pure full
%define api.prefix {grammar_}
%define api.location.type {struct span}
%define api.token.prefix {T_}
%define api.value.type union
%define parse.lac full
%define parse.error custom
%locations
%expect 0
%param { struct parser *p }

%code provides {
int next_token(GRAMMAR_STYPE *value, struct span *at, struct parser *p, bool recovering);
}

%code {
#define YYLLOC_DEFAULT(Current, Rhs, N)                                                            \
    ((Current).begin = (N) ? YYRHSLOC(Rhs, 1).begin : YYRHSLOC(Rhs, 0).end,                        \
     (Current).end = (N) ? YYRHSLOC(Rhs, N).end : YYRHSLOC(Rhs, 0).end)
#define YYMAXDEPTH 20000

#define grammar_lex(VALUE, AT, P) next_token(VALUE, AT, P, yyerrstatus == 3)

static void grammar_error(struct span *at, struct parser *p, const char *message);
static struct name name_of(struct span at, const char *text);
static const struct expr_list no_args;
static const struct formal_list no_formals;
static const struct stmt_list no_stmts;
static const struct generator_list no_generators;
static const struct loop_head no_loop;
}

%token
    END 0 "end of file"
    START_FILE "start of file"
    START_EXPR "start of expression"

    SCHEDULE "schedule"  DEF "def"  LET "let"  IMPORT "import"
    INT "int"  CODEC "codec"  GROUP "group"  BUFFER "buffer"
    IF "if"  ELSE "else"  FOR "for"  IN "in"  WHERE "where"  REQUIRE "require"
    INPUT "input"  OUTPUT "output"  INOUT "inout"  SCRATCH "scratch"  ON "on"
    COPY "copy"  REDUCE "reduce"  VIA "via"  STEP "step"  STAGE "stage"
    COLLECTIVE "collective"  ENSURE "ensure"  IDENTICAL "identical"  SUM "sum"  SLICES "slices"

    LPAREN "("  RPAREN ")"  LBRACKET "["  RBRACKET "]"  LBRACE "{"  RBRACE "}"
    SEMICOLON ";"  COMMA ","  COLON ":"  AT "@"  ARROW "->"  DOTS ".."  PLUS_COLON "+:"  ASSIGN "="
    QUESTION "?"  OR "||"  AND "&&"  BITOR "|"  XOR "^"  BITAND "&"  EQ "=="  NE "!="
    LT "<"  LE "<="  GT ">"  GE ">="  SHL "<<"  SHR ">>"
    ADD "+"  SUB "-"  MUL "*"  DIV "/"  MOD "%"  NOT "!"  TILDE "~"

%token <const char *> NAME "name"  STRING "string"
%token <int64_t> INTEGER "integer"
%token <double> DECIMAL "decimal"

%type <struct formal_list> formals formals1
%type <struct formal *> formal
%type <enum formal_kind> formal_kind
%type <struct expr *> initial expr postfix range domain arg where on via root
%type <struct expr_list> args args1
%type <struct name> name
%type <struct formal_list> let_formals
%type <struct stmt_list> block statements else
%type <struct stmt *> statement let if for require buffer move step stage call
%type <struct stmt *> collective ensure slices
%type <struct generator_list> generators
%type <struct generator *> generator
%type <struct loop_head> loop_head loop_opt
%type <enum buffer_role> role
%type <struct chunk_ref> chunk

%right "?" ":"
%left "||"
%left "&&"
%left "|"
%left "^"
%left "&"
%left "==" "!="
%left "<" "<=" ">" ">="
%left "<<" ">>"
%left "+" "-"
%left "*" "/" "%"
%precedence UNARY

%%

input:
    START_FILE file
|   START_EXPR expr                         { p->expr = $2; }
;

/* ---- 2. Files ----------------------------------------------------------------------------- */

file:
    %empty
|   file item
;

item:
    "import" STRING ";"                     { file_import(@2, p, $2); }
|   let                                     { file_let(p, $1); }
|   def
|   schedule
|   error ";"                               { yyerrok; }
|   error "}"                               { yyerrok; }
|   error block                             { yyerrok; }
;

name:
    NAME                                    { $$ = name_of(@$, $1); }
;

/* ---- 3. Schedules and defs ---------------------------------------------------------------- */

schedule:
    "schedule" name "(" formals ")" block   { file_schedule(@$, p, $2, $4, $6); }
;

def:
    "def" name "(" formals ")" block        { file_def(@$, p, $2, $4, $6); }
;

formals:
    %empty                                  { $$ = no_formals; }
|   formals1
;

formals1:
    formal                                  { $$ = formal_list_add(no_formals, $1); }
|   formals1 "," formal                     { $$ = formal_list_add($1, $3); }
;

formal:
    formal_kind name initial                { $$ = formal_new(@$, p, $1, $2, $3); }
;

formal_kind:
    "int"                                   { $$ = FORMAL_INT; }
|   "codec"                                 { $$ = FORMAL_CODEC; }
|   "group"                                 { $$ = FORMAL_GROUP; }
|   "buffer"                                { $$ = FORMAL_BUFFER; }
;

initial:
    %empty                                  { $$ = NULL; }
|   "=" expr                                { $$ = $2; }
;

block:
    "{" statements "}"                      { $$ = $2; }
|   "{" statements error "}"                { $$ = $2; yyerrok; }
;

statements:
    %empty                                  { $$ = no_stmts; }
|   statements statement                    { $$ = stmt_list_add($1, $2); }
;

statement:
    let | if | for | require | buffer | move | step | stage | call | collective | ensure | slices
|   error ";"                               { $$ = NULL; yyerrok; }
|   error block                             { $$ = NULL; yyerrok; }
|   error block "else" else                 { $$ = NULL; yyerrok; }
;

/* ---- 4. Names and expressions ------------------------------------------------------------- */

let:
    "let" name "=" expr ";"                 { $$ = stmt_let(@$, p, $2, $4); }
|   "let" name "(" let_formals ")" "=" expr ";"
                                            { $$ = stmt_let_function(@$, p, $2, $4, $7); }
;

let_formals:
    name                                    { $$ = formal_list_add(no_formals,
                                                       formal_new(@$, p, FORMAL_INT, $1, NULL)); }
|   let_formals "," name                    { $$ = formal_list_add($1,
                                                       formal_new(@3, p, FORMAL_INT, $3, NULL)); }
;

expr:
    postfix
|   "-" expr %prec UNARY                    { $$ = expr_unary(@$, p, '-', $2); }
|   "!" expr %prec UNARY                    { $$ = expr_unary(@$, p, '!', $2); }
|   "~" expr %prec UNARY                    { $$ = expr_unary(@$, p, '~', $2); }
|   expr "*" expr                           { $$ = expr_binary(@$, p, BIN_MUL, @2, $1, $3); }
|   expr "/" expr                           { $$ = expr_binary(@$, p, BIN_DIV, @2, $1, $3); }
|   expr "%" expr                           { $$ = expr_binary(@$, p, BIN_MOD, @2, $1, $3); }
|   expr "+" expr                           { $$ = expr_binary(@$, p, BIN_ADD, @2, $1, $3); }
|   expr "-" expr                           { $$ = expr_binary(@$, p, BIN_SUB, @2, $1, $3); }
|   expr "<<" expr                          { $$ = expr_binary(@$, p, BIN_SHL, @2, $1, $3); }
|   expr ">>" expr                          { $$ = expr_binary(@$, p, BIN_SHR, @2, $1, $3); }
|   expr "<" expr                           { $$ = expr_binary(@$, p, BIN_LT, @2, $1, $3); }
|   expr "<=" expr                          { $$ = expr_binary(@$, p, BIN_LE, @2, $1, $3); }
|   expr ">" expr                           { $$ = expr_binary(@$, p, BIN_GT, @2, $1, $3); }
|   expr ">=" expr                          { $$ = expr_binary(@$, p, BIN_GE, @2, $1, $3); }
|   expr "==" expr                          { $$ = expr_binary(@$, p, BIN_EQ, @2, $1, $3); }
|   expr "!=" expr                          { $$ = expr_binary(@$, p, BIN_NE, @2, $1, $3); }
|   expr "&" expr                           { $$ = expr_binary(@$, p, BIN_BITAND, @2, $1, $3); }
|   expr "^" expr                           { $$ = expr_binary(@$, p, BIN_XOR, @2, $1, $3); }
|   expr "|" expr                           { $$ = expr_binary(@$, p, BIN_BITOR, @2, $1, $3); }
|   expr "&&" expr                          { $$ = expr_binary(@$, p, BIN_AND, @2, $1, $3); }
|   expr "||" expr                          { $$ = expr_binary(@$, p, BIN_OR, @2, $1, $3); }
|   expr "?" expr ":" expr                  { $$ = expr_ternary(@$, p, $1, $3, $5); }
;

postfix:
    NAME                                    { $$ = expr_name(@$, p, $1); }
|   INTEGER                                 { $$ = expr_integer(@$, p, $1); }
|   DECIMAL                                 { $$ = expr_decimal(@$, p, $1); }
|   name "(" args ")"                       { $$ = expr_call(@$, p, $1, $3); }
|   postfix "[" expr "]"                    { $$ = expr_index(@$, p, $1, $3); }
|   "(" expr ")"                            { $$ = expr_bracketed(@$, $2); }
;

args:
    %empty                                  { $$ = no_args; }
|   args1
;

args1:
    arg                                     { $$ = expr_list_add(no_args, $1); }
|   args1 "," arg                           { $$ = expr_list_add($1, $3); }
;

arg: expr | range;

range:
    expr ".." expr                          { $$ = expr_range(@$, p, $1, $3, STEP_NONE, NULL); }
|   expr ".." expr "step" expr              { $$ = expr_range(@$, p, $1, $3, STEP_ADD, $5); }
|   expr ".." expr "step" "*" expr          { $$ = expr_range(@$, p, $1, $3, STEP_MUL, $6); }
|   expr ".." expr "step" "/" expr          { $$ = expr_range(@$, p, $1, $3, STEP_DIV, $6); }
;

/* ---- 5. Control --------------------------------------------------------------------------- */

if:
    "if" expr block                         { $$ = stmt_if(@$, p, $2, $3, no_stmts); }
|   "if" expr block "else" else             { $$ = stmt_if(@$, p, $2, $3, $5); }
;

else:
    block
|   if                                      { $$ = stmt_list_add(no_stmts, $1); }
;

for:
    loop_head block                         { $$ = stmt_for(@$, p, $1, $2); }
;

loop_head:
    "for" generators where                  { $$ = (struct loop_head){$2.first, $3}; }
;

generators:
    generator                               { $$ = generator_list_add(no_generators, $1); }
|   generators "," generator                { $$ = generator_list_add($1, $3); }
;

generator:
    name "in" domain                        { $$ = generator_new(@$, p, $1, $3); }
;

domain: expr | range;

where:
    %empty                                  { $$ = NULL; }
|   "where" expr                            { $$ = $2; }
;

require:
    "require" expr ":" STRING ";"           { $$ = stmt_require(@$, p, $2, $4); }
;

/* ---- 6. Buffers --------------------------------------------------------------------------- */

buffer:
    role name "[" expr "]" on ";"           { $$ = stmt_buffer(@$, p, $1, $2, $4, $6); }
;

role:
    "input"                                 { $$ = ROLE_INPUT; }
|   "output"                                { $$ = ROLE_OUTPUT; }
|   "inout"                                 { $$ = ROLE_INOUT; }
|   "scratch"                               { $$ = ROLE_SCRATCH; }
;

on:
    %empty                                  { $$ = NULL; }
|   "on" expr                               { $$ = $2; }
;

/* ---- 7. Moving data ----------------------------------------------------------------------- */

move:
    "copy" chunk "->" chunk via ";"         { $$ = stmt_move(@$, p, STMT_COPY, $2, $4, $5); }
|   "reduce" chunk "->" chunk via ";"       { $$ = stmt_move(@$, p, STMT_REDUCE, $2, $4, $5); }
;

chunk:
    name "[" expr "]" "@" postfix           { $$ = chunk_ref_of(@$, $1, $3, NULL, $6); }
|   name "[" expr "+:" expr "]" "@" postfix { $$ = chunk_ref_of(@$, $1, $3, $5, $8); }
;

via:
    %empty                                  { $$ = NULL; }
|   "via" expr                              { $$ = $2; }
;

/* ---- 8. Steps, stages and calls ----------------------------------------------------------- */

step:
    "step" block                            { $$ = stmt_step(@$, p, $2); }
;

stage:
    "stage" name via block                  { $$ = stmt_stage(@$, p, $2, $3, $4); }
;

call:
    name "(" args ")" via ";"               { $$ = stmt_call(@$, p, $1, $3, $5); }
;

/* ---- 9. What must hold -------------------------------------------------------------------- */

collective:
    "collective" name root on ";"           { $$ = stmt_collective(@$, p, $2, $3, $4); }
|   "collective" "reduce" root on ";"       { $$ = stmt_collective(@$, p, name_of(@2, "reduce"),
                                                                   $3, $4); }
;

root:
    %empty                                  { $$ = NULL; }
|   "(" expr ")"                            { $$ = $2; }
;

ensure:
    "ensure" chunk "==" chunk loop_opt ";"
                                            { $$ = stmt_ensure_equal(@$, p, $2, $4, $5); }
|   "ensure" chunk "==" "sum" "(" chunk loop_head ")" loop_opt ";"
                                            { $$ = stmt_ensure_sum(@$, p, $2, $6, $7, $9); }
|   "ensure" "identical" chunk loop_opt ";"
                                            { $$ = stmt_ensure_identical(@$, p, $3, $4); }
;

loop_opt:
    %empty                                  { $$ = no_loop; }
|   loop_head
;

slices:
    "slices" expr ";"                       { $$ = stmt_slices(@$, p, $2); }
;

%%

static struct name name_of(struct span at, const char *text) {
    return (struct name){.text = text, .at = at};
}

/* Only for what is not a syntax error: the parser's stack is full. */
static void grammar_error(struct span *at, struct parser *p, const char *message) {
    (void)message;
    syntax_too_deep(p, *at);
}

static int yyreport_syntax_error(const yypcontext_t *context, struct parser *p) {
    enum { MOST = YYNTOKENS };
    yysymbol_kind_t kinds[MOST];
    const char *names[MOST];
    int n = yypcontext_expected_tokens(context, kinds, MOST);
    for (int i = 0; i < n; i++)
        names[i] = yysymbol_name(kinds[i]);
    yysymbol_kind_t found = yypcontext_token(context);
    struct syntax_error e = {
        .found = found == YYSYMBOL_YYEMPTY ? "" : yysymbol_name(found),
        .expected = names,
        .expected_count = n > 0 ? n : 0,
    };
    syntax_report(p, &e);
    return 0;
}
