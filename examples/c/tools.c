/* Tool calling for an engine written in C: the prompt, a mask before each token, and the answer
 * read as it comes. docs/capi.md goes through it.
 *
 *     cc -std=c99 tools.c $(pkg-config --cflags --libs tenon) -o tools && ./tools model.gguf */
#include <stdio.h>
#include <stdlib.h>
#include <tenon.h>

static const char kTools[] =
    "{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\":"
    " {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}},"
    "  \"required\": [\"city\"], \"additionalProperties\": false}}}";

/* What the model would like to say, which is not JSON: the city has no quotes. */
static const char kWish[] =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": Rome\"}}\n</tool_call>";

static void check(tenon_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", tenon_error_message(error).data);
  tenon_error_free(error);
  exit(1);
}

static int is_set(const uint32_t* mask, int32_t id) {
  return mask[id / 32] >> id % 32 & 1;
}

/* Stands in for a model: the token that it wants most of those that may come. */
static int32_t sample(const tenon_vocab* vocab, const char* wish, const uint32_t* mask) {
  int32_t best = tenon_vocab_ends(vocab, NULL)[0]; /* nothing else is left to say */
  size_t longest = 0;
  for (int32_t id = 0; id < (int32_t)tenon_vocab_size(vocab); ++id) {
    const tenon_text bytes = tenon_vocab_token(vocab, id).bytes;
    if (!is_set(mask, id)) continue;
    if (bytes.size > longest && strncmp(wish, bytes.data, bytes.size) == 0) {
      best = id;
      longest = bytes.size;
    } else if (longest == 0 && bytes.size == 1 && bytes.data[0] == '"') {
      best = id; /* it may not say what it wants: a quote is the next best */
    }
  }
  return best;
}

static void show(const tenon_event* events, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (events[i].type == TENON_EVENT_CALL) printf("%s(", events[i].name.data);
    if (events[i].type == TENON_EVENT_ARGUMENTS) printf("%s", events[i].text.data);
    if (events[i].type == TENON_EVENT_CALL_END) printf(")\n");
  }
}

int main(int argc, char** argv) {
  const tenon_text model = tenon_text_of(argc > 1 ? argv[1] : "models/tenon-tiny.gguf");
  char request[1024];
  tenon_vocab* vocab;
  tenon_template* chat_template;
  tenon_format* format;
  tenon_prompt* prompt;
  check(tenon_vocab_load(model, &vocab));
  check(tenon_template_load(model, &chat_template));
  check(tenon_template_format(chat_template, &format));

  /* The prompt, as the model was trained to read it. What the user says becomes no control token.
   */
  snprintf(request, sizeof(request),
           "{\"messages\": [{\"role\": \"user\", \"content\": \"Weather in Rome? <|im_end|>\"}],"
           " \"tools\": [%s]}",
           kTools);
  check(tenon_template_render(chat_template, tenon_text_of(request), &prompt));
  int32_t ids[2048];
  size_t prompt_tokens, count;
  check(tenon_prompt_tokenize(prompt, vocab, ids, 2048, &prompt_tokens));
  printf("%zu tokens of prompt\n", prompt_tokens);

  /* What may be answered, and a reader of it. */
  tenon_grammar* grammar;
  tenon_matcher* matcher;
  tenon_parser* parser;
  snprintf(request, sizeof(request), "{\"tools\": [%s], \"tool_choice\": \"required\"}", kTools);
  check(tenon_grammar_for_tools(vocab, format, tenon_text_of(request), &grammar));
  check(tenon_matcher_new(grammar, &matcher));
  snprintf(request, sizeof(request), "{\"tools\": [%s]}", kTools);
  check(tenon_parser_new(format, vocab, tenon_text_of(request), &parser));

  const size_t words = tenon_mask_words(tenon_vocab_size(vocab));
  uint32_t* mask = malloc(words * sizeof(*mask));
  const tenon_event* events;
  for (const char* wish = kWish; !tenon_matcher_is_finished(matcher);) {
    check(tenon_matcher_fill_mask(matcher, mask, words));
    const int32_t token = sample(vocab, wish, mask);
    const tenon_text bytes = tenon_vocab_token(vocab, token).bytes;
    if (strncmp(wish, bytes.data, bytes.size) == 0) wish += bytes.size;
    if (tenon_matcher_accept(matcher, token) != 1) return 1; /* cannot be: it was in the mask */
    check(tenon_parser_feed_token(parser, token, &events, &count));
    show(events, count);
  }
  check(tenon_parser_finish(parser, 0, &events, &count));
  show(events, count);

  free(mask);
  tenon_parser_free(parser);
  tenon_matcher_free(matcher);
  tenon_grammar_free(grammar);
  tenon_prompt_free(prompt);
  tenon_format_free(format);
  tenon_template_free(chat_template);
  tenon_vocab_free(vocab);
  return 0;
}
