/* Tenon's C interface: the one that stays as it is from version to version.
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
 * Handles. What `_load`, `_compile`, `_new`, `_open` and `_copy` give belongs to the caller, who
 * ends it with the type's `_free`; NULL may be freed. What a handle was made of lives on inside of
 * it: a vocabulary may be freed before its grammars.
 *
 * Texts. Bytes and their number, UTF-8, not ended by NUL on the way in, where NULL is the empty
 * text. Those that come back in a tenon_text belong to the handle that gave them, and are good
 * until its next call unless it says otherwise; a tenon_string is the caller's. Both end in a NUL
 * that does not count. Requests and options are JSON texts in the shapes that docs/capi.md lists;
 * an empty text is an object without members, and a member that nobody knows is refused by name.
 *
 * Errors. A function that can fail returns a tenon_error, NULL if it has not failed; then what it
 * gives through pointers is set, otherwise it is NULL or 0. Nothing is thrown, nothing ends the
 * process, and a NULL handle is an error with TENON_INVALID; a function that cannot fail gives 0 or
 * nothing for it.
 *
 * Threads. Vocabularies, schemas, grammars, templates, formats, services: any number of threads at
 * a time. Matchers, parsers, menders, conversations: one at a time. Where something else holds, it
 * says so.
 *
 * A child of fork() has none of the library's threads: what was opened before, of services, calls,
 * conversations and toolboxes, is neither used nor freed there. Open them after it.
 *
 * Callbacks come from the library's threads unless it says otherwise, must not throw, and must not
 * free the handle that calls them.
 *
 * Structures that may grow at their end in later versions say their size first: an array of events
 * is walked with that of its first, and what the caller fills has its sizeof in `size`. tenon_text,
 * tenon_token and tenon_span stay as they are. */
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

/* That of this header; tenon_version() is that of the library: "0.1.0". The same major version
 * reads the same programs. */
#define TENON_VERSION_MAJOR 0
#define TENON_VERSION_MINOR 1
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
  TENON_OK = 0,             /* Of NULL: nothing has failed. */
  TENON_INVALID = 1,        /* The input breaks its own rules: another try cannot help. */
  TENON_UNSUPPORTED = 2,    /* It is well formed, but outside of what Tenon does. */
  TENON_LIMIT_EXCEEDED = 3, /* A limit was reached; a higher one may help. */
  TENON_UNSATISFIABLE = 4,  /* Nothing can ever fit it. */
  TENON_UNAVAILABLE = 5,    /* A server, a file or the system failed: another try may help. */
  TENON_INTERNAL = 6        /* No memory, or a mistake of ours. */
} tenon_code;

typedef struct tenon_error tenon_error;
TENON_API tenon_code tenon_error_code(const tenon_error* error);
/* A sentence: what is wrong, where, and how to mend it. */
TENON_API tenon_text tenon_error_message(const tenon_error* error);
TENON_API void tenon_error_free(tenon_error* error);

typedef enum tenon_log_level {
  TENON_LOG_TRACE = 0,
  TENON_LOG_DEBUG = 1,
  TENON_LOG_INFO = 2,
  TENON_LOG_WARNING = 3,
  TENON_LOG_ERROR = 4
} tenon_log_level;
/* Where the library's log goes from now on, lines below `least` left out; NULL: nowhere, as at the
 * start. Comes from any thread, several at a time; once this returns, the one before is called no
 * more. Not from within `log`, which calls nothing of the library. */
typedef void (*tenon_log_fn)(void* user, tenon_log_level level, tenon_text line);
TENON_API void tenon_set_log(tenon_log_fn log, void* user, tenon_log_level least);

/* ---- Vocabularies ---------------------------------------------------------------------------- */

/* Which bytes each token id stands for; with a tokenizer, texts to ids too. */
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

