#pragma once

#include <cstdint>

namespace tenon::api {

/// How far an answer is. A whole answer goes from `starting` to `over`. A stream opens once all its
/// choices are started and one of them has told something; what comes before waits.
///
///     starting -> ready -> open -> ending -> over
///     starting -> begun -> open
///                 begun -> ending_early -> ending, or -> ended_early
///                 begun -> ended_early -> over
///
/// Each phase may also go to `over`, unless a worker writes the end: the request was refused, it
/// failed before anything was sent, or the client has gone.
enum class AnswerPhase : std::uint8_t {
  starting,      ///< Choices are being started, and none has told anything.
  begun,         ///< Choices are being started, and there was an event.
  ready,         ///< All are started; the stream opens with the next event.
  open,          ///< Events are written as they come.
  ending_early,  ///< All choices are over before the stream is open; a worker makes its end.
  ending,        ///< All choices are over; a worker writes the end of the stream.
  ended_early,   ///< The whole stream waits to be opened and sent.
  over,          ///< Nothing more is written.
};

/// Whether events of choices still count.
[[nodiscard]] constexpr bool is_running(AnswerPhase phase) {
  return phase <= AnswerPhase::open;
}

/// Whether bytes go to the client; else they wait.
[[nodiscard]] constexpr bool is_open(AnswerPhase phase) {
  return phase == AnswerPhase::open || phase == AnswerPhase::ending;
}

/// The legal changes.
[[nodiscard]] constexpr bool may_follow(AnswerPhase from, AnswerPhase to) {
  using enum AnswerPhase;
  switch (from) {
    case starting:
      return to == begun || to == ready || to == over;
    case begun:
      return to == open || to == ending_early || to == ended_early || to == over;
    case ready:
      return to == open || to == over;
    case open:
      return to == ending || to == over;
    case ending_early:
      return to == ending || to == ended_early;
    case ending:
    case ended_early:
      return to == over;
    case over:
      return false;
  }
  return false;
}

}  // namespace tenon::api
