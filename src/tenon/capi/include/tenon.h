/* Tenon's C interface. It stays compatible from version to version.
 *
 *     tenon_vocab* vocab = NULL;
 *     tenon_grammar* grammar = NULL;
 *     tenon_error* error = tenon_vocab_load(tenon_text_of("model/tokenizer.json"), &vocab);
 *     if (error == NULL) {
 *       error = tenon_grammar_compile(
 *           vocab, tenon_text_of("{\"schema\": {\"type\": \"object\"}}"), &grammar);
 *     }
 *     if (error != NULL) {
 *       fprintf(stderr, "%s\n", tenon_error_message(error).data);
 *       tenon_error_free(error);
 *     }
 *
 * Handles. The results of `_load`, `_compile`, `_new`, `_open` and `_copy` belong to the caller,
 * who frees them with the type's `_free`; NULL may be freed. A handle keeps what it was made from
 * alive: a vocabulary may be freed before its grammars.
 *
 * Texts. A text is bytes and their number, in UTF-8. Texts that you pass need not end in NUL, and
 * NULL is the empty text. A tenon_text that you get belongs to the handle that gave it, and is
 * valid until the next call with that handle unless its function says otherwise; a tenon_string is
 * yours to free. Both end in a NUL that is not counted. Requests and options are JSON texts in the
 * shapes that docs/capi.md lists; an empty text is an object without members, and an unknown member
 * is refused by name.
 *
 * Errors. A function that can fail returns a tenon_error, or NULL if it has not failed. The results
 * that it returns through pointers are set if it has not failed, else they are NULL or 0. No
 * function throws or ends the process. A NULL handle is an error with TENON_INVALID; functions that
 * cannot fail return 0 or nothing for it.
 *
 * Threads. Vocabularies, schemas, grammars, templates, formats, services: any number of threads at
 * a time. Matchers, parsers, repairers, conversations: one thread at a time. A function to which
 * another rule applies says so.
 *
 * A child of fork() has none of the library's threads. Services, calls, conversations and toolboxes
 * that were opened before fork() must be neither used nor freed in the child. Open them after it.
 *
 * Callbacks come from the library's threads unless their description says otherwise. They must not
 * throw, and must not free the handle that calls them.
 *
 * Structures that may grow at their end in later versions have their size as the first member: walk
 * an array of events with the size of its first one, and set `size` to the sizeof of a structure
 * that you fill. tenon_text, tenon_token and tenon_span do not change. */
#ifndef TENON_H
#define TENON_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define TENON_API __attribute__((visibility("default")))
#define TENON_CHECKED __attribute__((visibility("default"), warn_unused_result))
#else
#define TENON_API
#define TENON_CHECKED
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version, texts, errors ------------------------------------------------------------------ */

/* The version of this header; tenon_version() is that of the library: "0.2.0". Programs work with
 * every library of the same major version. */
#define TENON_VERSION_MAJOR 0
#define TENON_VERSION_MINOR 2
TENON_API const char* tenon_version(void);

typedef struct tenon_text {
  const char* data;
  size_t size;
} tenon_text;

static inline tenon_text tenon_text_of(const char* text) {
  tenon_text result;
  result.data = text;
  result.size = text == NULL ? 0 : strlen(text);
  return result;
}

typedef struct tenon_string tenon_string;
TENON_API tenon_text tenon_string_text(const tenon_string* string);
TENON_API void tenon_string_free(tenon_string* string);

typedef enum tenon_code {
  TENON_OK = 0,             /* The code of NULL: nothing has failed. */
  TENON_INVALID = 1,        /* The input breaks its own rules: another try cannot help. */
  TENON_UNSUPPORTED = 2,    /* It is well formed, but outside of what Tenon does. */
  TENON_LIMIT_EXCEEDED = 3, /* A limit was reached; a higher one may help. */
  TENON_UNSATISFIABLE = 4,  /* Nothing can ever fit it. */
  TENON_UNAVAILABLE = 5,    /* A server, a file or the system failed: another try may help. */
  TENON_INTERNAL = 6        /* No memory, or a mistake of ours. */
} tenon_code;

typedef struct tenon_error tenon_error;
TENON_API tenon_code tenon_error_code(const tenon_error* error);
/* A sentence: what is wrong, where, and what helps. */
TENON_API tenon_text tenon_error_message(const tenon_error* error);
/* The place in the input: a JSON pointer into a schema ("/properties/a/type"), the field of a
 * request ("tools[0].function.parameters"), the member of options, or the parameter. Empty: the
 * error is not about one place. Programs read this instead of the message. */
