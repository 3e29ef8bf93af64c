#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

/// The way out, whatever the dialect.
namespace tenon::api {

/// Writes the events of one answer down in one client dialect: as a stream, or kept and written as
/// one document. Serves one answer, from one thread at a time. What a stream gets are whole
/// server-sent events, appended to `out`.
///
///     encoder.begin(out);                            // of a stream
///     encoder.add(choice, event, logprobs, out);     // each event of each choice
///     encoder.end(usage, out);                       // or fail(error, out)
///
///     encoder.keep(choice, event, logprobs);         // of a whole answer
///     respond(encoder.whole(usage));
class AnswerEncoder {
 public:
  virtual ~AnswerEncoder() = default;
  [[nodiscard]] virtual Dialect dialect() const = 0;
  /// end() and whole() wait for the disk: they are called where nobody waits for them. begin() may
  /// then come at the same time as end().
  [[nodiscard]] virtual bool ends_slowly() const { return false; }

  /// What its fields are called, where Chat Completions calls them otherwise.
  [[nodiscard]] virtual std::span<const FieldName> field_names() const = 0;

  /// Before begin(), where it is known so early: the prompt has so many tokens.
  virtual void set_prompt_tokens(std::uint64_t /*count*/) {}
  virtual void begin(std::string& out) = 0;
  virtual void add(unsigned choice, const message::ChatEvent& event,
                   const std::vector<message::TokenLogprob>& logprobs, std::string& out) = 0;
  /// `usage` is that of all choices together.
  virtual void end(const message::Usage& usage, std::string& out) = 0;
  virtual void fail(const ApiError& error, std::string& out) = 0;
  /// Something without meaning, for a stream that has been silent for long.
  virtual void keep_alive(std::string& out) = 0;

  virtual void keep(unsigned choice, const message::ChatEvent& event,
                    const std::vector<message::TokenLogprob>& logprobs) = 0;
  [[nodiscard]] virtual json::Value whole(const message::Usage& usage) = 0;
};

}  // namespace tenon::api
