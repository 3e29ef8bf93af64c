/* A conversation with a tool that runs here, without a server: the model is loaded into this
 * process, asks for the weather, is told of it, and answers.
 *
 *     cc talk.c $(pkg-config --cflags --libs tenon) -o talk && ./talk model.gguf */
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

/* The tool. Its arguments are JSON, and fit its schema. It may end the call later, from any
 * thread. */
static void get_weather(void* user, tenon_tool_call* call, tenon_text name, tenon_text arguments) {
  (void)user;
  printf("%s %s\n", name.data, arguments.data);
  tenon_tool_call_end(call, tenon_text_of("22 degrees and sunny"), 0);
}

/* What happens, as it happens. */
static int on_event(void* user, const tenon_event* event) {
  (void)user;
  if (event->type == TENON_EVENT_CONTENT) printf("%.*s", (int)event->text.size, event->text.data);
  if (event->type == TENON_EVENT_FINISH) printf("[%s]\n", event->name.data);
  return 0; /* anything else cancels the answer */
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "models/tenon-tiny.gguf";
  tenon_service* service = NULL;
  tenon_toolbox* tools = NULL;
  tenon_conversation* talk = NULL;
  tenon_string* turn = NULL;

  need(tenon_service_load(tenon_text_of(path), &service));
  need(tenon_toolbox_new(tenon_text_of("{\"time_limit_s\": 10}"), &tools));
  need(tenon_toolbox_add(tools,
                         tenon_text_of("{\"name\": \"get_weather\", \"parameters\": {"
                                       "  \"type\": \"object\", \"properties\": {"
                                       "  \"city\": {\"type\": \"string\"}},"
                                       "  \"required\": [\"city\"]}}"),
                         get_weather, NULL));

  /* The first answer is a call; a small model may find no end, so one is set, before which calls
   * are whole. */
  need(tenon_conversation_new(service,
                              tenon_text_of("{\"temperature\": 0, \"tool_choice\": \"required\","
                                            " \"max_tokens\": 100,"
                                            " \"tenon\": {\"close_calls\": true}}"),
                              &talk));
  need(tenon_conversation_send(
      talk, tenon_text_of("{\"role\": \"user\", \"content\": \"What is the weather in Paris?\"}"),
      tools, tenon_text_of("{\"max_rounds\": 4}"), on_event, NULL, &turn));
  printf("%s\n", tenon_string_text(turn).data);

  tenon_string_free(turn);
  tenon_conversation_free(talk);
  tenon_toolbox_free(tools);
  tenon_service_free(service);
  return 0;
}