TENON_API tenon_text tenon_error_path(const tenon_error* error);
/* The line, from 1, at which a text (JSON, TOML, GBNF, Lark, a template) is wrong. 0: not known. */
TENON_API uint32_t tenon_error_line(const tenon_error* error);
TENON_API void tenon_error_free(tenon_error* error);

typedef enum tenon_log_level {
  TENON_LOG_TRACE = 0,
  TENON_LOG_DEBUG = 1,
  TENON_LOG_INFO = 2,
  TENON_LOG_WARNING = 3,
  TENON_LOG_ERROR = 4
} tenon_log_level;
/* Sets where the library's log goes, without lines below `least`; NULL: nowhere, as at the start.
 * `log` is called from any thread, several at a time; once this returns, the earlier one is not
 * called any more. Must not be called from within `log`, which may call no function of the library.
 */
typedef void (*tenon_log_fn)(void* user, tenon_log_level level, tenon_text line);
TENON_API void tenon_set_log(tenon_log_fn log, void* user, tenon_log_level least);

/* ---- Vocabularies ---------------------------------------------------------------------------- */

/* The bytes that each token id stands for; with a tokenizer, also from texts to ids. */
typedef struct tenon_vocab tenon_vocab;

typedef enum tenon_token_kind {
  TENON_TOKEN_TEXT = 0,
  TENON_TOKEN_CONTROL = 1, /* Text cannot spell it; its bytes are its name: "<|im_end|>". */
  TENON_TOKEN_UNUSED = 2
} tenon_token_kind;

typedef struct tenon_token {
  tenon_text bytes;
  tenon_token_kind kind;
} tenon_token;

/* From a GGUF file, a tokenizer.json, or a folder that has one of them. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_load(tenon_text path, tenon_vocab** vocab);
/* From a tokenizer.json in memory; `config` is a tokenizer_config.json, or empty. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_parse(tenon_text tokenizer_json, tenon_text config,
                                                       tenon_vocab** vocab);
/* From a tiktoken file in memory; `options`: {"pattern", "special": {text: id}, "bos", "eos",
 * "adds_bos"}. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_parse_tiktoken(tenon_text file, tenon_text options,
                                                                tenon_vocab** vocab);
/* From tokens by id, for an engine with a tokenizer of its own; tenon_vocab_encode() then fails.
 * Each byte that UTF-8 uses must be a token by itself. `ends`: ids that end a model's turn. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_new(const tenon_token* tokens, size_t count,
                                                     const int32_t* ends, size_t end_count,
                                                     tenon_vocab** vocab);
/* A copy with more ids that end a model's turn: those that its files do not name. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_with_ends(const tenon_vocab* vocab,
                                                           const int32_t* ends, size_t end_count,
                                                           tenon_vocab** with_ends);
TENON_API void tenon_vocab_free(tenon_vocab* vocab);

TENON_API size_t tenon_vocab_size(const tenon_vocab* vocab);
/* Valid as long as the vocabulary; empty and TENON_TOKEN_UNUSED for an id that does not exist. */
TENON_API tenon_token tenon_vocab_token(const tenon_vocab* vocab, int32_t id);
/* The ids that end a model's turn; valid as long as the vocabulary. */
TENON_API const int32_t* tenon_vocab_ends(const tenon_vocab* vocab, size_t* count);
/* -1: the vocabulary has no such token. */
TENON_API int32_t tenon_vocab_bos(const tenon_vocab* vocab);
TENON_API int32_t tenon_vocab_control(const tenon_vocab* vocab, tenon_text name);
/* Writes the first `capacity` ids and sets `count` to the number of all. With `controls`, texts of
 * control tokens become those tokens; leave it 0 for text from users, tools and schemas. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_encode(const tenon_vocab* vocab, tenon_text text,
                                                        int controls, int32_t* ids, size_t capacity,
                                                        size_t* count);
TENON_API TENON_CHECKED tenon_error* tenon_vocab_decode(const tenon_vocab* vocab,
                                                        const int32_t* ids, size_t count,
                                                        tenon_string** text);

/* ---- Schemas --------------------------------------------------------------------------------- */

typedef struct tenon_schema tenon_schema;
/* `options`: {"draft", "documents", "assert_format"}, as in `tenon validate`. */
TENON_API TENON_CHECKED tenon_error* tenon_schema_compile(tenon_text schema, tenon_text options,
                                                          tenon_schema** compiled);