/* Of a GGUF file, a tokenizer.json, or a folder that has one of them. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_load(tenon_text path, tenon_vocab** vocab);
/* Of a tokenizer.json that is in memory; `config` is a tokenizer_config.json, or empty. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_parse(tenon_text tokenizer_json, tenon_text config,
                                                       tenon_vocab** vocab);
/* Of a tiktoken file that is in memory; `options`: {"pattern", "special": {text: id}, "bos", "eos",
 * "adds_bos"}. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_parse_tiktoken(tenon_text file, tenon_text options,
                                                                tenon_vocab** vocab);
/* Of tokens by id, for an engine with a tokenizer of its own: tenon_vocab_encode() fails then.
 * Each byte that UTF-8 uses is a token by itself. `ends`: ids that end a model's turn. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_new(const tenon_token* tokens, size_t count,
                                                     const int32_t* ends, size_t end_count,
                                                     tenon_vocab** vocab);
/* The same with more ids that end a model's turn: those that its files do not name. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_with_ends(const tenon_vocab* vocab,
                                                           const int32_t* ends, size_t end_count,
                                                           tenon_vocab** with_ends);
TENON_API void tenon_vocab_free(tenon_vocab* vocab);

TENON_API size_t tenon_vocab_size(const tenon_vocab* vocab);
/* Good as long as the vocabulary; empty and TENON_TOKEN_UNUSED for an id that is none. */
TENON_API tenon_token tenon_vocab_token(const tenon_vocab* vocab, int32_t id);
/* The ids that end a model's turn; good as long as the vocabulary. */
TENON_API const int32_t* tenon_vocab_ends(const tenon_vocab* vocab, size_t* count);
/* -1: there is none. */
TENON_API int32_t tenon_vocab_bos(const tenon_vocab* vocab);
TENON_API int32_t tenon_vocab_control(const tenon_vocab* vocab, tenon_text name);
/* Writes the first `capacity` ids and gives the number of all. `controls`: texts of control tokens
 * become these; leave it 0 for text from users, tools and schemas. */
TENON_API TENON_CHECKED tenon_error* tenon_vocab_encode(const tenon_vocab* vocab, tenon_text text,
                                                        int controls, int32_t* ids, size_t capacity,
                                                        size_t* count);
TENON_API TENON_CHECKED tenon_error* tenon_vocab_decode(const tenon_vocab* vocab,
                                                        const int32_t* ids, size_t count,
                                                        tenon_string** text);

/* ---- Schemas --------------------------------------------------------------------------------- */

typedef struct tenon_schema tenon_schema;
/* `options`: {"draft", "documents", "assert_format"}, as `tenon validate` has them. */
TENON_API TENON_CHECKED tenon_error* tenon_schema_compile(tenon_text schema, tenon_text options,
                                                          tenon_schema** compiled);
TENON_API void tenon_schema_free(tenon_schema* schema);
/* Every violation, as JSON: [{"instance_path", "schema_path", "message"}]; "[]": it is valid. Fails
 * where `instance` is no JSON. */
TENON_API TENON_CHECKED tenon_error* tenon_schema_validate(const tenon_schema* schema,
                                                           tenon_text instance,
                                                           tenon_string** violations);
/* The verdict alone, 1 or 0. */
TENON_API TENON_CHECKED tenon_error* tenon_schema_is_valid(const tenon_schema* schema,
                                                           tenon_text instance, int* is_valid);

/* ---- Grammars -------------------------------------------------------------------------------- */

/* A language over the tokens of a vocabulary. */
typedef struct tenon_grammar tenon_grammar;
typedef struct tenon_format tenon_format;

/* `request` is what a line of `tenon mask --batch` has: {"schema", ...} or {"grammar", "syntax":
 * "gbnf" | "ebnf" | "lark" | "regex" | "structural_tag"}. A vocabulary remembers its last grammars:
 * the same request again costs next to nothing. */
TENON_API TENON_CHECKED tenon_error* tenon_grammar_compile(const tenon_vocab* vocab,
                                                           tenon_text request,
                                                           tenon_grammar** grammar);
/* What a model may answer that calls tools in this format. `request`: {"tools", "tool_choice",
 * "parallel_tool_calls", "response_format", "argument_order", "prompt_tail"}, as a Chat Completions
 * request has them. */
TENON_API TENON_CHECKED tenon_error* tenon_grammar_for_tools(const tenon_vocab* vocab,
                                                             const tenon_format* format,
                                                             tenon_text request,
                                                             tenon_grammar** grammar);
TENON_API void tenon_grammar_free(tenon_grammar* grammar);
/* Where the grammar holds less than its schema says, as JSON: [{"schema_path", "keyword",
 * "message"}]. */
