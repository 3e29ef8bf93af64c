/* An engine of one's own behind Tenon's API: requests, templates, tool calls and masks are Tenon's,
 * the tokens are ours. This one knows nothing: it takes the last token of the vocabulary that may
 * come. What it answers fits the schema all the same.
 *
 *     cc engine.c $(pkg-config --cflags --libs tenon) -o engine && ./engine model.gguf */
#include <stdio.h>
#include <stdlib.h>
#include <tenon.h>

/* Ends the program where a call has failed. */
static void need(tenon_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", tenon_error_message(error).data);
  tenon_error_free(error);
  exit(1);
}

struct model {
  int32_t size; /* of the vocabulary */
  int32_t end;  /* the token that ends a turn */
};

/* A real engine puts the request into its batch here, and hands in tokens from its own thread. */
static int start(void* user, tenon_generation* generation, const int32_t* prompt, size_t count,
                 tenon_text request, tenon_matcher* matcher) {
  const struct model* model = user;
  const size_t words = tenon_mask_words((size_t)model->size);
  uint32_t* mask = malloc(words * sizeof *mask);
  int goes_on = mask != NULL;
  (void)prompt, (void)count, (void)request;
  while (goes_on) {
    int32_t token = model->end; /* where nothing holds the answer, it has nothing to say */
    if (matcher != NULL) {
      tenon_error* error = tenon_matcher_fill_mask(matcher, mask, words);
      if (error == NULL) {
        token = model->size - 1;
        while ((mask[token / 32] >> (token % 32) & 1) == 0) --token;
      }
      tenon_error_free(error);
    }
    goes_on = tenon_generation_token(generation, token) == 0;
  }
  free(mask);
  tenon_generation_end(generation, tenon_text_of("stop"), tenon_text_of(""));
  return 0;
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "models/tenon-tiny.gguf";
  tenon_vocab* vocab = NULL;
  tenon_template* chat_template = NULL;
  tenon_service* service = NULL;
  tenon_string* answer = NULL;
  tenon_engine engine = {0};
  struct model model;
  size_t count = 0;
  int status = 0;

  need(tenon_vocab_load(tenon_text_of(path), &vocab));
  need(tenon_template_load(tenon_text_of(path), &chat_template));
  model.size = (int32_t)tenon_vocab_size(vocab);
  model.end = tenon_vocab_ends(vocab, &count)[0];

  /* A service without models of its own, and ours. */
  need(tenon_service_open(tenon_text_of("[server]"), tenon_text_of(""), &service));
  engine.size = sizeof engine;
  engine.user = &model;
  engine.start = start;
  engine.context_tokens = 4096;
  engine.max_concurrent = 1;
  need(tenon_service_add_engine(service, tenon_text_of("last"), &engine, vocab, chat_template));

  need(tenon_service_ask(
      service, tenon_text_of("POST"), tenon_text_of("/v1/chat/completions"),
      tenon_text_of("{\"model\": \"last\", \"messages\": [{\"role\": \"user\", \"content\":"
                    "  \"How is the weather?\"}], \"response_format\": {\"type\": \"json_schema\","
                    "  \"json_schema\": {\"name\": \"weather\", \"schema\": {\"type\": \"object\","
                    "  \"properties\": {\"city\": {\"enum\": [\"Rome\", \"Oslo\"]},"
                    "  \"is_warm\": {\"type\": \"boolean\"}},"
                    "  \"required\": [\"city\", \"is_warm\"]}}}}"),
      &status, &answer));
  printf("%d %s\n", status, tenon_string_text(answer).data);

  tenon_string_free(answer);
  tenon_service_free(service);
  tenon_template_free(chat_template);
  tenon_vocab_free(vocab);
  return status == 200 ? 0 : 1;
}