TENON_API void tenon_schema_free(tenon_schema* schema);
/* Every violation, as JSON: [{"instance_path", "schema_path", "message"}]; "[]": it is valid. Fails
 * if `instance` is not JSON. */
TENON_API TENON_CHECKED tenon_error* tenon_schema_validate(const tenon_schema* schema,
                                                           tenon_text instance,
                                                           tenon_string** violations);
/* Only whether it is valid, 1 or 0. */
TENON_API TENON_CHECKED tenon_error* tenon_schema_is_valid(const tenon_schema* schema,
                                                           tenon_text instance, int* is_valid);

/* ---- Grammars -------------------------------------------------------------------------------- */

/* The texts that an answer may be, over the tokens of a vocabulary. */
typedef struct tenon_grammar tenon_grammar;
typedef struct tenon_format tenon_format;

/* `request` has the shape of a line of `tenon mask --batch`: {"schema", ...} or {"grammar",
 * "syntax": "gbnf" | "ebnf" | "lark" | "regex" | "structural_tag"}. A vocabulary keeps its latest
 * grammars, so the same request again costs next to nothing. */
TENON_API TENON_CHECKED tenon_error* tenon_grammar_compile(const tenon_vocab* vocab,
                                                           tenon_text request,
                                                           tenon_grammar** grammar);
/* The answers of a model that calls tools in this format. `request`: {"tools", "tool_choice",
 * "parallel_tool_calls", "response_format", "argument_order", "prompt_tail"}, as in a Chat
 * Completions request. */
TENON_API TENON_CHECKED tenon_error* tenon_grammar_for_tools(const tenon_vocab* vocab,
                                                             const tenon_format* format,
                                                             tenon_text request,
                                                             tenon_grammar** grammar);
TENON_API void tenon_grammar_free(tenon_grammar* grammar);
/* Where the grammar allows more than its schema, as JSON: [{"schema_path", "keyword",
 * "message"}]. */
TENON_API TENON_CHECKED tenon_error* tenon_grammar_relaxed(const tenon_grammar* grammar,
                                                           tenon_string** relaxed);
/* The grammar of `request` (or for calls: {"tools", "format", ...}) in another engine's language:
 * `to` is "gbnf", "ebnf", "lark" or "json-schema". `relaxed`: what that language cannot express, as
 * above; may be NULL. */
TENON_API TENON_CHECKED tenon_error* tenon_grammar_print(tenon_text request, tenon_text to,
                                                         tenon_string** text,
                                                         tenon_string** relaxed);

/* ---- Matchers -------------------------------------------------------------------------------- */

/* Follows one text, token by token. A mask has a bit for each token id, the lowest bit of the first
 * word for id 0; it is set if the token can come next. */
typedef struct tenon_matcher tenon_matcher;

/* How many 32-bit words a mask for so many tokens has. */
static inline size_t tenon_mask_words(size_t tokens) {
  return (tokens + 31) / 32;
}

TENON_API TENON_CHECKED tenon_error* tenon_matcher_new(const tenon_grammar* grammar,
                                                       tenon_matcher** matcher);
/* A copy that continues independently. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_copy(const tenon_matcher* matcher,
                                                        tenon_matcher** copy);
TENON_API void tenon_matcher_free(tenon_matcher* matcher);

/* Writes `words` words, at least those of the vocabulary; further words (an engine's padding)
 * become 0. Fails if a limit of the grammar is reached. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_fill_mask(tenon_matcher* matcher, uint32_t* mask,
                                                             size_t words);
/* Masks for a tree of tokens that a smaller model has guessed: `masks` has `count` rows of `words`
 * words. Node 0 is the text so far, so tokens[0] is not read and parents[0] is -1; each other node
 * is a token behind the node parents[i], in any order. Row i becomes what can come behind node i,
 * and is empty if the node's own token cannot come there. None of the tokens is accepted. `reached`
 * (may be NULL) becomes the number of nodes that can come. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_fill_draft_masks(tenon_matcher* matcher,
                                                                    const int32_t* tokens,
                                                                    const int32_t* parents,
                                                                    size_t count, uint32_t* masks,
                                                                    size_t words, size_t* reached);
/* 1: the token can come next, and was accepted; 0: it cannot, and nothing has changed; -1: unknown,
 * see tenon_matcher_error(). */
TENON_API int tenon_matcher_accept(tenon_matcher* matcher, int32_t token);
TENON_API int tenon_matcher_accept_bytes(tenon_matcher* matcher, tenon_text bytes);
/* Why the last call returned -1, or nothing where something may be possible; empty if it did not.
 */