TENON_API TENON_CHECKED tenon_error* tenon_grammar_relaxed(const tenon_grammar* grammar,
                                                           tenon_string** relaxed);
/* The grammar of `request` (or of calls: {"tools", "format", ...}) in another engine's language:
 * `to` is "gbnf", "ebnf", "lark" or "json-schema". `relaxed`: what that language cannot say, as
 * above; may be NULL. */
TENON_API TENON_CHECKED tenon_error* tenon_grammar_print(tenon_text request, tenon_text to,
                                                         tenon_string** text,
                                                         tenon_string** relaxed);

/* ---- Matchers -------------------------------------------------------------------------------- */

/* Follows one text, token by token. Masks have a bit for each token id, the lowest bit of the first
 * word for id 0: set, if the token can come next. */
typedef struct tenon_matcher tenon_matcher;

/* 32-bit words of a mask for so many tokens. */
static inline size_t tenon_mask_words(size_t tokens) {
  return (tokens + 31) / 32;
}

TENON_API TENON_CHECKED tenon_error* tenon_matcher_new(const tenon_grammar* grammar,
                                                       tenon_matcher** matcher);
/* A fork: both go their own ways. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_copy(const tenon_matcher* matcher,
                                                        tenon_matcher** copy);
TENON_API void tenon_matcher_free(tenon_matcher* matcher);

/* Writes `words` words, at least those of the vocabulary; what is over (an engine's padding)
 * becomes 0. Fails where a limit of the grammar is reached. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_fill_mask(tenon_matcher* matcher, uint32_t* mask,
                                                             size_t words);
/* 1 if it could come next, and then it has; 0 if not, and nothing has changed; -1: that cannot be
 * told, see tenon_matcher_error(). */
TENON_API int tenon_matcher_accept(tenon_matcher* matcher, int32_t token);
TENON_API int tenon_matcher_accept_bytes(tenon_matcher* matcher, tenon_text bytes);
/* Why the last call gave -1, or nothing where there might be something; empty: it did not. */
TENON_API tenon_text tenon_matcher_error(const tenon_matcher* matcher);
/* How many of `tokens` could come one after the other, as far as that can be told. Accepts none. */
TENON_API size_t tenon_matcher_validate_draft(tenon_matcher* matcher, const int32_t* tokens,
                                              size_t count);
/* Takes back the last `count` that were accepted. Fails where there are fewer. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_rollback(tenon_matcher* matcher, size_t count);
TENON_API size_t tenon_matcher_accepted_count(const tenon_matcher* matcher);
/* Back to the beginning. */
TENON_API void tenon_matcher_reset(tenon_matcher* matcher);
/* The text may end here. */
TENON_API int tenon_matcher_is_accepting(tenon_matcher* matcher);
/* The text must end here. */
TENON_API int tenon_matcher_is_complete(tenon_matcher* matcher);
/* An end token has been accepted. */
TENON_API int tenon_matcher_is_finished(const tenon_matcher* matcher);
/* Bytes that must come next, at most `max_bytes` (0: as many as there are, up to 64 KiB). */
TENON_API tenon_text tenon_matcher_forced_bytes(tenon_matcher* matcher, size_t max_bytes);
/* The same as ids, as the model's tokenizer writes them. Writes and gives at most `capacity` of
 * them, the first; there are never more than 65,536. Needs a tokenizer. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_forced_tokens(tenon_matcher* matcher,
                                                                 int32_t* ids, size_t capacity,
                                                                 size_t* count);
/* Few ids with which the text comes to a place where it may end; none where it may end here. Fails
 * with TENON_LIMIT_EXCEEDED, and a `count` of 0, where `capacity` are not enough, or the search
 * takes too long; there are never more than 65,536. */
TENON_API TENON_CHECKED tenon_error* tenon_matcher_tokens_to_end(tenon_matcher* matcher,
                                                                 int32_t* ids, size_t capacity,
                                                                 size_t* count);

/* ---- Formats --------------------------------------------------------------------------------- */

/* The format called `name`, or with that alias. */
TENON_API TENON_CHECKED tenon_error* tenon_format_find(tenon_text name, tenon_format** format);
/* Of a definition (TOML, docs/formats.md). */
TENON_API TENON_CHECKED tenon_error* tenon_format_compile(tenon_text definition,
                                                          tenon_format** format);
