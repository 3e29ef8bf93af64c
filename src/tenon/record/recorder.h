#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tenon/base/expected.h"
#include "tenon/json/value.h"
#include "tenon/message/event.h"

/// Recordings: a file for each answer, as docs/recording.md describes it.
namespace tenon::record {

/// The version of the format: the member `recording` of a file's first line.
inline constexpr std::int64_t kVersion = 1;
/// A file ends before it is larger; what comes after is left out.
inline constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

struct RecorderOptions {
  std::string folder;
  std::string tenon_version;
  std::uint64_t max_bytes = std::uint64_t{1} << 30;  ///< For all files together.
  std::chrono::seconds max_age = std::chrono::hours(24 * 7);
  std::uint32_t logprobs = 0;  ///< How many of the likeliest tokens are kept with each token.
  std::size_t max_file_bytes = kMaxFileBytes;
  /// Which recording the answers are made from anew, as their first lines say it (`replay_of` in
  /// docs/recording.md); empty: these are answers to clients.
  json::Object replay_of{};
};

/// What stands in the first line.
struct Heading {
  std::string id;  ///< The answer's; its letters, digits, `-` and `_` become part of the name.
  std::string model;
  std::string path;
  bool is_stream = false;
  std::string_view request;  ///< The body as it came.
  /// What the store has of the ids that the request goes on from (api::FindResponse), by id; null:
  /// it goes on from none.
  const json::Object* found = nullptr;
};

class Recorder;

/// The file of one answer. It has texts and token ids if the log may have contents when the answer
/// begins (log::set_contents); else it has times, sizes and names of events. Thread-safe; nothing
/// here waits for the disk. A failure to write is logged once, and then nothing more is recorded.
class Recording {
 public:
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  [[nodiscard]] std::uint32_t logprobs() const;

  /// `strand` is the number of a choice, or one from inside(): its runs follow each other.
  void run(unsigned strand, const message::RunBegin& run);
  void made(unsigned strand, const message::MadeToken& token);
  void piece(unsigned strand, const message::MadePiece& piece);
  void upstream(unsigned strand, const message::UpstreamPart& part);
  void run_end(unsigned strand, const message::RunEnded& end);
  /// A strand for what is made inside of a choice, for `part` of it.
  [[nodiscard]] unsigned inside(unsigned choice, std::string_view part);
  void event(unsigned choice, const message::ChatEvent& event);
  void own_tools(unsigned choice, const message::OwnTools& tools);
  void tool_run(unsigned choice, const message::ToolRun& run);
  /// Bytes of the answer on their way to the client.
  void sent(std::string_view bytes);
  /// The answer is over; nothing may follow. `error` says why it failed, if no event has said it.
  void end(unsigned status, std::string_view error = {});

 private:
  friend class Recorder;
  struct State;
  explicit Recording(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;
};

/// Makes recordings in one folder and keeps the folder within its limits. Thread-safe.
class Recorder {
 public:
  /// Makes the folder if it is missing, for its owner only. Fails with `unavailable` if it cannot
  /// be written.
  [[nodiscard]] static Expected<std::shared_ptr<Recorder>> open(RecorderOptions options);
  /// Writes what is left.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  [[nodiscard]] std::shared_ptr<Recording> begin(const Heading& heading);
  [[nodiscard]] const std::string& folder() const;

 private:
  struct Impl;
  explicit Recorder(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;
};

}  // namespace tenon::record