TENON_API tenon_text tenon_matcher_error(const tenon_matcher* matcher);
/* How many of `tokens` can come one after the other, as far as that is known. Accepts none of them.
 */
TENON_API size_t tenon_matcher_validate_draft(tenon_matcher* matcher, const int32_t* tokens,
                                              size_t count);
/* Takes back the last `count` accepted tokens. Fails if there are fewer. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_rollback(tenon_matcher* matcher, size_t count);
TENON_API size_t tenon_matcher_accepted_count(const tenon_matcher* matcher);
/* Returns to the beginning of the text. */
TENON_API void tenon_matcher_reset(tenon_matcher* matcher);
/* Whether the text may end here. */
TENON_API int tenon_matcher_is_accepting(tenon_matcher* matcher);
/* Whether the text must end here. */
TENON_API int tenon_matcher_is_complete(tenon_matcher* matcher);
/* Whether an end token was accepted. */
TENON_API int tenon_matcher_is_finished(const tenon_matcher* matcher);
/* The bytes that must come next, at most `max_bytes` (0: all, up to 64 KiB). */
TENON_API tenon_text tenon_matcher_forced_bytes(tenon_matcher* matcher, size_t max_bytes);
/* The same as ids, as the model's tokenizer writes them. Writes at most `capacity` of them, the
 * first, and sets their number; there are never more than 65,536. Needs a tokenizer. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_forced_tokens(tenon_matcher* matcher,
                                                                 int32_t* ids, size_t capacity,
                                                                 size_t* count);
/* A short list of ids after which the text may end; empty if it may end here. Fails with
 * TENON_LIMIT_EXCEEDED, and a `count` of 0, if `capacity` is too small or the search takes too
 * long; there are never more than 65,536. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_tokens_to_end(tenon_matcher* matcher,
                                                                 int32_t* ids, size_t capacity,
                                                                 size_t* count);

/* Fills the masks of a batch of texts in one call. Any number of threads may use one, in turn. */
typedef struct tenon_mask_pool tenon_mask_pool;

/* Starts `threads` threads, which work beside the one that calls; fewer if the system gives no
 * more. Matchers of one grammar take turns, so threads help batches of several grammars. */
TENON_API TENON_CHECKED tenon_error* tenon_mask_pool_new(size_t threads, tenon_mask_pool** pool);
TENON_API void tenon_mask_pool_free(tenon_mask_pool* pool);
/* Fills a row of `masks`, an array of `mask_rows` rows of `words` words, for each of `count`
 * matchers: row rows[i] for matchers[i], or row i if `rows` is NULL. No matcher and no row may
 * occur twice. Where a limit of a grammar is reached, that row becomes empty, and the others are
 * filled all the same: `errors`, if it is not NULL, gets an error for each matcher, or NULL, and
 * they are the caller's; if it is NULL, the first of them is returned. */
TENON_API TENON_CHECKED tenon_error* tenon_mask_pool_fill_masks(
    tenon_mask_pool* pool, tenon_matcher* const* matchers, size_t count, uint32_t* masks,
    size_t mask_rows, size_t words, const size_t* rows, tenon_error** errors);

/* ---- Formats --------------------------------------------------------------------------------- */

/* The format with this name or alias. */
TENON_API TENON_CHECKED tenon_error* tenon_format_find(tenon_text name, tenon_format** format);
/* From a definition (TOML, docs/formats.md). */
TENON_API TENON_CHECKED tenon_error* tenon_format_compile(tenon_text definition,
                                                          tenon_format** format);
/* From the response_template in a tokenizer_config.json. */
TENON_API TENON_CHECKED tenon_error* tenon_format_import(tenon_text response_template,
                                                         tenon_format** format);
TENON_API void tenon_format_free(tenon_format* format);
/* Makes it known to tenon_format_find() and to detection; it replaces one with the same name. */
TENON_API TENON_CHECKED tenon_error* tenon_format_register(const tenon_format* format);
/* {"name", "aliases", "parallel"}. */
TENON_API TENON_CHECKED tenon_error* tenon_format_info(const tenon_format* format,
                                                       tenon_string** info);
/* The names of all, as a JSON array. */
TENON_API TENON_CHECKED tenon_error* tenon_format_names(tenon_string** names);
/* Detects the format of a model. `clues`: {"chat_template", "bos_token", "eos_token", "model_name",
 * "response_template"}, each of them optional; `vocab` may be NULL. `format` is NULL if it cannot
 * be detected. `evidence`: {"by", "evidence"}; may be NULL. */