/* Of the response_template in a tokenizer_config.json. */
TENON_API TENON_CHECKED tenon_error* tenon_format_import(tenon_text response_template,
                                                         tenon_format** format);
TENON_API void tenon_format_free(tenon_format* format);
/* Lets tenon_format_find() and detection know it; one of that name is replaced. */
TENON_API TENON_CHECKED tenon_error* tenon_format_register(const tenon_format* format);
/* {"name", "aliases", "parallel"}. */
TENON_API TENON_CHECKED tenon_error* tenon_format_info(const tenon_format* format,
                                                       tenon_string** info);
/* The names of all, as a JSON array. */
TENON_API TENON_CHECKED tenon_error* tenon_format_names(tenon_string** names);
/* The format of a model. `clues`: {"chat_template", "bos_token", "eos_token", "model_name",
 * "response_template"}, none of them needed; `vocab` may be NULL. `format` is NULL where nothing
 * tells. `evidence`: {"by", "evidence"}; may be NULL. */
TENON_API TENON_CHECKED tenon_error* tenon_format_detect(tenon_text clues, const tenon_vocab* vocab,
                                                         tenon_format** format,
                                                         tenon_string** evidence);
/* What a model writes for `calls`, a JSON array as messages have it in "tool_calls". */
TENON_API TENON_CHECKED tenon_error* tenon_format_render_calls(const tenon_format* format,
                                                               tenon_text calls,
                                                               tenon_string** text);
/* How a model that was not trained for tools is told of `tools`, a JSON array. */
TENON_API TENON_CHECKED tenon_error* tenon_format_describe_tools(const tenon_format* format,
                                                                 tenon_text tools,
                                                                 tenon_string** text);

/* ---- Chat templates -------------------------------------------------------------------------- */

typedef struct tenon_template tenon_template;
typedef struct tenon_prompt tenon_prompt;

/* A piece of a prompt: bytes [begin, end) of its text. Control tokens may be made of the template's
 * own text alone. */
typedef struct tenon_span {
  size_t begin;
  size_t end;
  int is_data; /* 1: from a message, a tool or another variable; 0: written by the template. */
} tenon_span;

/* `options`: {"name", "bos_token", "eos_token", "model_name", "format", "generic_fallback",
 * "superset"}. */
TENON_API TENON_CHECKED tenon_error* tenon_template_compile(tenon_text source, tenon_text options,
                                                            tenon_template** compiled);
/* Of a GGUF file, a model's folder, its tokenizer_config.json, or a file with a template. */
TENON_API TENON_CHECKED tenon_error* tenon_template_load(tenon_text path,
                                                         tenon_template** compiled);
TENON_API void tenon_template_free(tenon_template* chat_template);
/* NULL: its models do not call tools. The caller's. */
TENON_API TENON_CHECKED tenon_error* tenon_template_format(const tenon_template* chat_template,
                                                           tenon_format** format);
/* What it can take, as `tenon inspect --json` has it. */
TENON_API TENON_CHECKED tenon_error* tenon_template_capabilities(
    const tenon_template* chat_template, tenon_string** capabilities);
/* `request`: {"messages", "tools", "add_generation_prompt", "shape", "now", and any variable of the
 * template}. */
TENON_API TENON_CHECKED tenon_error* tenon_template_render(const tenon_template* chat_template,
                                                           tenon_text request,
                                                           tenon_prompt** prompt);
TENON_API void tenon_prompt_free(tenon_prompt* prompt);
/* Good as long as the prompt, as the next. */
TENON_API tenon_text tenon_prompt_text(const tenon_prompt* prompt);
TENON_API const tenon_span* tenon_prompt_spans(const tenon_prompt* prompt, size_t* count);
/* A sentence for each thing that was rewritten so that the template takes it: a JSON array. */
TENON_API TENON_CHECKED tenon_error* tenon_prompt_shaping(const tenon_prompt* prompt,
                                                          tenon_string** sentences);
/* As tenon_vocab_encode(): control tokens where the template wrote them, and nowhere else. */
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
  TENON_EVENT_DIAGNOSTIC = 6, /* name: a code that stays; text: a sentence for a maintainer */
  TENON_EVENT_FINISH = 7      /* Of answers alone. name: why; text: {"usage", "tenon", ...} */
} tenon_event_type;

