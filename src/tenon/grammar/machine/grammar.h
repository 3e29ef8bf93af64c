#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/expected.h"
#include "tenon/grammar/machine/machine.h"
#include "tenon/grammar/machine/mask_builder.h"
#include "tenon/grammar/machine/relaxed.h"
#include "tenon/grammar/machine/vocab_index.h"

namespace tenon::grammar {

/// A grammar over a vocabulary, ready for matching. All requests that use it share it, and use the
/// states and masks that others have made. Thread-safe: matchers take turns.
///
///     auto tokenizer = vocab::load_tokenizer("model/tokenizer.json");
///     auto vocab = vocab::Vocab::of(**tokenizer);
///     auto index = std::make_shared<VocabIndex>(*vocab);  // one for all grammars
///     auto schema = schema::Schema::compile(*json::parse(text));
///     auto grammar = Grammar::make(  // fails as all of these do; Matcher(*grammar) reads a text
///         [schema = *schema](Machine& machine) { return add_json(machine, schema, {}); }, index);
///
/// What texts have made of it is dropped when it takes too many bytes, and made again when texts
/// need it. Frames are made again too, because they remember what they have read. Matchers do not
/// notice. If a mask reaches a limit even then, it is refused at once when it is asked for again,
/// and the masks after it may take only half as many steps, down to a sixteenth.
class Grammar {
 public:
  /// Adds the grammar's frames to an empty machine and returns the root. It is called again when
  /// frames are made again, from any thread that uses the grammar, but not from two at a time.
  using Build = std::function<Expected<FrameId>(Machine&)>;
  struct Limits {
    MachineLimits machine;
    std::size_t max_bytes = std::size_t{48} << 20U;  ///< of what texts make, in addition to the
                                                     ///< frames
  };

  /// Fails as `build` does, and with `unsatisfiable` if no text can be read.
  [[nodiscard]] static Expected<std::shared_ptr<Grammar>> make(Build build,
                                                               std::shared_ptr<VocabIndex> index,
                                                               const Limits& limits);
  [[nodiscard]] static Expected<std::shared_ptr<Grammar>> make(Build build,
                                                               std::shared_ptr<VocabIndex> index) {
    return make(std::move(build), std::move(index), Limits{});
  }
  /// For frames that cannot be made again; a limit that was reached stays reached.
  [[nodiscard]] static Expected<std::shared_ptr<Grammar>> make(std::unique_ptr<Machine> machine,
                                                               FrameId root,
                                                               std::shared_ptr<VocabIndex> index);

  [[nodiscard]] const VocabIndex& index() const { return *index_; }
  /// What `build` has added to Machine::relaxed().
  [[nodiscard]] std::vector<Relaxed> relaxed() const;
  /// Without the index.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  friend class Matcher;

  struct Run {
    Run(std::unique_ptr<Machine> of, std::shared_ptr<VocabIndex> index)
        : machine(std::move(of)), masks(*machine, std::move(index)) {}
    std::unique_ptr<Machine> machine;
    MaskBuilder masks;
    StateId start = 0;
  };

  Grammar(Build build, std::shared_ptr<VocabIndex> index, const Limits& limits)
      : build_(std::move(build)), index_(std::move(index)), limits_(limits) {}

  // A limit that even a newly made machine has reached.
  struct Refusal {
    std::string read;  // the text that led there: Matcher::all_read()
    Error error;
    std::uint64_t fraction;  // of the steps of a mask
  };

  static constexpr std::size_t kLongestRefused = 10'000;  // longest remembered text
  static constexpr unsigned kMostHalvings = 2;

  // All of these are called with the lock.
  [[nodiscard]] const Error* refusal_after(std::string_view read) const;
  void refuse(std::string read, const Error& error);
  void count_filled_mask();
  [[nodiscard]] std::uint64_t mask_fraction() const;
  [[nodiscard]] bool has_failed() const { return build_ && run_->machine->error(); }
  Status begin(std::unique_ptr<Machine> machine, FrameId root);
  Status begin();
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] bool is_full();
  void make_room();

  Build build_;  // null: it cannot be made again
  std::shared_ptr<VocabIndex> index_;
  Limits limits_;
  mutable std::mutex mutex_;  // guards the members below
  std::unique_ptr<Run> run_;
  std::uint64_t epoch_ = 0;        // how often the machine was made
  bool is_fresh_ = false;          // no matcher has used it since it was made
  std::uint32_t until_look_ = 0;   // uses until the bytes are counted again
  std::size_t full_at_ = 0;        // the number of bytes that are too many
  std::vector<Refusal> refusals_;  // of masks, the most recent ones
  unsigned halvings_ = 0;          // of the steps of a mask: see mask_fraction()
  unsigned filled_ = 0;            // masks since the last halving was taken back
};

}  // namespace tenon::grammar