TENON_API TENON_CHECKED tenon_error* tenon_format_detect(tenon_text clues, const tenon_vocab* vocab,
                                                         tenon_format** format,
                                                         tenon_string** evidence);
/* The text that a model writes for `calls`, a JSON array as in "tool_calls" of a message. */
TENON_API TENON_CHECKED tenon_error* tenon_format_render_calls(const tenon_format* format,
                                                               tenon_text calls,
                                                               tenon_string** text);
/* A text that describes `tools`, a JSON array, to a model that was not trained for tools. */
TENON_API TENON_CHECKED tenon_error* tenon_format_describe_tools(const tenon_format* format,
                                                                 tenon_text tools,
                                                                 tenon_string** text);

/* ---- Chat templates -------------------------------------------------------------------------- */

typedef struct tenon_template tenon_template;
typedef struct tenon_prompt tenon_prompt;

/* A piece of a prompt: bytes [begin, end) of its text. Only the template's own text may become
 * control tokens. */
typedef struct tenon_span {
  size_t begin;
  size_t end;
  int is_data; /* 1: from a message, a tool or another variable; 0: written by the template. */
} tenon_span;

/* `options`: {"name", "bos_token", "eos_token", "model_name", "format", "generic_fallback",
 * "superset"}. `model_name` has no effect: the template itself says how the model calls. */
TENON_API TENON_CHECKED tenon_error* tenon_template_compile(tenon_text source, tenon_text options,
                                                            tenon_template** compiled);
/* From a GGUF file, a model's folder, its tokenizer_config.json, or a file with a template. */
TENON_API TENON_CHECKED tenon_error* tenon_template_load(tenon_text path,
                                                         tenon_template** compiled);
TENON_API void tenon_template_free(tenon_template* chat_template);
/* Belongs to the caller. NULL: models with this template do not call tools. */
TENON_API TENON_CHECKED tenon_error* tenon_template_format(const tenon_template* chat_template,
                                                           tenon_format** format);
/* What the template can render, as in `tenon inspect --json`. */
TENON_API TENON_CHECKED tenon_error* tenon_template_capabilities(
    const tenon_template* chat_template, tenon_string** capabilities);
/* `request`: {"messages", "tools", "add_generation_prompt", "shape", "now", and any variable of the
 * template}. */
TENON_API TENON_CHECKED tenon_error* tenon_template_render(const tenon_template* chat_template,
                                                           tenon_text request,
                                                           tenon_prompt** prompt);
TENON_API void tenon_prompt_free(tenon_prompt* prompt);
/* Valid as long as the prompt, as is the next one. */
TENON_API tenon_text tenon_prompt_text(const tenon_prompt* prompt);
TENON_API const tenon_span* tenon_prompt_spans(const tenon_prompt* prompt, size_t* count);
/* A sentence for each thing that was rewritten so that the template can render it: a JSON array. */
TENON_API TENON_CHECKED tenon_error* tenon_prompt_shaping(const tenon_prompt* prompt,
                                                          tenon_string** sentences);
/* As tenon_vocab_encode(); only control tokens that the template wrote become control tokens. */
TENON_API TENON_CHECKED tenon_error* tenon_prompt_tokenize(const tenon_prompt* prompt,
                                                           const tenon_vocab* vocab, int32_t* ids,
                                                           size_t capacity, size_t* count);

/* ---- Stream parsers -------------------------------------------------------------------------- */

typedef enum tenon_event_type {
  TENON_EVENT_CONTENT = 1,    /* text */
  TENON_EVENT_REASONING = 2,  /* text */
  TENON_EVENT_CALL = 3,       /* call, id, name: a call begins */
  TENON_EVENT_ARGUMENTS = 4,  /* call, text: more of its arguments, JSON */
  TENON_EVENT_CALL_END = 5,   /* call, is_incomplete */
  TENON_EVENT_DIAGNOSTIC = 6, /* name: a stable code; text: a sentence for a maintainer */
  TENON_EVENT_FINISH = 7      /* Only for answers. name: why; text: {"usage", "tenon", ...} */
} tenon_event_type;

typedef struct tenon_event {
  uint32_t size; /* The size of this structure, in bytes. */
  uint32_t type; /* A tenon_event_type; ignore those that you do not know. */
  uint32_t call; /* Which call of the answer, from 0. */
  uint32_t is_incomplete;
  tenon_text text;
  tenon_text id;
  tenon_text name;
} tenon_event;