typedef struct tenon_event {
  uint32_t size; /* Of this structure, in bytes. */
  uint32_t type; /* A tenon_event_type; leave out those that you do not know. */
  uint32_t call; /* Which call of the answer, from 0. */
  uint32_t is_incomplete;
  tenon_text text;
  tenon_text id;
  tenon_text name;
} tenon_event;

/* Turns a model's output, cut anywhere, into events. */
typedef struct tenon_parser tenon_parser;

/* `options`: {"tools": [...], "fallbacks": true, "on_unknown_tool": "content" | "repair" |
 * "forward", "prompt_tail", "parse_reasoning", "id_prefix"}. With a `vocab` markers that are
 * control tokens are known by id alone; NULL: by text. */
TENON_API TENON_CHECKED tenon_error* tenon_parser_new(const tenon_format* format,
                                                      const tenon_vocab* vocab, tenon_text options,
                                                      tenon_parser** parser);
TENON_API void tenon_parser_free(tenon_parser* parser);
/* Each gives the events that come with it, good until the next call. `is_control`: the bytes are
 * the whole text of a control token. */
TENON_API TENON_CHECKED tenon_error* tenon_parser_feed(tenon_parser* parser, tenon_text bytes,
                                                       int is_control, const tenon_event** events,
                                                       size_t* count);
TENON_API TENON_CHECKED tenon_error* tenon_parser_feed_token(tenon_parser* parser, int32_t token,
                                                             const tenon_event** events,
                                                             size_t* count);
/* The output has ended; `is_truncated`: by length. Nothing but tenon_parser_reset() and _free() may
 * follow. */
TENON_API TENON_CHECKED tenon_error* tenon_parser_finish(tenon_parser* parser, int is_truncated,
                                                         const tenon_event** events, size_t* count);
TENON_API void tenon_parser_reset(tenon_parser* parser);

/* ---- Repair ---------------------------------------------------------------------------------- */

/* Mends the arguments of one call by their schema while they are written. */
typedef struct tenon_mender tenon_mender;

/* `tool` in the shape of Chat Completions; `rules` as docs/repair.md has them (TOML), empty: those
 * that come with Tenon. */
TENON_API TENON_CHECKED tenon_error* tenon_mender_new(tenon_text tool, tenon_text rules,
                                                      tenon_mender** mender);
TENON_API void tenon_mender_free(tenon_mender* mender);
/* Gives whole characters: one that is begun comes with the next call. */
TENON_API TENON_CHECKED tenon_error* tenon_mender_feed(tenon_mender* mender, tenon_text arguments,
                                                       tenon_text* mended);
TENON_API TENON_CHECKED tenon_error* tenon_mender_finish(tenon_mender* mender, int is_incomplete,
                                                         tenon_text* mended);
/* [{"kind", "path", "message"}]. */
TENON_API TENON_CHECKED tenon_error* tenon_mender_repairs(const tenon_mender* mender,
                                                          tenon_string** repairs);

/* ---- Services: models that answer ------------------------------------------------------------ */

/* The models of a configuration, behind the same API that `tenon serve` has, in this process. */
typedef struct tenon_service tenon_service;
typedef struct tenon_call tenon_call;

/* `config`: the text of a tenon.toml, files in it seen from `folder`. Empty: the bundled model.
 * Another text has the models that it names; tenon_service_add_engine() adds to them. */
TENON_API TENON_CHECKED tenon_error* tenon_service_open(tenon_text config, tenon_text folder,
                                                        tenon_service** service);
/* Of a tenon.toml, or of a GGUF file alone. */
TENON_API TENON_CHECKED tenon_error* tenon_service_load(tenon_text path, tenon_service** service);
/* Ends what is under way, but for conversations, which may go on. No other call of the service may
 * be under way: tenon_service_shut_down() ends those. */
TENON_API void tenon_service_free(tenon_service* service);
/* Ends what is under way, as tenon_service_free() does; requests that come later are refused. From
 * any thread, while others are in calls of the service, which return soon. */
TENON_API void tenon_service_shut_down(tenon_service* service);

/* A request as HTTP has it: path ("/v1/chat/completions") and JSON body; "GET" or "POST" or
 * "DELETE". `on_piece` gets the answer's body as it comes (whole, or server-sent events where the
 * body has "stream": true), then once nothing, with `is_end` 1, or 2 where the answer is not
 * whole: it was cancelled, or cut since the service ends. `status` is HTTP's. */
