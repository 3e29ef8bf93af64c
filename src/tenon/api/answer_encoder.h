#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/api/error.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

/// The interface of all encoders.
namespace tenon::api {

/// Writes the events of one answer in one client dialect: as a stream, or kept and written as one
/// document. Serves one answer, from one thread at a time. A stream gets whole server-sent events,
/// which are appended to `out`.
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
  /// Whether end() and whole() wait for the disk: then they are called on a worker. begin() may
  /// then come at the same time as end().
  [[nodiscard]] virtual bool ends_slowly() const { return false; }

  /// The dialect's names for fields that Chat Completions calls otherwise.
  [[nodiscard]] virtual std::span<const FieldName> field_names() const = 0;

  /// Called before begin() if the number of the prompt's tokens is known by then.
  virtual void set_prompt_tokens(std::uint64_t /*count*/) {}
  virtual void begin(std::string& out) = 0;
  virtual void add(unsigned choice, const message::ChatEvent& event,
                   const std::vector<message::TokenLogprob>& logprobs, std::string& out) = 0;
  /// `usage` is the sum over all choices.
  virtual void end(const message::Usage& usage, std::string& out) = 0;
  virtual void fail(const ApiError& error, std::string& out) = 0;
  /// An event without meaning, for a stream that has been silent for long.
  virtual void keep_alive(std::string& out) = 0;

  virtual void keep(unsigned choice, const message::ChatEvent& event,
                    const std::vector<message::TokenLogprob>& logprobs) = 0;
  [[nodiscard]] virtual json::Value whole(const message::Usage& usage) = 0;
};

}  // namespace tenon::api