/* Turns a model's output, cut anywhere, into events. */
typedef struct tenon_parser tenon_parser;

/* `options`: {"tools": [...], "fallbacks": true, "on_unknown_tool": "content" | "repair" |
 * "forward", "prompt_tail", "parse_reasoning", "id_prefix"}. With a `vocab`, markers that are
 * control tokens are recognised by their ids only; NULL: by their text. */
TENON_API TENON_CHECKED tenon_error* tenon_parser_new(const tenon_format* format,
                                                      const tenon_vocab* vocab, tenon_text options,
                                                      tenon_parser** parser);
TENON_API void tenon_parser_free(tenon_parser* parser);
/* Each sets `events` to the new events, which are valid until the next call. `is_control`: the
 * bytes are the whole text of a control token. */
TENON_API TENON_CHECKED tenon_error* tenon_parser_feed(tenon_parser* parser, tenon_text bytes,
                                                       int is_control, const tenon_event** events,
                                                       size_t* count);
TENON_API TENON_CHECKED tenon_error* tenon_parser_feed_token(tenon_parser* parser, int32_t token,
                                                             const tenon_event** events,
                                                             size_t* count);
/* Call it at the end of the output; `is_truncated`: it was cut by length. After it only
 * tenon_parser_reset() and _free() may be called. */
TENON_API TENON_CHECKED tenon_error* tenon_parser_finish(tenon_parser* parser, int is_truncated,
                                                         const tenon_event** events, size_t* count);
TENON_API void tenon_parser_reset(tenon_parser* parser);

/* ---- Repair ---------------------------------------------------------------------------------- */

/* Repairs the arguments of one call by their schema while they are written. */
typedef struct tenon_mender tenon_mender;

/* `tool` in the shape of Chat Completions; `rules` as in docs/repair.md (TOML), empty: the rules
 * that come with Tenon. */
TENON_API TENON_CHECKED tenon_error* tenon_mender_new(tenon_text tool, tenon_text rules,
                                                      tenon_mender** mender);
TENON_API void tenon_mender_free(tenon_mender* mender);
/* Returns whole characters: an unfinished one comes with the next call. */
TENON_API TENON_CHECKED tenon_error* tenon_mender_feed(tenon_mender* mender, tenon_text arguments,
                                                       tenon_text* repaired);
TENON_API TENON_CHECKED tenon_error* tenon_mender_finish(tenon_mender* mender, int is_incomplete,
                                                         tenon_text* repaired);
/* [{"kind", "path", "message"}]. */
TENON_API TENON_CHECKED tenon_error* tenon_mender_repairs(const tenon_mender* mender,
                                                          tenon_string** repairs);

/* ---- Services: models that answer ------------------------------------------------------------ */

/* The models of a configuration in this process, behind the API of `tenon serve`. */
typedef struct tenon_service tenon_service;
typedef struct tenon_call tenon_call;

/* `config`: the text of a tenon.toml; paths in it are relative to `folder`. An empty text has the
 * bundled model; another text has the models that it names, and tenon_service_add_engine() adds to
 * them. */
TENON_API TENON_CHECKED tenon_error* tenon_service_open(tenon_text config, tenon_text folder,
                                                        tenon_service** service);
/* From a tenon.toml, or from a GGUF file alone. */
TENON_API TENON_CHECKED tenon_error* tenon_service_load(tenon_text path, tenon_service** service);
/* Ends all answers, except those of conversations, which may go on. No other call of the service
 * may be under way: tenon_service_shut_down() ends those. */
TENON_API void tenon_service_free(tenon_service* service);
/* Ends all answers, as tenon_service_free() does, and refuses later requests. From any thread,
 * while other threads are in calls of the service; those return soon. */
TENON_API void tenon_service_shut_down(tenon_service* service);

/* Sends a request as by HTTP: path ("/v1/chat/completions") and JSON body; "GET", "POST" or
 * "DELETE". `on_piece` gets the answer's body as it comes (whole, or as server-sent events if the
 * body has "stream": true). Its last call has no bytes, and `is_end` 1, or 2 if the answer is not
 * whole: it was cancelled, or cut because the service ends. `status` is the HTTP status. */
typedef void (*tenon_piece_fn)(void* user, int status, tenon_text piece, int is_end);
TENON_API TENON_CHECKED tenon_error* tenon_service_call(tenon_service* service, tenon_text method,
                                                        tenon_text path, tenon_text body,
                                                        tenon_piece_fn on_piece, void* user,
                                                        tenon_call** call);