typedef void (*tenon_piece_fn)(void* user, int status, tenon_text piece, int is_end);
TENON_API TENON_CHECKED tenon_error* tenon_service_call(tenon_service* service, tenon_text method,
                                                        tenon_text path, tenon_text body,
                                                        tenon_piece_fn on_piece, void* user,
                                                        tenon_call** call);
/* Where `on_piece` is NULL: waits up to `timeout_ms` for more of the answer, without a thread of
 * the call's. 0: `piece` is that, or NULL where nothing has come yet. Else it has ended: 1, or 2
 * where it is not whole. One thread at a time. */
TENON_API int tenon_call_next(tenon_call* call, uint32_t timeout_ms, int* status,
                              tenon_string** piece);
/* Cancels what has not ended, and waits until `on_piece` comes no more. Not from `on_piece`, nor
 * while another thread is in tenon_call_next(). */
TENON_API void tenon_call_free(tenon_call* call);
/* Ends it soon: `on_piece` gets its end, 2, perhaps after a piece that is on its way. From any
 * thread. `status` is 0 where the answer had not begun. */
TENON_API void tenon_call_cancel(tenon_call* call);
/* The same, and waits for the whole answer. Fails with TENON_UNAVAILABLE where it is cut. */
TENON_API TENON_CHECKED tenon_error* tenon_service_ask(tenon_service* service, tenon_text method,
                                                       tenon_text path, tenon_text body,
                                                       int* status, tenon_string** answer);
/* Lets others in by HTTP, as the configuration's [server] says. `host` empty: the configuration's;
 * `port` -1: the same (a service that was opened without one: 127.0.0.1, any free port), 0: any
 * free one. Gives the base URL, "http://127.0.0.1:8080", behind which the routes begin:
 * "/v1/models". */
TENON_API TENON_CHECKED tenon_error* tenon_service_listen(tenon_service* service, tenon_text host,
                                                          int port, tenon_string** url);
/* Lets answers under way end within `grace_ms`, then closes the port. */
TENON_API TENON_CHECKED tenon_error* tenon_service_stop_listening(tenon_service* service,
                                                                  uint32_t grace_ms);

/* ---- Engines of the caller ------------------------------------------------------------------- */

/* One answer that the caller's engine makes. Its functions may be called from any thread, one at a
 * time. */
typedef struct tenon_generation tenon_generation;

typedef struct tenon_engine {
  size_t size; /* sizeof(tenon_engine) */
  void* user;
  /* Begin to answer, and return at once. `request`: {"max_tokens", "temperature", "top_p", "top_k",
   * "min_p", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias",
   * "ends"}: what was said alone; "ends" are ids that end a turn beside the vocabulary's. `matcher`
   * is NULL where the answer is free; else fill its mask before each token, which
   * tenon_generation_token() then takes into it; where filling fails the rest is free. It, the ids
   * and `request` live until tenon_generation_end(). Not 0: it cannot, and the request fails. */
  int (*start)(void* user, tenon_generation* generation, const int32_t* prompt, size_t count,
               tenon_text request, tenon_matcher* matcher);
  /* The answer is not wanted any more: end it soon. From any thread, also while the caller ends it
   * by itself: then `generation` is good until this returns. NULL: tenon_generation_token() and
   * tenon_generation_is_cancelled() tell it. */
  void (*cancel)(void* user, tenon_generation* generation);
  uint32_t context_tokens; /* Of prompt and answer together; at least 1. */
  uint32_t max_concurrent; /* Answers at a time, others wait; 0 is 1. */
} tenon_engine;

/* Adds a model that is answered by `engine`, whose `user` lives as long as the service and its
 * conversations. `vocab` has a tokenizer. `chat_template` may be NULL: plain text. */
TENON_API TENON_CHECKED tenon_error* tenon_service_add_engine(tenon_service* service,
                                                              tenon_text name,
                                                              const tenon_engine* engine,
                                                              const tenon_vocab* vocab,
                                                              const tenon_template* chat_template);
/* The next token of the answer. 0: go on; 1: nothing more is wanted, since it was an end token, or
 * the last that may come, or the answer was cancelled: end it. A token that the matcher's mask did
 * not allow ends the answer as an error. */
