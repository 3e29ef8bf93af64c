#include "tenon/batch/grammar.h"

#include <string>
#include <utility>

#include "tenon/batch/grammar_request.h"
#include "tenon/batch/tool_request.h"
#include "tenon/capi/format.h"
#include "tenon/capi/handle.h"
#include "tenon/capi/matcher.h"
#include "tenon/capi/tools.h"
#include "tenon/capi/vocab.h"
#include "tenon/json/value.h"

namespace tenon::capi {
namespace {

struct CallsRequest {
  message::ChatRequest chat;
  std::string prompt_tail;  // the end of the prompt, which shows an open section
};

// Reads fields of a Chat Completions request, and two others: `prompt_tail`, and one of `tenon`'s.
Expected<CallsRequest> calls_request(tenon_text text) {
  auto members = object_in(text, "request",
                           {"tools", "tool_choice", "parallel_tool_calls", "response_format",
                            "argument_order", "prompt_tail"});
  if (!members) return Unexpected(members.error());
  auto tail = string_member(*members, "prompt_tail");
  if (!tail) return Unexpected(tail.error());
  members->erase("prompt_tail");
  if (const json::Value* const order = members->find("argument_order")) {
    json::Object own{{"argument_order", *order}};
    members->erase("argument_order");
    members->set("tenon", std::move(own));
  }
  auto chat = request_with(*std::move(members));
  if (!chat) return Unexpected(chat.error());
  return CallsRequest{*std::move(chat), *std::move(tail)};
}

Expected<json::Object> printed(tenon_text text, std::string_view to) {
  auto request = json_in(text, "request");
  if (!request) return Unexpected(request.error());
  json::Object* const members = request->if_object();
  if (members == nullptr) {
    return Unexpected(Error::at(Errc::invalid, "request", "must be a JSON object"));
  }
  // The same JSON as a line of `tenon grammar --batch`, so both answer alike.
  (*members)["to"] = to;
  return members->contains("tools") ? batch::print_calls(*members) : batch::print_line(*members);
}

}  // namespace
}  // namespace tenon::capi

namespace capi = tenon::capi;
namespace json = tenon::json;
using tenon::Errc;
using tenon::Error;
using tenon::Status;
using tenon::Unexpected;

tenon_error* tenon_grammar_compile(const tenon_vocab* vocab, tenon_text request,
                                   tenon_grammar** grammar) {
  capi::clear(grammar);
  return capi::guarded({{vocab, "vocab"}, {grammar, "grammar"}}, [&]() -> Status {
    auto made = vocab->vocabulary->grammar_of(capi::view(request));
    if (!made) return Unexpected(made.error());
    *grammar = new tenon_grammar{vocab->vocabulary, *std::move(made)};
    return {};
  });
}

// The same constraints as the server's for a request of these fields, so a program with its own
// engine gets the grammar that Tenon's engine would use.
tenon_error* tenon_grammar_for_tools(const tenon_vocab* vocab, const tenon_format* format,
                                     tenon_text request, tenon_grammar** grammar) {
  capi::clear(grammar);
  return capi::guarded(
      {{vocab, "vocab"}, {format, "format"}, {grammar, "grammar"}}, [&]() -> Status {
        const auto asked = capi::calls_request(request);
        if (!asked) return Unexpected(asked.error());
        if (const Status ready = vocab->vocabulary->check_ends(); !ready) return ready;
        const auto constraints = vocab->vocabulary->constraints_of(format->format);
        auto made = constraints->of(asked->chat, asked->prompt_tail);
        if (!made) return Unexpected(made.error().error);
        if (made->grammar == nullptr) {
          return Unexpected(
              made->diagnostics.empty()
                  ? Error{Errc::invalid,
                          "request: there is nothing to hold an answer to: give tools, to a format "
                          "that has calls, or a response_format"}
                  : Error{Errc::unsupported, made->diagnostics.front().message});
        }
        *grammar = new tenon_grammar{vocab->vocabulary, std::move(made->grammar)};
        return {};
      });
}

void tenon_grammar_free(tenon_grammar* grammar) {
  delete grammar;
}

tenon_error* tenon_grammar_relaxed(const tenon_grammar* grammar, tenon_string** relaxed) {
  capi::clear(relaxed);
  return capi::guarded({{grammar, "grammar"}, {relaxed, "relaxed"}}, [&]() -> Status {
    const json::Value list = tenon::batch::answer_of(grammar->grammar->relaxed());
    *relaxed = capi::new_string(json::to_string(list));
    return {};
  });
}

// No vocabulary is needed: a printed grammar is about text.
tenon_error* tenon_grammar_print(tenon_text request, tenon_text to, tenon_string** text,
                                 tenon_string** relaxed) {
  capi::clear(text, relaxed);
  return capi::guarded({{text, "text"}}, [&]() -> Status {
    const auto answer = capi::printed(request, capi::view(to));
    if (!answer) return Unexpected(answer.error());
    auto printed =
        std::unique_ptr<tenon_string>(capi::new_string(*answer->find("grammar")->if_string()));
    if (relaxed != nullptr) {
      *relaxed = capi::new_string(json::to_string(*answer->find("relaxed")));
    }
    *text = printed.release();
    return {};
  });
}