/* For calls whose `on_piece` is NULL: waits up to `timeout_ms` for more of the answer; the call
 * then has no thread. 0: `piece` is the next piece, or NULL if nothing has come yet. Otherwise the
 * answer has ended: 1, or 2 if it is not whole. One thread at a time. */
TENON_API int tenon_call_next(tenon_call* call, uint32_t timeout_ms, int* status,
                              tenon_string** piece);
/* Cancels the answer if it has not ended, and waits for the last call of `on_piece`. Not from
 * `on_piece`, nor while another thread is in tenon_call_next(). */
TENON_API void tenon_call_free(tenon_call* call);
/* Ends it soon: `on_piece` gets its end, 2, perhaps after a piece that is on its way. From any
 * thread. `status` is 0 if the answer had not begun. */
TENON_API void tenon_call_cancel(tenon_call* call);
/* The same, and waits for the whole answer. Fails with TENON_UNAVAILABLE if it is cut. */
TENON_API TENON_CHECKED tenon_error* tenon_service_ask(tenon_service* service, tenon_text method,
                                                       tenon_text path, tenon_text body,
                                                       int* status, tenon_string** answer);
/* Listens for HTTP, as the configuration's [server] says. `host` empty: the configuration's; `port`
 * -1: the configuration's (for a service without one, 127.0.0.1 and any free port), 0: any free
 * one. Sets the base URL, "http://127.0.0.1:8080"; the routes follow it: "/v1/models". */
TENON_API TENON_CHECKED tenon_error* tenon_service_listen(tenon_service* service, tenon_text host,
                                                          int port, tenon_string** url);
/* Lets HTTP answers end within `grace_ms`, then closes the port. */
TENON_API TENON_CHECKED tenon_error* tenon_service_stop_listening(tenon_service* service,
                                                                  uint32_t grace_ms);

/* ---- Engines of the caller ------------------------------------------------------------------- */

/* One answer that the caller's engine makes. Its functions may be called from any thread, one at a
 * time. */
typedef struct tenon_generation tenon_generation;

typedef struct tenon_engine {
  size_t size; /* sizeof(tenon_engine) */
  void* user;
  /* Begins an answer, and must return at once. `request`: {"max_tokens", "temperature", "top_p",
   * "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty",
   * "logit_bias", "ends"}, only the members that were given; "ends" are ids that end a turn besides
   * the vocabulary's. `matcher` is NULL if the answer is unconstrained. Otherwise fill its mask
   * before each token; tenon_generation_token() then accepts the token in it. If filling fails, the
   * rest is unconstrained. The matcher, the ids and `request` live until tenon_generation_end().
   * Returns 0, or another value if it cannot answer; then the request fails. */
  int (*start)(void* user, tenon_generation* generation, const int32_t* prompt, size_t count,
               tenon_text request, tenon_matcher* matcher);
  /* Says that the answer is not wanted any more: end it soon. From any thread, also while the
   * caller ends it: then `generation` is valid until this returns. May be NULL:
   * tenon_generation_token() and tenon_generation_is_cancelled() tell it, too. */
  void (*cancel)(void* user, tenon_generation* generation);
  uint32_t context_tokens; /* Prompt and answer together; at least 1. */
  uint32_t max_concurrent; /* Answers at a time, others wait; 0 means 1. */
} tenon_engine;

/* Adds a model that `engine` answers for; its `user` must live as long as the service and its
 * conversations. `vocab` must have a tokenizer. `chat_template` may be NULL: plain text. */
TENON_API TENON_CHECKED tenon_error* tenon_service_add_engine(tenon_service* service,
                                                              tenon_text name,
                                                              const tenon_engine* engine,
                                                              const tenon_vocab* vocab,
                                                              const tenon_template* chat_template);
/* The next token of the answer. Returns 0: go on; 1: no more is wanted, end it, because it was an
 * end token or the last that may come, or because the answer was cancelled. A token that the
 * matcher's mask did not allow ends the answer with an error. */
TENON_API int tenon_generation_token(tenon_generation* generation, int32_t token);
TENON_API int tenon_generation_is_cancelled(const tenon_generation* generation);
/* The last call for an answer, exactly once. `reason`: "stop", "length", "cancelled", or "error"
 * with a sentence in `message`. */
TENON_API void tenon_generation_end(tenon_generation* generation, tenon_text reason,
                                    tenon_text message);