TENON_API int tenon_generation_token(tenon_generation* generation, int32_t token);
TENON_API int tenon_generation_is_cancelled(const tenon_generation* generation);
/* The last call of an answer, once. `reason`: "stop", "length", "cancelled", or "error" with a
 * sentence in `message`. */
TENON_API void tenon_generation_end(tenon_generation* generation, tenon_text reason,
                                    tenon_text message);

/* ---- Conversations --------------------------------------------------------------------------- */

typedef struct tenon_conversation tenon_conversation;
typedef struct tenon_toolbox tenon_toolbox;

/* Called for each event of an answer, from the thread that asks. Not 0: the answer is cancelled. */
typedef int (*tenon_event_fn)(void* user, const tenon_event* event);

/* `request`: a Chat Completions request without messages, or with those that it begins with (a
 * system message). `model` may be left out where there is only one; `tool_choice` may be of tools
 * that the toolbox of a question has. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_new(tenon_service* service,
                                                            tenon_text request,
                                                            tenon_conversation** conversation);
/* A branch: it shares what was said so far, and goes its own way. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_copy(const tenon_conversation* conversation,
                                                             tenon_conversation** copy);
TENON_API void tenon_conversation_free(tenon_conversation* conversation);
/* Says `message` ({"role", "content", ...}) and waits for the answer; with a toolbox (or NULL)
 * calls are run and their results given until there is an answer without calls, or as `limits` say:
 * {"max_rounds", "max_time_s"}. `turn`: {"content", "reasoning_content", "tool_calls",
 * "finish_reason", "usage", "rounds", "diagnostics"}: of the last answer, with the calls that wait
 * for results; the usage is that of all "rounds". `on_event` may be NULL. A turn that fails changes
 * nothing, unless tools have run: then submitting no results ("[]") goes on with theirs. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_send(
    tenon_conversation* conversation, tenon_text message, tenon_toolbox* tools, tenon_text limits,
    tenon_event_fn on_event, void* user, tenon_string** turn);
/* The results of all calls of the last turn: [{"tool_call_id", "content", "is_error"}], in any
 * order. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_submit(
    tenon_conversation* conversation, tenon_text results, tenon_toolbox* tools, tenon_text limits,
    tenon_event_fn on_event, void* user, tenon_string** turn);
/* Calls that wait for results: a JSON array. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_pending(
    const tenon_conversation* conversation, tenon_string** calls);
/* Each of them has `why` as its result; the model is not asked. */
TENON_API TENON_CHECKED tenon_error* tenon_conversation_dismiss(tenon_conversation* conversation,
                                                                tenon_text why);
/* Ends what is asked soon, with finish reason "cancelled". From any thread. */
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
/* Runs a tool: `arguments` is a JSON object that fits its schema. From a thread of the toolbox, for
 * several calls at a time; it may end the call from another thread later. */
typedef void (*tenon_tool_fn)(void* user, tenon_tool_call* call, tenon_text name,
                              tenon_text arguments);

/* `options`: {"max_concurrent", "time_limit_s", "max_result_bytes"}. */
TENON_API TENON_CHECKED tenon_error* tenon_toolbox_new(tenon_text options, tenon_toolbox** toolbox);
/* Cancels what runs, and waits for it. */
TENON_API void tenon_toolbox_free(tenon_toolbox* toolbox);
TENON_API TENON_CHECKED tenon_error* tenon_toolbox_add(tenon_toolbox* toolbox, tenon_text tool,
                                                       tenon_tool_fn function, void* user);
/* The tools of MCP servers: `servers` is what a file of `mcpServers` has. */
TENON_API TENON_CHECKED tenon_error* tenon_toolbox_add_mcp(tenon_toolbox* toolbox,
                                                           tenon_text servers, tenon_text folder);
/* All tools, as requests have them. */
TENON_API TENON_CHECKED tenon_error* tenon_toolbox_tools(const tenon_toolbox* toolbox,
                                                         tenon_string** tools);
TENON_API void tenon_tool_call_end(tenon_tool_call* call, tenon_text result, int is_error);
/* Its result is not wanted any more. */
TENON_API int tenon_tool_call_is_cancelled(const tenon_tool_call* call);

#ifdef __cplusplus
}
#endif

#endif