/* ---- Conversations --------------------------------------------------------------------------- */

typedef struct tenon_conversation tenon_conversation;
typedef struct tenon_toolbox tenon_toolbox;

/* Called for each event of an answer, on the calling thread. Not 0: the answer is cancelled. */
typedef int (*tenon_event_fn)(void* user, const tenon_event* event);

/* `request`: a Chat Completions request without messages, or with those that the conversation
 * begins with (a system message). `model` may be left out if there is only one; `tool_choice` may
 * name tools of the toolbox of a later question. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_new(tenon_service* service,
                                                            tenon_text request,
                                                            tenon_conversation** conversation);
/* A branch: it shares the messages so far, and continues independently. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_copy(const tenon_conversation* conversation,
                                                             tenon_conversation** copy);
TENON_API void tenon_conversation_free(tenon_conversation* conversation);
/* Sends `message` ({"role", "content", ...}) and waits for the answer. With a toolbox (it may be
 * NULL) calls are run, and their results sent, until there is an answer without calls, or as
 * `limits` say: {"max_rounds", "max_time_s"}. `turn`: {"content", "reasoning_content",
 * "tool_calls", "finish_reason", "usage", "rounds", "diagnostics"} of the last answer, with the
 * calls that wait for results; the usage is that of all "rounds". `on_event` may be NULL. A turn
 * that fails changes nothing, unless tools have run: then submit no results ("[]") to go on with
 * theirs. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_send(
    tenon_conversation* conversation, tenon_text message, tenon_toolbox* tools, tenon_text limits,
    tenon_event_fn on_event, void* user, tenon_string** turn);
/* Sends the results of all calls of the last turn: [{"tool_call_id", "content", "is_error"}], in
 * any order. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_submit(
    tenon_conversation* conversation, tenon_text results, tenon_toolbox* tools, tenon_text limits,
    tenon_event_fn on_event, void* user, tenon_string** turn);
/* The calls that wait for results: a JSON array. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_pending(
    const tenon_conversation* conversation, tenon_string** calls);
/* Gives each waiting call the result `why`; the model is not asked. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_dismiss(tenon_conversation* conversation,
                                                                tenon_text why);
/* Ends the present question soon, with finish reason "cancelled". From any thread. */
TENON_API void tenon_conversation_cancel(tenon_conversation* conversation);
TENON_API void tenon_conversation_reset(tenon_conversation* conversation);
/* {"version": 1, "messages": [...]}, and "results" of tools that have run while other calls still
 * wait. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_save(const tenon_conversation* conversation,
                                                             tenon_string** saved);
TENON_API TENON_CHECKED tenon_error* tenon_conversation_restore(tenon_service* service,
                                                                tenon_text request,
                                                                tenon_text saved,
                                                                tenon_conversation** conversation);

/* One run of a tool; it lives until tenon_tool_call_end(). */
typedef struct tenon_tool_call tenon_tool_call;
/* Runs a tool: `arguments` is a JSON object that its schema allows. Called on a thread of the
 * toolbox, for several calls at a time; another thread may end the call later. */
typedef void (*tenon_tool_fn)(void* user, tenon_tool_call* call, tenon_text name,
                              tenon_text arguments);

/* `options`: {"max_concurrent", "time_limit_s", "max_result_bytes"}. */
TENON_API TENON_CHECKED tenon_error* tenon_toolbox_new(tenon_text options, tenon_toolbox** toolbox);
/* Cancels the running calls, and waits for them. */
TENON_API void tenon_toolbox_free(tenon_toolbox* toolbox);
TENON_API TENON_CHECKED tenon_error* tenon_toolbox_add(tenon_toolbox* toolbox, tenon_text tool,
                                                       tenon_tool_fn function, void* user);
/* Adds the tools of MCP servers: `servers` is the content of a file of `mcpServers`. */
TENON_API TENON_CHECKED tenon_error* tenon_toolbox_add_mcp(tenon_toolbox* toolbox,
                                                           tenon_text servers, tenon_text folder);
/* All tools, as in a request. */
TENON_API TENON_CHECKED tenon_error* tenon_toolbox_tools(const tenon_toolbox* toolbox,
                                                         tenon_string** tools);
TENON_API void tenon_tool_call_end(tenon_tool_call* call, tenon_text result, int is_error);
/* Whether its result is not wanted any more. */
TENON_API int tenon_tool_call_is_cancelled(const tenon_tool_call* call);

#ifdef __cplusplus
}
#endif

#endif
